/**
 * `sh bin/run scripts/spam-corpus/generate.ts [--seed N] [--count N] [--part train|test|all]`: writes labelled submissions,
 * one JSON object a line, half of them spam. The same arguments give the same lines.
 */
import { parseArgs } from 'node:util';
import { compose, type Sample } from './compose.ts';
import { readLanguages, type Kit, type Label, type Language } from './kits.ts';
import { createRandom, type Random } from './random.ts';

/** English is written in many places that are not English-speaking, and by most spammers. */
const ENGLISH_SHARE = 0.25;
/** A kit with few wordings is exhausted at some point; then another is taken. */
const MAX_ATTEMPTS = 2_000;

const { values } = parseArgs({
  options: {
    seed: { type: 'string', default: '1' },
    count: { type: 'string', default: '20000' },
    part: { type: 'string', default: 'all' },
  },
});
const parts = values.part === 'all' ? ['train', 'test'] : [values.part];
const count = Number(values.count);
const seed = Number(values.seed);
if (
  !Number.isSafeInteger(count) ||
  !Number.isSafeInteger(seed) ||
  !parts.every((part) => /^(train|test)$/.test(part))
) {
  console.error('Usage: generate.ts [--seed N] [--count N] [--part train|test|all]');
  process.exit(64);
}

const random = createRandom(seed);
const languages = readLanguages();
const seen = new Set<string>();
for (let index = 0; index < count; index += 1) {
  process.stdout.write(`${JSON.stringify(nextSample(index % 2 === 0 ? 'ham' : 'spam'))}\n`);
}

/** A submission unlike all before it. */
function nextSample(label: Label): Sample {
  for (let attempt = 0; attempt < MAX_ATTEMPTS; attempt += 1) {
    const language = pickLanguage(random);
    const sample = compose(random, language, random.pick(kitsOf(language, label)));
    const text = essenceOf(sample);
    if (seen.has(text)) continue;
    seen.add(text);
    return sample;
  }
  throw new Error(`The kits have no ${count / 2} different submissions that are ${label}.`);
}

function pickLanguage(random: Random): Language {
  const english = languages.find(({ code }) => code === 'en');
  return english !== undefined && random.chance(ENGLISH_SHARE) ? english : random.pick(languages);
}

function kitsOf(language: Language, label: Label): Kit[] {
  return language.kits.filter((kit) => kit.label === label && parts.includes(kit.part));
}

/** What makes a submission differ from another: its longest value, whatever its numbers are; a short one, all its values. */
function essenceOf({ fields }: Sample): string {
  const longest = fields
    .map(([, value]) => value)
    .reduce((one, other) => (other.length > one.length ? other : one), '');
  return longest.length < 60 ? JSON.stringify(fields) : longest.replaceAll(/\d+/g, '0');
}
