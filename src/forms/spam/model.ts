/**
 * The text filter: how likely a text is spam by its words and by how it is built. Each word, pair of words and sign has a
 * weight; the shipped ones were fitted to a corpus by scripts/train-spam.ts, and a project's own decisions are added to
 * them. Reading a text is one look-up for each word and pair.
 */
import { readFileSync } from 'node:fs';
import { brotliDecompressSync } from 'node:zlib';
import { z } from 'zod';
import { BUCKETS, shareOf, type Extract, type Features } from './features.ts';
import { learnedOdds, type Weights } from './learned.ts';
import type { Reason } from './reasons.ts';
import type { Phrase } from './phrases.ts';
import type { Text } from './text.ts';

export interface Model {
  /** By bucket; a unit of `scale`. */
  readonly words: Int8Array;
  readonly scale: number;
  /** By name, of how a text is built. */
  readonly structure: ReadonlyMap<string, number>;
  /** By kind, of one phrase; of several, `<kind> +` is added. */
  readonly phrases: ReadonlyMap<string, number>;
  /** What a text of which nothing is known has. */
  readonly bias: number;
}

const weights = z.record(z.string(), z.number());
const head = z.object({ scale: z.number(), bias: z.number(), structure: weights, phrases: weights });

/** Where the shipped model lies. */
export const MODEL_FILE = new URL('model.br', import.meta.url);

/** Reads a model: a line of JSON and a byte for each bucket, compressed (Brotli). Takes some 10 ms. */
export function readModel(file: URL = MODEL_FILE): Model {
  const bytes = brotliDecompressSync(readFileSync(file), { maxOutputLength: 2 * BUCKETS });
  const end = bytes.indexOf(10);
  const { scale, bias, structure, phrases } = head.parse(JSON.parse(bytes.toString('utf8', 0, end)));
  const words = new Int8Array(bytes.subarray(end + 1));
  if (words.length !== BUCKETS) throw new Error(`The spam model has ${words.length} weights instead of ${BUCKETS}.`);
  return {
    words,
    scale,
    bias,
    structure: new Map(Object.entries(structure)),
    phrases: new Map(Object.entries(phrases)),
  };
}

/** Points for log-odds: tenths of the power of ten. */
const POINTS = 10 / Math.LN10;

/** A text of fewer words and pairs says little. */
const SURE_TOKENS = 12;
/** Of the words and pairs of a text, so many are known where its language is. */
const MIN_KNOWN = 0.4;
/** What is taken off the log-odds of a text without one word that is known. */
const STRANGE = 5;

/** What of a text speaks for spam, or against it, in log-odds; their sum is that of the text. */
export interface LogOdds {
  readonly words: number;
  readonly structure: number;
  readonly phrases: number;
}

/** The log-odds that the text is spam. */
export function logOdds(model: Model, { tokens, structure, phrases }: Features): LogOdds {
  let sum = 0;
  let known = 0;
  for (const token of tokens) {
    const weight = model.words[token] ?? 0;
    sum += weight;
    if (weight !== 0) known++;
  }
  let built = 0;
  for (const name of structure) built += model.structure.get(name) ?? 0;
  let said = 0;
  for (const name of namesOf(phrases)) said += model.phrases.get(name) ?? 0;
  // Of a language that it does not know, the model knows nothing: most mail is honest.
  const strange = Math.max(0, MIN_KNOWN - known / Math.max(tokens.length, 1)) / MIN_KNOWN;
  const sure = Math.min(1, tokens.length / SURE_TOKENS);
  const words = model.bias + sure * sum * model.scale * shareOf(tokens.length) - STRANGE * Math.max(strange, 1 - sure);
  return { words, structure: built, phrases: said };
}

/** The kinds of phrases, and `<kind> +` for each with several. */
export function namesOf(phrases: ReadonlySet<Phrase>): ReadonlySet<string> {
  const names = new Set<string>();
  for (const { kind } of phrases) names.add(names.has(kind) ? `${kind} +` : kind);
  return names;
}

const MAX_WORD_POINTS = 60;
const MAX_STRUCTURE_POINTS = 40;
const MAX_PHRASE_POINTS = 40;
const MAX_LEARNED_POINTS = 40;
const MAX_LISTED = 6;

/** What the text says, by the shipped model and by what the project has learned. */
export type TextFilter = (text: Text, features: Features, learned?: Weights) => Reason[];

export function createTextFilter(model: Model, extract: Extract): TextFilter {
  return (text, features, learned) => {
    const odds = logOdds(model, features);
    const words = bounded(odds.words, MAX_WORD_POINTS);
    const structure = bounded(odds.structure, MAX_STRUCTURE_POINTS);
    const phrases = bounded(odds.phrases, MAX_PHRASE_POINTS);
    const known = learned === undefined ? 0 : bounded(learnedOdds(learned, features), MAX_LEARNED_POINTS);
    const reasons: Reason[] = [];
    if (words !== 0) reasons.push({ name: 'words', score: words, detail: words > 0 ? wordsFor(text) : HONEST });
    if (structure !== 0)
      reasons.push({ name: 'structure', score: structure, detail: placesFor(features, structure) || 'several signs' });
    if (phrases !== 0)
      reasons.push({ name: 'phrases', score: phrases, detail: phrasesFor(features, phrases) || 'several phrases' });
    if (known !== 0)
      reasons.push({
        name: 'learned',
        score: known,
        detail: known > 0 ? 'like what was marked as spam' : 'like what was released',
      });
    return reasons;
  };

  /** The words that say most. */
  function wordsFor({ text }: Text): string {
    const weights = new Map<string, number>();
    for (const { bucket, word } of extract.located(text.slice(0, 4096))) {
      weights.set(word, Math.max(weights.get(word) ?? 0, model.words[bucket] ?? 0));
    }
    return (
      listed(
        [...weights],
        ([, weight]) => weight,
        ([word]) => word,
      ) || 'nothing that honest mail has'
    );
  }

  /** The signs that say most for what their sum says. */
  function placesFor({ structure }: Features, points: number): string {
    return listed(structure, (name) => Math.sign(points) * (model.structure.get(name) ?? 0));
  }

  function phrasesFor({ phrases }: Features, points: number): string {
    return listed(
      [...phrases],
      ({ kind }) => Math.sign(points) * (model.phrases.get(kind) ?? 0),
      ({ text }) => text,
    );
  }
}

/** The weightiest, as long as they have any weight. */
function listed<T>(all: readonly T[], weightOf: (one: T) => number, nameOf: (one: T) => string = String): string {
  const most = all.map((one) => ({ one, weight: weightOf(one) })).filter(({ weight }) => weight > 0);
  return most
    .sort((a, b) => b.weight - a.weight)
    .slice(0, MAX_LISTED)
    .map(({ one }) => nameOf(one).slice(0, 60))
    .join(', ');
}

const HONEST = 'as in honest mail';

function bounded(odds: number, most: number): number {
  return Math.max(-most, Math.min(most, Math.round(odds * POINTS)));
}
