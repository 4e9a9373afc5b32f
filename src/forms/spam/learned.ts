/**
 * What a project has learned: weights of words that are added to those of the shipped model, which is where every project
 * starts. A decision moves the weights of the words of its submission just so far that it would have been decided so, and
 * never so far that what the project accepted lately would be spam.
 */
import { deflateRawSync, inflateRawSync } from 'node:zlib';
import { shareOf, type Features } from './features.ts';

/** Words share these: a power of two. */
const BUCKETS = 2 ** 16;
/** What a unit of a weight is, in log-odds of a text with one word. */
const UNIT = 0.025;
const MAX_WEIGHT = 127;

/** By bucket, in units. */
export type Weights = Int8Array;

/** Nothing learned yet. */
export function noWeights(): Weights {
  return new Int8Array(BUCKETS);
}

export function writeWeights(weights: Weights): Uint8Array {
  return deflateRawSync(weights);
}

export function readWeights(bytes: Uint8Array): Weights {
  const weights = new Int8Array(inflateRawSync(bytes, { maxOutputLength: BUCKETS }));
  return weights.length === BUCKETS ? weights : noWeights();
}

/** The log-odds that a text is spam, which the project's decisions add. */
export function learnedOdds(weights: Weights, { tokens }: Pick<Features, 'tokens'>): number {
  let sum = 0;
  for (const token of tokens) sum += weights[token % BUCKETS] ?? 0;
  return sum * UNIT * shareOf(tokens.length);
}

/** A submission, and what all but the learned weights say of it, in log-odds. */
export interface Lesson {
  readonly features: Pick<Features, 'tokens'>;
  readonly odds: number;
}

export interface Decision extends Lesson {
  readonly isSpam: boolean;
  /** What the project accepted lately. */
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
export function learn(before: Weights, { features, odds, isSpam, accepted }: Decision): Weights {
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
  for (const token of tokens) counts.set(token % BUCKETS, (counts.get(token % BUCKETS) ?? 0) + 1);
  const step = odds / (UNIT * shareOf(tokens.length) * tokens.length);
  for (const bucket of counts.keys()) {
    const next = Math.round((weights[bucket] ?? 0) + step);
    weights[bucket] = Math.max(-MAX_WEIGHT, Math.min(MAX_WEIGHT, next));
  }
}
