/**
 * What the text filter is trained on, as its features: submissions of several authors, so that a model can be measured on
 * the texts of one that it was not fitted to. `kits` and `lines.txt` are by one, `messages` by another, and each folder of
 * `written` by one more.
 */
import { readdirSync, readFileSync } from 'node:fs';
import { z } from 'zod';
import { formSchema } from '../../src/config/schema.ts';
import { extract, type Features } from '../../src/forms/spam/model.ts';
import { readText } from '../../src/forms/spam/text.ts';
import { generateCorpus } from './corpus.ts';

const LABEL = z.enum(['ham', 'spam']);
const line = z.object({
  label: LABEL,
  language: z.string(),
  source: z.string(),
  fields: z.array(z.tuple([z.string(), z.string()])),
});

type Fields = readonly (readonly [string, string])[];

/** `kits`, `messages`, or a folder of `written`. */
export type Author = string;

export interface Example {
  readonly author: Author;
  readonly isSpam: boolean;
  readonly language: string;
  /** Texts of one source have words in common. */
  readonly source: string;
  readonly fields: Fields;
  readonly features: Features;
  /** How often it is looked at. */
  readonly repeats: number;
}

const MIN_LINE_LENGTH = 30;
const SPAM_REPEATS = 4;
const HAM_REPEATS = 32;
/** There are few of them for their variety. */
const WRITTEN_REPEATS = 4;

interface Draft extends Omit<z.output<typeof line>, 'fields' | 'label'> {
  readonly label: string;
  readonly fields: Fields;
  readonly author: Author;
  readonly repeats: number;
}

/** All of them; `count` are generated. */
export function readExamples({ seed, count }: { seed: number; count: number }): Example[] {
  const config = formSchema.parse({});
  return [...readGenerated(seed, count), ...readLines(), ...readWritten()].map(({ label, ...draft }) => {
    const features = extract(
      readText({ fields: draft.fields.map(([name, value]) => [name, value]), control: {} }, 'site.example', config),
    );
    return { ...draft, isSpam: label === 'spam', features };
  });
}

function readGenerated(seed: number, count: number): Draft[] {
  return [...generateCorpus({ seed, count, parts: ['train', 'test'] })].map((sample) => ({
    ...sample,
    author: sample.source.includes('/messages/') ? 'messages' : 'kits',
    repeats: 1,
  }));
}

/** The texts of lines.txt, and of offers every two sentences, each as a submission of its own. */
function readLines(): Draft[] {
  const found = readFileSync(new URL('lines.txt', import.meta.url), 'utf8').matchAll(/^(ham|spam) (..) (.+)$/gm);
  return [...found].flatMap(([, label = '', language = '', text = ''], index) => {
    const sentences = label === 'ham' ? [] : text.split(/(?<=[.!?。؟])\s*/);
    const parts = [text, ...sentences.map((_, at) => sentences.slice(at, at + 2).join(' '))];
    return parts
      .filter(({ length }) => length >= MIN_LINE_LENGTH)
      .map((message) => ({
        label,
        language,
        source: `lines/${index}`,
        fields: [['message', message]],
        author: 'kits',
        repeats: label === 'ham' ? HAM_REPEATS : SPAM_REPEATS,
      }));
  });
}

const WRITTEN = new URL('written/', import.meta.url);

function readWritten(): Draft[] {
  const authors = readdirSync(WRITTEN, { withFileTypes: true }).filter((entry) => entry.isDirectory());
  return authors.flatMap(({ name }) => LABEL.options.flatMap((label) => readWrittenBy(name, label)));
}

function readWrittenBy(author: Author, label: z.output<typeof LABEL>): Draft[] {
  return readFileSync(new URL(`${author}/${label}.jsonl`, WRITTEN), 'utf8')
    .split('\n')
    .filter((text) => text !== '')
    .map((text) => {
      const { source, ...submission } = line.parse(JSON.parse(text));
      const concern = source.slice(source.indexOf('/') + 1);
      return {
        ...submission,
        source: `${author}/${submission.language}/${concern}`,
        author,
        repeats: WRITTEN_REPEATS,
      };
    });
}
