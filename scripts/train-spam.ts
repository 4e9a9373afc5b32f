/**
 * `sh bin/run scripts/train-spam.ts CORPUS…`: fits the model of the text filter to labelled submissions, one JSON object a
 * line (`label`, `language`, `source`, `fields`), and writes it to src/forms/spam/model.br. With `--folds 5` it first says
 * how good models are at texts of sources that they were not fitted to. The same corpus gives the same model.
 *
 * Logistic regression by AdaGrad, with words left out at random, so that no text hangs on a few, and weights that L1 draws to zero.
 */
import { readFileSync, writeFileSync } from 'node:fs';
import { parseArgs } from 'node:util';
import { brotliCompressSync, constants } from 'node:zlib';
import { z } from 'zod';
import { formSchema } from '../src/config/schema.ts';
import { createSpamCheck, createTools, type SpamCheck } from '../src/forms/spam/filter.ts';
import { BUCKETS, shareOf, type Features } from '../src/forms/spam/features.ts';
import { MODEL_FILE, namesOf, type Model } from '../src/forms/spam/model.ts';
import { STRUCTURE } from '../src/forms/spam/shape.ts';
import { readText } from '../src/forms/spam/text.ts';

const line = z.object({
  label: z.enum(['ham', 'spam']),
  language: z.string(),
  source: z.string(),
  fields: z.array(z.tuple([z.string(), z.string()])),
});

interface Example {
  readonly fields: z.output<typeof line>['fields'];
  readonly isSpam: boolean;
  readonly source: string;
  readonly language: string;
  readonly features: Features;
  /** Places in `signs`. */
  readonly places: readonly number[];
}

const EPOCHS = 8;
/** Fitted one after the other, each in another order. */
const MODELS = 3;
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
const MAX_SIGN = 2;
const MIN_LINE_LENGTH = 30;
const SPAM_REPEATS = 4;
const HAM_REPEATS = 32;

const { values: options, positionals: files } = parseArgs({
  options: { folds: { type: 'string', default: '0' }, seed: { type: 'string', default: '1' } },
  allowPositionals: true,
});
if (files.length === 0) {
  console.error('Usage: train-spam.ts [--folds 5] [--seed 1] CORPUS…');
  process.exit(64);
}

const random = createRandom(Number(options.seed));
const tools = createTools();
const { extract } = tools;
/** What has one weight each, whatever the text is long. */
const signs = [...STRUCTURE, ...extract.kinds, ...extract.kinds.map((kind) => `${kind} +`)];
const placeOf = new Map<string, number>(signs.map((name, place) => [name, place]));
const config = formSchema.parse({});
const FORM = { config, domain: 'site.example', id: 'site.example/contact', tenant: 'ten_1', project: undefined };
const examples = [...files.flatMap(readExamples), ...readLines()];
console.log(`${examples.length} submissions, ${examples.filter(({ isSpam }) => isSpam).length} of them spam`);
if (Number(options.folds) > 1) crossValidate(Number(options.folds));
write(average(Array.from({ length: MODELS }, () => fit(examples))));

function readExamples(file: string): Example[] {
  return readFileSync(file, 'utf8')
    .split('\n')
    .filter((text) => text !== '')
    .map((text) => {
      return exampleOf(line.parse(JSON.parse(text)));
    });
}

function exampleOf({ label, language, source, fields }: z.output<typeof line>): Example {
  const features = extract(readText({ fields, control: {} }, 'site.example', config));
  const names = [...features.structure, ...namesOf(features.phrases)];
  const places = names.flatMap((name) => placeOf.get(name) ?? []);
  return { isSpam: label === 'spam', source, language, fields, features, places };
}

/** The texts of scripts/spam-corpus/lines.txt, and of offers every two sentences, each as a submission of its own. */
function readLines(): Example[] {
  const found = readFileSync(new URL('spam-corpus/lines.txt', import.meta.url), 'utf8').matchAll(
    /^(ham|spam) (..) (.+)$/gm,
  );
  return [...found].flatMap(([, name = '', language = '', text = ''], index) => {
    const label = line.shape.label.parse(name);
    const sentences = label === 'ham' ? [] : text.split(/(?<=[.!?。؟])\s*/);
    const parts = [text, ...sentences.map((_, at) => sentences.slice(at, at + 2).join(' '))];
    const repeats = label === 'ham' ? HAM_REPEATS : SPAM_REPEATS;
    return parts
      .filter(({ length }) => length >= MIN_LINE_LENGTH)
      .flatMap((message) => Array.from({ length: repeats }, () => message))
      .map((message) => exampleOf({ label, language, source: `lines/${index}`, fields: [['message', message]] }));
  });
}

function fit(all: readonly Example[]): Model {
  const words = new Float32Array(BUCKETS);
  const wordSquares = new Float32Array(BUCKETS).fill(1e-4);
  const structure = new Float32Array(signs.length);
  const structureSquares = new Float32Array(signs.length).fill(1);
  let bias = 0;
  const order = all.map((_, index) => index);
  for (let epoch = 0; epoch < EPOCHS; epoch++) {
    shuffle(order);
    for (const index of order) {
      const example = all[index];
      if (example === undefined) continue;
      const { isSpam, features, places } = example;
      const tokens = features.tokens.filter(() => random() >= LEFT_OUT);
      const share = shareOf(tokens.length);
      let odds = bias;
      for (const token of tokens) odds += (words[token] ?? 0) * share;
      for (const place of places) odds += structure[place] ?? 0;
      const slope = (1 / (1 + Math.exp(-odds)) - (isSpam ? 1 : 0)) * (isSpam ? 1 : HAM_WEIGHT);
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
      for (const place of places) {
        const weight = structure[place] ?? 0;
        const gradient = slope + STRUCTURE_L2 * weight;
        const squares = (structureSquares[place] ?? 0) + gradient * gradient;
        structureSquares[place] = squares;
        const next = weight - (STRUCTURE_RATE / Math.sqrt(squares)) * gradient;
        structure[place] = Math.max(-MAX_SIGN, Math.min(MAX_SIGN, next));
      }
    }
  }
  return quantised(words, structure, bias);
}

