/** The corpus as a sequence: labelled submissions of which each differs from all others. The same options give the same ones. */
import { compose, type Sample } from './compose.ts';
import { readLanguages, type Kit, type Label, type Language, type Part } from './kits.ts';
import { createRandom, type Random } from './random.ts';

export interface CorpusOptions {
  readonly seed: number;
  /** How many; half of them are spam. */
  readonly count: number;
  readonly parts: readonly Part[];
}

/** English is written in many places that are not English-speaking, and by most spammers. */
const ENGLISH_SHARE = 0.25;
/** A kit with few wordings is exhausted at some point; then another is taken. */
const MAX_ATTEMPTS = 2_000;

/** Submissions, honest and spam in turn. */
export function* generateCorpus({ seed, count, parts }: CorpusOptions): Generator<Sample> {
  const random = createRandom(seed);
  const languages = readLanguages();
  const seen = new Set<string>();
  for (let index = 0; index < count; index += 1) {
    yield nextSample(random, { languages, seen, parts, label: index % 2 === 0 ? 'ham' : 'spam' });
  }
}

interface Request {
  readonly languages: readonly Language[];
  readonly seen: Set<string>;
  readonly parts: readonly Part[];
  readonly label: Label;
}

/** A submission unlike all that were seen. */
function nextSample(random: Random, { languages, seen, parts, label }: Request): Sample {
  for (let attempt = 0; attempt < MAX_ATTEMPTS; attempt += 1) {
    const language = pickLanguage(random, languages);
    const sample = compose(random, language, random.pick(kitsOf(language, { label, parts })));
    const text = essenceOf(sample);
    if (seen.has(text)) continue;
    seen.add(text);
    return sample;
  }
  throw new Error(`After ${seen.size} submissions the kits have no other that is ${label}.`);
}

function pickLanguage(random: Random, languages: readonly Language[]): Language {
  const english = languages.find(({ code }) => code === 'en');
  return english !== undefined && random.chance(ENGLISH_SHARE) ? english : random.pick(languages);
}

function kitsOf(language: Language, { label, parts }: Pick<Request, 'label' | 'parts'>): Kit[] {
  return language.kits.filter((kit) => kit.label === label && parts.includes(kit.part));
}

/** What makes a submission differ from another: its longest value, whatever its numbers are; a short one, all its values. */
function essenceOf({ fields }: Sample): string {
  const values = fields.map(([, value]) => value);
  const longest = values.reduce((one, other) => (other.length > one.length ? other : one), '');
  return longest.length < 60 ? JSON.stringify(fields) : longest.replaceAll(/\d+/g, '0');
}
