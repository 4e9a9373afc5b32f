import { readdirSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, test } from 'vitest';
import { readCorpus, type LabelledSubmission } from './corpus.ts';

const TRAINING = join(import.meta.dirname, '../../../scripts/spam-corpus/written');

/** The longest text, without case, numbers and signs. */
function messageOf({ fields }: LabelledSubmission): string {
  const [longest = ''] = fields.map(([, value]) => value).sort((a, b) => b.length - a.length);
  return longest.toLowerCase().replaceAll(/[^\p{L}]+/gu, ' ');
}

function trainingTexts(): LabelledSubmission[] {
  const authors = readdirSync(TRAINING, { withFileTypes: true }).filter((entry) => entry.isDirectory());
  return authors.flatMap(({ name }) => readCorpus(join(TRAINING, name)));
}

describe('the submissions on which the spam filter is measured', () => {
  const corpus = readCorpus();

  test.each(['ham', 'spam'] as const)('have 1,000 submissions of %s in 20 languages', (label) => {
    const submissions = corpus.filter((submission) => submission.label === label);
    expect(submissions.length).toBeGreaterThanOrEqual(1000);
    const languages = new Set(submissions.map(({ language }) => language).filter((code) => code !== 'und'));
    expect(languages.size).toBe(20);
  });

  test('have no submission twice, and no text that the filter is trained on', () => {
    const texts = corpus.map(({ fields }) => JSON.stringify(fields));
    expect(new Set(texts).size).toBe(texts.length);
    const MIN_LENGTH = 40;
    const trained = new Set(trainingTexts().map(messageOf));
    expect(corpus.map(messageOf).filter((text) => text.length >= MIN_LENGTH && trained.has(text))).toEqual([]);
  });
});
