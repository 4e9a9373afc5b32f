/**
 * The text filter: how likely a text is spam by its words and by how it is built. Each word, pair of words and sign has a
 * weight; the shipped ones were fitted to a corpus by scripts/train-spam.ts, and a project's own decisions are added to
 * them. Reading a text is one look-up for each word and pair.
 */
import { readFileSync } from 'node:fs';
import { brotliDecompressSync, deflateRawSync, inflateRawSync } from 'node:zlib';
import { z } from 'zod';
import type { Snapshot } from '../../config/snapshot.ts';
import type { Clock } from '../../lib/clock.ts';
import { errorFields } from '../../lib/errors.ts';
import type { Log } from '../../lib/log.ts';
import { LruMap } from '../../lib/lru.ts';
import { findRevision } from '../../store/projects.ts';
import { findLearned, insertLearned, noteLearned, updateLearned } from '../../store/spam.ts';
import type { Statement } from '../../store/statement.ts';
import type { Store } from '../../store/store.ts';
import { listSubmissions } from '../../store/submission-list.ts';
import type { SubmissionRow } from '../../store/tables.ts';
import { readControl, readFields } from '../fields.ts';
import { findFormOf } from '../find.ts';
import { BUCKETS, extract, located, shareOf, type Features, type Phrase } from './features.ts';
import type { Reason } from './signs.ts';
import { readText, type Text } from './text.ts';

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

const weightTable = z.record(z.string(), z.number());
const head = z.object({ scale: z.number(), bias: z.number(), structure: weightTable, phrases: weightTable });

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
interface LogOdds {
  readonly words: number;
  readonly structure: number;
  readonly phrases: number;
}

