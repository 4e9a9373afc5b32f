/**
 * Fits a model of the text filter: logistic regression by AdaGrad, with words left out at random, so that no text hangs on
 * a few, and weights that L1 draws to zero.
 */
import { BUCKETS, KINDS, namesOf, shareOf, STRUCTURE, type Model } from '../../src/forms/spam/model.ts';
import type { Example } from './examples.ts';
import type { Random } from './random.ts';

const EPOCHS = 8;
const RATE = 0.15;
const STRUCTURE_RATE = 0.2;
const L1 = 2e-6;
const L2 = 1e-6;
const STRUCTURE_L2 = 1e-4;
/** Of the words of a text, at each look. */
const LEFT_OUT = 0.35;
/** Honest mail that is blocked is worse than spam that is not. */
const HAM_WEIGHT = 1.5;
const MAX_WEIGHT = 12;
/** No sign by itself says more, in log-odds: so that no one word of a trade blocks. */
const MAX_SIGN = 0.5;

export function fit(all: readonly Example[], random: Random): Model {
  /** What has one weight each, whatever the text is long. */
  const signs = [...STRUCTURE, ...KINDS, ...KINDS.map((kind) => `${kind} +`)];
  const placeOf = new Map<string, number>(signs.map((name, place) => [name, place]));
  const places = all.map(({ features }) =>
    [...features.structure, ...namesOf(features.phrases)].flatMap((name) => placeOf.get(name) ?? []),
  );
  const words = new Float32Array(BUCKETS);
  const wordSquares = new Float32Array(BUCKETS).fill(1e-4);
  const structure = new Float32Array(signs.length);
  const structureSquares = new Float32Array(signs.length).fill(1);
  let bias = 0;
  const looks = all.flatMap(({ repeats }, index) => Array.from({ length: repeats }, () => index));
  for (let epoch = 0; epoch < EPOCHS; epoch++) {
    for (const index of random.shuffle(looks)) {
      const example = all[index];
      if (example === undefined) continue;
      const tokens = example.features.tokens.filter(() => random.next() >= LEFT_OUT);
      const share = shareOf(tokens.length);
      const own = places[index] ?? [];
      let odds = bias;
      for (const token of tokens) odds += (words[token] ?? 0) * share;
      for (const place of own) odds += structure[place] ?? 0;
      const slope = (1 / (1 + Math.exp(-odds)) - (example.isSpam ? 1 : 0)) * (example.isSpam ? 1 : HAM_WEIGHT);
      bias -= 0.01 * slope;
      for (const token of tokens) {
        const weight = words[token] ?? 0;
        const gradient = slope * share + L2 * weight;
        const squares = (wordSquares[token] ?? 0) + gradient * gradient;
        wordSquares[token] = squares;
        const rate = RATE / Math.sqrt(squares);
        const next = weight - rate * gradient;
        const drawn = Math.sign(next) * Math.max(0, Math.abs(next) - rate * L1);
        words[token] = Math.max(-MAX_WEIGHT, Math.min(MAX_WEIGHT, drawn));
      }
      for (const place of own) {
        const weight = structure[place] ?? 0;
        const gradient = slope + STRUCTURE_L2 * weight;
        const squares = (structureSquares[place] ?? 0) + gradient * gradient;
        structureSquares[place] = squares;
        const next = weight - (STRUCTURE_RATE / Math.sqrt(squares)) * gradient;
        structure[place] = Math.max(-MAX_SIGN, Math.min(MAX_SIGN, next));
      }
    }
  }
  const scale = MAX_WEIGHT / 127;
  const named = signs.map((name, place) => [name, Number((structure[place] ?? 0).toFixed(3))] as const);
  return {
    words: Int8Array.from(words, (weight) => Math.round(weight / scale)),
    scale,
    structure: new Map(named.slice(0, STRUCTURE.length)),
    phrases: new Map(named.slice(STRUCTURE.length)),
    bias: Number(bias.toFixed(3)),
  };
}

/** One model of several: what each makes of chance evens out. */
export function average(models: readonly Model[]): Model {
  const [first] = models;
  if (first === undefined) throw new Error('There is no model.');
  function mean(valueOf: (model: Model) => number): number {
    return models.reduce((sum, model) => sum + valueOf(model), 0) / models.length;
  }
  function meanOf(
    mapOf: (model: Model) => ReadonlyMap<string, number>,
    { keys }: { keys: Iterable<string> },
  ): Map<string, number> {
    return new Map([...keys].map((name) => [name, mean((model) => mapOf(model).get(name) ?? 0)]));
  }
  return {
    scale: first.scale,
    bias: mean(({ bias }) => bias),
    words: first.words.map((_, bucket) => Math.round(mean(({ words }) => words[bucket] ?? 0))),
    structure: meanOf(({ structure }) => structure, { keys: first.structure.keys() }),
    phrases: meanOf(({ phrases }) => phrases, { keys: first.phrases.keys() }),
  };
}
