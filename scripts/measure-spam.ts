/**
 * `sh bin/run scripts/measure-spam.ts [--model FILE] CORPUS…`: how much spam the filter finds in labelled submissions, and
 * how much honest mail it blocks, at both levels. A corpus has one JSON object a line: `label` (spam or ham), `language`,
 * `fields`, and where it has one `source`. Measured without honeypot, page token, headers, DNS and other forms; then with
 * what each way to post a form shows (VISITS). `--worst 20` names the sources that are judged worst.
 */
import { readFileSync } from 'node:fs';
import { pathToFileURL } from 'node:url';
import { parseArgs } from 'node:util';
import { z } from 'zod';
import { formSchema } from '../src/config/schema.ts';
import { createSpamCheck, verdictOf } from '../src/forms/spam/filter.ts';
import type { SpamInput } from '../src/forms/spam/text.ts';
import { MODEL_FILE, readModel } from '../src/forms/spam/model.ts';

const line = z.object({
  label: z.enum(['ham', 'spam']),
  language: z.string(),
  source: z.string().default('unnamed'),
  fields: z.array(z.tuple([z.string(), z.string()])),
});

const { values: options, positionals: files } = parseArgs({
  options: { model: { type: 'string' }, worst: { type: 'string', default: '0' } },
  allowPositionals: true,
});
if (files.length === 0) {
  console.error('Usage: measure-spam.ts [--model FILE] [--worst 20] CORPUS…');
  process.exit(64);
}

const model = readModel(options.model === undefined ? MODEL_FILE : pathToFileURL(options.model));
const check = createSpamCheck({ model });
const form = {
  config: formSchema.parse({}),
  domain: 'site.example',
  id: 'site.example/contact',
  tenant: 'ten_1',
  project: undefined,
};

const BROWSER = {
  'user-agent':
    'Mozilla/5.0 (Windows NT 10.0; Win64; x64) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/141.0.0.0 Safari/537.36',
  'accept-language': 'en-US,en;q=0.9',
  'sec-fetch-site': 'cross-site',
  'sec-fetch-mode': 'cors',
};

/** Ways to post a form, and what the filter sees of each beside the text. */
const VISITS: Readonly<Record<string, Pick<SpamInput, 'visit'> & { readonly trapped?: readonly string[] }>> = {
  'text alone': {},
  'page token': { visit: { isSecure: true, headers: BROWSER, token: 'valid' } },
  'a browser, no token': { visit: { isSecure: true, headers: BROWSER, token: 'missing' } },
  'a robot': { visit: { isSecure: true, headers: { 'user-agent': BROWSER['user-agent'] }, token: 'missing' } },
  'a used token': { visit: { isSecure: true, headers: BROWSER, token: 'used' } },
  'a token too soon': { visit: { isSecure: true, headers: BROWSER, token: 'too fast' } },
  honeypot: { trapped: ['_gotcha'] },
};

interface Measured {
  readonly label: 'ham' | 'spam';
  readonly language: string;
  readonly source: string;
  readonly points: number;
  readonly normal: boolean;
  readonly strict: boolean;
}

const all = files.flatMap((file) => readFileSync(file, 'utf8').split('\n')).filter((text) => text.trim() !== '');
const samples = all.map((text) => line.parse(JSON.parse(text)));

function measure({ label, language, source, fields }: z.output<typeof line>, way: string): Measured {
  const { visit, trapped = [] } = VISITS[way] ?? {};
  const { reasons } = check(form, { fields, control: { trapped: [...trapped] }, ip: '192.0.2.7', visit }).verdict;
  const points = reasons.reduce((sum, { score }) => sum + score, 0);
  return {
    label,
    language,
    source,
    points,
    normal: verdictOf(reasons, 'normal').verdict === 'spam',
    strict: verdictOf(reasons, 'strict').verdict === 'spam',
  };
}

function row(name: string, some: readonly Measured[]): void {
  const cells = (['spam', 'ham'] as const).flatMap((label) => {
    const own = some.filter((each) => each.label === label);
    return [own.length, share(own, 'normal'), share(own, 'strict')];
  });
  console.log([name.padEnd(20), ...cells.map((cell) => String(cell).padStart(8))].join(''));
}

function share(some: readonly Measured[], level: 'normal' | 'strict'): string {
  const found = some.filter((each) => each[level]).length;
  return some.length === 0 ? '–' : `${((100 * found) / some.length).toFixed(2)} %`;
}

console.log(
  `${'spam'.padStart(28)}${['normal', 'strict', 'ham', 'normal', 'strict'].map((name) => name.padStart(8)).join('')}`,
);
const measured = samples.map((sample) => measure(sample, 'text alone'));
row('all', measured);
for (const language of [...new Set(measured.map((each) => each.language))].sort()) {
  row(
    language,
    measured.filter((each) => each.language === language),
  );
}
console.log('');
for (const way of Object.keys(VISITS))
  row(
    way,
    samples.map((sample) => measure(sample, way)),
  );
for (const label of ['ham', 'spam'] as const) {
  const bySource = Map.groupBy(
    measured.filter((each) => each.label === label),
    ({ source }) => source,
  );
  const wrong = [...bySource]
    .map(([source, some]) => ({
      source,
      rate: some.filter(({ normal }) => normal === (label === 'ham')).length / some.length,
    }))
    .filter(({ rate }) => rate > 0)
    .sort((a, b) => b.rate - a.rate)
    .slice(0, Number(options.worst));
  if (wrong.length > 0) {
    console.log(`\n${label === 'ham' ? 'honest mail that is blocked' : 'spam that is accepted'} at normal, by source:`);
  }
  for (const { source, rate } of wrong) console.log(`${(100 * rate).toFixed(0).padStart(4)} %  ${source}`);
}