/** The log-odds that the text is spam. */
function logOdds(model: Model, { tokens, structure, phrases }: Features): LogOdds {
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
type TextFilter = (text: Text, features: Features, learned?: Weights) => Reason[];

export function createTextFilter(model: Model): TextFilter {
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
    for (const { bucket, word } of located(text.slice(0, 4096))) {
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

// What a project has learned: weights of words that are added to those of the shipped model, which is where every project
// starts. A decision moves the weights of the words of its submission just so far that it would have been decided so, and
// never so far that what the form accepted lately would be spam.

/** Words share these: a power of two. */
const LEARNED_BUCKETS = 2 ** 16;
/** What a unit of a weight is, in log-odds of a text with one word. */
const UNIT = 0.025;
const MAX_WEIGHT = 127;

/** By bucket, in units. */
export type Weights = Int8Array;

/** Nothing learned yet. */
function noWeights(): Weights {
  return new Int8Array(LEARNED_BUCKETS);
}

function writeWeights(weights: Weights): Uint8Array {
  return deflateRawSync(weights);
}

function readWeights(bytes: Uint8Array): Weights {
  const weights = new Int8Array(inflateRawSync(bytes, { maxOutputLength: LEARNED_BUCKETS }));
  return weights.length === LEARNED_BUCKETS ? weights : noWeights();
}

/** The log-odds that a text is spam, which the project's decisions add. */
function learnedOdds(weights: Weights, { tokens }: Pick<Features, 'tokens'>): number {
  let sum = 0;
  for (const token of tokens) sum += weights[token % LEARNED_BUCKETS] ?? 0;
  return sum * UNIT * shareOf(tokens.length);
}

/** A submission, and what all but the learned weights say of it, in log-odds. */
interface Lesson {
  readonly features: Pick<Features, 'tokens'>;
  readonly odds: number;
}

interface Decision extends Lesson {
  readonly isSpam: boolean;
  /** What the form accepted lately. */
  readonly accepted: readonly Lesson[];
}

/** Sure enough, in log-odds: beyond either threshold. */
const MARGIN = 3.5;
/** What was accepted stays below this, where it was before. */
const HONEST_MARGIN = -1;
/** One decision says no more than that, however wrong the filter was. */
const MAX_STEP = 10;
const ROUNDS = 4;

/** The weights after the decision; those given stay as they are. */
function learn(before: Weights, { features, odds, isSpam, accepted }: Decision): Weights {
  const weights = Int8Array.from(before);
  const margins = accepted.map((lesson) => Math.max(HONEST_MARGIN, lesson.odds + learnedOdds(before, lesson.features)));
  for (let round = 0; round < ROUNDS; round++) {
    const now = odds + learnedOdds(weights, features);
    const missing = isSpam ? Math.max(0, MARGIN - now) : Math.min(0, -MARGIN - now);
    move(weights, features, Math.max(-MAX_STEP, Math.min(MAX_STEP, missing)));
    if (!isSpam) break;
    for (const [index, lesson] of accepted.entries()) {
      const above = lesson.odds + learnedOdds(weights, lesson.features) - (margins[index] ?? 0);
      if (above > 0) move(weights, lesson.features, -above);
    }
  }
  return weights;
}

/** Moves the log-odds of the text by so much, all its words alike. */
function move(weights: Weights, { tokens }: Lesson['features'], odds: number): void {
  if (odds === 0 || tokens.length === 0) return;
  const counts = new Map<number, number>();
  for (const token of tokens) counts.set(token % LEARNED_BUCKETS, (counts.get(token % LEARNED_BUCKETS) ?? 0) + 1);
  const step = odds / (UNIT * shareOf(tokens.length) * tokens.length);
  for (const bucket of counts.keys()) {
    const next = Math.round((weights[bucket] ?? 0) + step);
    weights[bucket] = Math.max(-MAX_WEIGHT, Math.min(MAX_WEIGHT, next));
  }
}

// Learns from the owners of forms: what they call spam, and what they release. It is kept in the database for each project,
// in the unit that marks the submission, so that a decision is learned once or not made. Weights that are in use are held in
// memory; those that another daemon has learned are active here within a minute.

interface ProjectKey {
  readonly tenant: string;
  /** Its slug; empty for forms that the API made. */
  readonly project: string;
}

/** What a decision adds to the unit that makes it. */
interface Learned {
  /** They fail their unit where this, or another decision of the project, was learned meanwhile. */
  readonly statements: readonly Statement[];
  /** Called once the unit is committed. */
  readonly committed: () => void;
}

export interface Learning {
  /** What the project has learned; a promise only at its first use, which never rejects. */
  weightsOf(key: ProjectKey): Weights | undefined | Promise<Weights | undefined>;
  /** Learns that the submission is spam, or that it is not. */
  learn(row: SubmissionRow, isSpam: boolean): Promise<Learned>;
}

interface LearningParts {
  readonly store: Store;
  readonly clock: Clock;
  readonly log: Log;
  readonly snapshot: () => Snapshot;
  readonly model: Model;
}

/** Projects whose weights are held, 64 KiB each. */
const MAX_PROJECTS = 100;
const FRESH_MS = 60_000;
/** So many of the submissions that the form accepted last must not become spam. */
const ACCEPTED = 40;
/** The same for texts that are longer than most: what is read of them at a decision is bounded. */
const MAX_FIELDS_LENGTH = 20_000;

interface Held {
  weights: Weights | undefined;
  loadedAt: number;
  isLoading: boolean;
}

export function createLearning({ store, clock, log, snapshot, model }: LearningParts): Learning {
  const held = new LruMap<Held>(MAX_PROJECTS);

  async function load({ tenant, project }: ProjectKey): Promise<Weights | undefined> {
    const row = await findLearned(store, tenant, project);
    return row && readWeights(row.weights);
  }

  async function refresh(key: ProjectKey, name: string): Promise<Weights | undefined> {
    const entry = held.get(name) ?? { weights: undefined, loadedAt: 0, isLoading: false };
    entry.isLoading = true;
    try {
      entry.weights = await load(key);
      held.set(name, entry);
    } catch (error) {
      // Without what was learned, the shipped model decides: no lead is refused for it.
      log.error('spam.learned_not_read', { ...key, ...errorFields(error) });
    } finally {
      entry.loadedAt = clock.monotonic();
      entry.isLoading = false;
    }
    return entry.weights;
  }

  function lessonOf({ fields, control, domain }: SubmissionRow): Lesson {
    const features = extract(readText({ fields: readFields(fields), control: readControl(control) }, domain));
    const { words, structure, phrases } = logOdds(model, features);
    return { features, odds: words + structure + phrases };
  }

  /** That of the form as it is now; where it is gone, as it was then. */
  async function projectOf({ tenant, form: id, revision }: SubmissionRow): Promise<ProjectKey> {
    const form = await findFormOf({ tenant, id }, snapshot(), store);
    if (form !== undefined) return { tenant, project: form.project?.slug ?? '' };
    const found = revision === '' ? undefined : await findRevision(store, revision);
    return { tenant, project: found?.slug ?? '' };
  }

  return {
    weightsOf(key) {
      const name = nameOf(key);
      const entry = held.get(name);
      if (entry === undefined) return refresh(key, name);
      if (!entry.isLoading && clock.monotonic() - entry.loadedAt > FRESH_MS) void refresh(key, name);
      return entry.weights;
    },
    async learn(row, isSpam) {
      const lesson = lessonOf(row);
      // Its text is not stored: there is nothing to learn from.
      if (lesson.features.tokens.length === 0) return { statements: [], committed: () => undefined };
      const key = await projectOf(row);
      const known = await findLearned(store, key.tenant, key.project);
      const { rows } = await listSubmissions(
        store,
        { tenant: row.tenant, form: row.form, status: 'accepted' },
        { limit: ACCEPTED },
      );
      const accepted = rows.filter(({ id, fields }) => id !== row.id && fields.length <= MAX_FIELDS_LENGTH);
      const before = known === undefined ? noWeights() : readWeights(known.weights);
      const weights = learn(before, { ...lesson, isSpam, accepted: accepted.map(lessonOf) });
      const next = {
        ...key,
        weights: writeWeights(weights),
        decisions: (known?.decisions ?? 0) + 1,
        updated_at: clock.now(),
      };
      return {
        statements: [
          noteLearned({ id: row.id, learned: isSpam ? 'spam' : 'ham' }, 1),
          known === undefined ? insertLearned(next, 1) : updateLearned({ ...next, before: known.decisions }, 1),
        ],
        committed: () => held.set(nameOf(key), { weights, loadedAt: clock.monotonic(), isLoading: false }),
      };
    },
  };
}

function nameOf({ tenant, project }: ProjectKey): string {
  return `${tenant}/${project}`;
}
