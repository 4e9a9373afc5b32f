/** Reads labelled submissions: a folder with `ham.jsonl` and `spam.jsonl`, one JSON object a line. */
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { z } from 'zod';

const submissionSchema = z.strictObject({
  label: z.enum(['ham', 'spam']),
  /** The language of the text, as a BCP 47 tag (`und` for none): not always that of the form. */
  language: z.string().regex(/^[a-z]{2,3}$/),
  /** The sender's concern, and which of its texts. */
  source: z.string().min(1),
  /** In the form's order, with the form's own names. */
  fields: z.array(z.tuple([z.string().min(1), z.string()])).min(1),
});

/** A submission whose label is known. */
export type LabelledSubmission = z.infer<typeof submissionSchema>;

/** The submissions of a folder; the README.md in it says how they were made. */
export function readCorpus(folder: string = import.meta.dirname): LabelledSubmission[] {
  return ['ham.jsonl', 'spam.jsonl'].flatMap((file) =>
    readFileSync(join(folder, file), 'utf8')
      .split('\n')
      .filter((line) => line !== '')
      .map((line) => submissionSchema.parse(JSON.parse(line))),
  );
}
