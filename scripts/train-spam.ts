/**
 * `sh bin/run scripts/train-spam.ts`: fits the model of the text filter to scripts/spam-corpus and writes it to
 * src/forms/spam/model.br. The same corpus gives the same model. `--measure authors` says instead how good models are at
 * the texts of an author that they were not fitted to, and `--measure sources` at the texts of kinds that they were not
 * fitted to (five folds).
 */
import { writeFileSync } from 'node:fs';
import { parseArgs } from 'node:util';
import { brotliCompressSync, constants } from 'node:zlib';
import { formSchema } from '../src/config/schema.ts';
import { createSpamCheck, verdictOf } from '../src/forms/spam/filter.ts';
import { MODEL_FILE, type Model } from '../src/forms/spam/model.ts';
import { readExamples, type Example } from './spam-corpus/examples.ts';
import { average, fit } from './spam-corpus/fit.ts';
import { createRandom } from './spam-corpus/random.ts';

/** Fitted one after the other, each in another order. */
const MODELS = 6;
const FOLDS = 5;
const FORM = {
  config: formSchema.parse({}),
  domain: 'site.example',
  id: 'site.example/contact',
  tenant: 'ten_1',
  project: undefined,
};

const { values: options } = parseArgs({
  options: {
    count: { type: 'string', default: '120000' },
    seed: { type: 'string', default: '1' },
    measure: { type: 'string' },
    worst: { type: 'string', default: '0' },
  },
});

const random = createRandom(Number(options.seed));
const examples = readExamples({ seed: Number(options.seed), count: Number(options.count) });
const authors = [...new Set(examples.map(({ author }) => author))];
for (const author of authors) {
  const own = examples.filter((example) => example.author === author);
  console.log(`${author}: ${own.length} submissions, ${own.filter(({ isSpam }) => isSpam).length} of them spam`);
}
if (options.measure === 'authors') measureAuthors();
else if (options.measure === 'sources') measureSources();
else write(average(Array.from({ length: MODELS }, () => fitTo(examples))));

function fitTo(some: readonly Example[]): Model {
  return fit(some, random);
}

interface Scored {
  readonly example: Example;
  readonly points: number;
  readonly normal: boolean;
  readonly strict: boolean;
}

function measureAuthors(): void {
  for (const author of authors) {
    const own = examples.filter((example) => example.author === author);
    if (own.length === 0) continue;
    report(author, score(fitTo(examples.filter((example) => example.author !== author)), own));
  }
}

function measureSources(): void {
  const sources = random.shuffle([...new Set(examples.map(({ source }) => source))]);
  const foldOf = new Map(sources.map((source, index) => [source, index % FOLDS]));
  const scored = Array.from({ length: FOLDS }, (_, fold) => {
    const model = fitTo(examples.filter(({ source }) => foldOf.get(source) !== fold));
    return score(
      model,
      examples.filter(({ source }) => foldOf.get(source) === fold),
    );
  }).flat();
  for (const author of authors) {
    report(
      author,
      scored.filter(({ example }) => example.author === author),
    );
  }
}

function score(model: Model, some: readonly Example[]): Scored[] {
  const check = createSpamCheck({ model });
  return some.map((example) => {
    const fields = example.fields.map(([name, value]): [string, string] => [name, value]);
    const { reasons } = check(FORM, { fields, control: { trapped: [] }, ip: '192.0.2.7' }).verdict;
    return {
      example,
      points: reasons.reduce((sum, reason) => sum + reason.score, 0),
      normal: verdictOf(reasons, 'normal').verdict === 'spam',
      strict: verdictOf(reasons, 'strict').verdict === 'spam',
    };
  });
}

function report(name: string, scored: readonly Scored[]): void {
  const ham = scored.filter(({ example }) => !example.isSpam).sort((a, b) => b.points - a.points);
  const spam = scored.filter(({ example }) => example.isSpam);
  if (ham.length === 0 || spam.length === 0) return;
  console.log(
    `\n${name}: normal ${share(spam, 'normal')} of spam, ${share(ham, 'normal')} of honest; strict ${share(spam, 'strict')}, ${share(ham, 'strict')}`,
  );
  for (const part of [0.001, 0.002, 0.003, 0.005, 0.01, 0.013, 0.02, 0.03]) {
    const points = ham[Math.floor(ham.length * part)]?.points ?? 0;
    const found = spam.filter((each) => each.points > points).length;
    console.log(
      `${(part * 100).toFixed(1)} % of honest above ${points}: ${((100 * found) / spam.length).toFixed(1)} % of spam`,
    );
  }
  const languages = [...new Set(spam.map(({ example }) => example.language))].sort();
  const shares = languages.map((language) => {
    const own = scored.filter(({ example }) => example.language === language);
    const [found, blocked] = [true, false].map((isSpam) =>
      share(
        own.filter(({ example }) => example.isSpam === isSpam),
        'strict',
      ),
    );
    return `${language} ${found}/${blocked}`;
  });
  console.log(`strict by language: ${shares.join(', ')}`);
  const worst = Number(options.worst);
  for (const { example, points } of ham.slice(0, worst))
    console.log(`ham ${points} ${example.source} ${textOf(example)}`);
  const missed = [...spam].sort((a, b) => a.points - b.points).slice(0, worst);
  for (const { example, points } of missed) console.log(`spam ${points} ${example.source} ${textOf(example)}`);
}

function share(some: readonly Scored[], level: 'normal' | 'strict'): string {
  return `${((100 * some.filter((each) => each[level]).length) / Math.max(1, some.length)).toFixed(1)} %`;
}

function textOf({ fields }: Example): string {
  return fields
    .map(([, value]) => value)
    .join(' / ')
    .replaceAll('\n', ' ')
    .slice(0, 300);
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
