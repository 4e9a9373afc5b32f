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
import { STRUCTURE } from './shape.ts';
import type { Text } from './text.ts';

export interface Model {
  /** By bucket; a unit of `scale`. */
  readonly words: Int8Array;
  readonly scale: number;
  /** In the order of STRUCTURE. */
  readonly structure: Float32Array;
  /** What a text of which nothing is known has. */
  readonly bias: number;
}

const head = z.object({ scale: z.number(), bias: z.number(), structure: z.record(z.string(), z.number()) });

/** Where the shipped model lies. */
export const MODEL_FILE = new URL('model.br', import.meta.url);

/** Reads a model: a line of JSON and a byte for each bucket, compressed (Brotli). Takes some 10 ms. */
export function readModel(file: URL = MODEL_FILE): Model {
  const bytes = brotliDecompressSync(readFileSync(file), { maxOutputLength: 2 * BUCKETS });
  const end = bytes.indexOf(10);
  const { scale, bias, structure } = head.parse(JSON.parse(bytes.toString('utf8', 0, end)));
  const words = new Int8Array(bytes.subarray(end + 1));
  if (words.length !== BUCKETS) throw new Error(`The spam model has ${words.length} weights instead of ${BUCKETS}.`);
  return { words, scale, bias, structure: Float32Array.from(STRUCTURE, (name) => structure[name] ?? 0) };
}

/** Points for log-odds: tenths of the power of ten. */
export const POINTS = 10 / Math.LN10;

/** The log-odds that the text is spam, by its words and by how it is built. */
export function logOdds(model: Model, { tokens, structure }: Features): { words: number; structure: number } {
  let sum = 0;
  for (const token of tokens) sum += model.words[token] ?? 0;
  let built = 0;
  for (const place of structure) built += model.structure[place] ?? 0;
  return { words: model.bias + sum * model.scale * shareOf(tokens.length), structure: built };
}

const MAX_WORD_POINTS = 60;
const MAX_STRUCTURE_POINTS = 40;
const MAX_LEARNED_POINTS = 40;
const MAX_LISTED = 6;

/** What the text says, by the shipped model and by what the project has learned. */
export type TextFilter = (text: Text, features: Features, learned?: Weights) => Reason[];

export function createTextFilter(model: Model, extract: Extract): TextFilter {
  return (text, features, learned) => {
    const odds = logOdds(model, features);
    const words = bounded(odds.words, MAX_WORD_POINTS);
    const structure = bounded(odds.structure, MAX_STRUCTURE_POINTS);
    const known = learned === undefined ? 0 : bounded(learnedOdds(learned, features), MAX_LEARNED_POINTS);
    const reasons: Reason[] = [];
    if (words !== 0) reasons.push({ name: 'words', score: words, detail: words > 0 ? wordsFor(text) : HONEST });
    if (structure !== 0) reasons.push({ name: 'structure', score: structure, detail: placesFor(features, structure) });
    if (known !== 0) reasons.push({ name: 'learned', score: known, detail: known > 0 ? 'like what was marked as spam' : 'like what was released' });
    return reasons;
  };

  /** The words that say most. */
  function wordsFor({ text }: Text): string {
    const weights = new Map<string, number>();
    for (const { bucket, word } of extract.located(text.slice(0, 4096))) {
      weights.set(word, Math.max(weights.get(word) ?? 0, model.words[bucket] ?? 0));
    }
    const most = [...weights].filter(([, weight]) => weight > 0).sort((a, b) => b[1] - a[1]);
    const listed = most.slice(0, MAX_LISTED).map(([word]) => word.slice(0, 30));
    return listed.length === 0 ? 'nothing that honest mail has' : listed.join(', ');
  }

  /** The signs that say most for what their sum says. */
  function placesFor(features: Features, points: number): string {
    const sign = Math.sign(points);
    const most = features.structure
      .map((place) => ({ name: STRUCTURE[place] ?? '', weight: sign * (model.structure[place] ?? 0) }))
      .filter(({ weight }) => weight > 0)
      .sort((a, b) => b.weight - a.weight);
    return most.slice(0, MAX_LISTED).map(({ name }) => name).join(', ');
  }
}

const HONEST = 'as in honest mail';

function bounded(odds: number, most: number): number {
  return Math.max(-most, Math.min(most, Math.round(odds * POINTS)));
}