function quantised(words: Float32Array, weights: Float32Array, bias: number): Model {
  const scale = MAX_WEIGHT / 127;
  const named = signs.map((name, place) => [name, Number((weights[place] ?? 0).toFixed(3))] as const);
  return {
    words: Int8Array.from(words, (weight) => Math.round(weight / scale)),
    scale,
    structure: new Map(named.slice(0, STRUCTURE.length)),
    phrases: new Map(named.slice(STRUCTURE.length)),
    bias: Number(bias.toFixed(3)),
  };
}

/** One model of several: what each makes of chance evens out. */
function average(models: readonly Model[]): Model {
  const [first] = models;
  if (first === undefined) throw new Error('There is no model.');
  function mean(valueOf: (model: Model) => number): number {
    return models.reduce((sum, model) => sum + valueOf(model), 0) / models.length;
  }
  return {
    scale: first.scale,
    bias: mean(({ bias }) => bias),
    words: first.words.map((_, bucket) => Math.round(mean(({ words }) => words[bucket] ?? 0))),
    structure: new Map(
      [...first.structure.keys()].map((name) => [name, mean(({ structure }) => structure.get(name) ?? 0)]),
    ),
    phrases: new Map([...first.phrases.keys()].map((name) => [name, mean(({ phrases }) => phrases.get(name) ?? 0)])),
  };
}

function crossValidate(folds: number): void {
  const sources = [...new Set(examples.map(({ source }) => source))];
  shuffle(sources);
  const foldOf = new Map(sources.map((source, index) => [source, index % folds]));
  const scored = Array.from({ length: folds }, (_, fold) => {
    const trained = fit(examples.filter(({ source }) => foldOf.get(source) !== fold));
    const check = createSpamCheck({ tools, model: trained });
    return examples
      .filter(({ source }) => foldOf.get(source) === fold)
      .map((example) => ({ example, points: pointsOf(check, example) }));
  }).flat();
  const ham = scored.filter(({ example }) => !example.isSpam).sort((a, b) => b.points - a.points);
  const spam = scored.filter(({ example }) => example.isSpam);
  for (const share of [0.001, 0.003, 0.01, 0.02]) {
    const threshold = ham[Math.floor(ham.length * share)]?.points ?? 0;
    const caught = spam.filter(({ points }) => points > threshold).length;
    console.log(
      `${share * 100} % of honest above ${threshold}: ${((100 * caught) / spam.length).toFixed(1)} % of spam`,
    );
  }
  const bySource = new Map<string, number[]>();
  for (const { example, points } of scored) {
    const list = bySource.get(`${example.isSpam ? 'spam' : 'ham'} ${example.source}`) ?? [];
    bySource.set(`${example.isSpam ? 'spam' : 'ham'} ${example.source}`, [...list, points]);
  }
  const means = [...bySource].map(([name, odds]) => [name, odds.reduce((a, b) => a + b, 0) / odds.length] as const);
  function worst(kind: string, sign: number): string[] {
    return means
      .filter(([name]) => name.startsWith(kind))
      .sort((a, b) => sign * (b[1] - a[1]))
      .slice(0, 12)
      .map(([name, mean]) => `${name} ${mean.toFixed(1)}`);
  }
  console.log(`honest sources that look most like spam: ${worst('ham', 1).join(', ')}`);
  console.log(`spam that looks most honest: ${worst('spam', -1).join(', ')}`);
}

function pointsOf(check: SpamCheck, { fields }: Example): number {
  const { reasons } = check(FORM, { fields, control: { trapped: [] }, ip: '192.0.2.7' }).verdict;
  return reasons.reduce((sum, { score }) => sum + score, 0);
}

function write({ words, scale, structure, phrases, bias }: Model): void {
  const head = { scale, bias, structure: Object.fromEntries(structure), phrases: Object.fromEntries(phrases) };
  const bytes = brotliCompressSync(
    Buffer.concat([Buffer.from(`${JSON.stringify(head)}\n`), Buffer.from(words.buffer)]),
    {
      params: { [constants.BROTLI_PARAM_LGWIN]: 24, [constants.BROTLI_PARAM_QUALITY]: 11 },
    },
  );
  writeFileSync(MODEL_FILE, bytes);
  console.log(`${words.filter((weight) => weight !== 0).length} words and pairs, ${bytes.length} bytes`);
  console.log(head);
}

function shuffle(list: unknown[]): void {
  for (let i = list.length - 1; i > 0; i--) {
    const j = Math.floor(random() * (i + 1));
    [list[i], list[j]] = [list[j], list[i]];
  }
}

/** 0 ≤ number < 1, the same for the same seed (mulberry32). */
function createRandom(seed: number): () => number {
  let state = seed;
  return () => {
    state = (state + 0x6d2b79f5) | 0;
    const a = Math.imul(state ^ (state >>> 15), state | 1);
    const b = a ^ (a + Math.imul(a ^ (a >>> 7), a | 61));
    return ((b ^ (b >>> 14)) >>> 0) / 2 ** 32;
  };
}
