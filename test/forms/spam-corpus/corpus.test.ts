import { join } from 'node:path';
import { describe, expect, test } from 'vitest';
import { readCorpus } from './corpus.ts';

const corpus = readCorpus(join(import.meta.dirname, '../../../scripts/spam-corpus/written'));

describe('the written submissions on which the spam filter is trained', () => {
  test.each(['ham', 'spam'] as const)(
    'have 1,000 submissions of %s in 14 languages, a third of them English',
    (label) => {
      const submissions = corpus.filter((submission) => submission.label === label);
      expect(submissions.length).toBeGreaterThanOrEqual(1000);
      expect(new Set(submissions.map(({ language }) => language)).size).toBeGreaterThanOrEqual(14);
      const english = submissions.filter(({ language }) => language === 'en').length / submissions.length;
      expect(english).toBeGreaterThan(0.3);
      expect(english).toBeLessThan(0.4);
      expect(submissions.filter(({ source }) => source.startsWith('written/')).length).toBeGreaterThanOrEqual(220);
    },
  );

  test('have no submission twice', () => {
    const texts = corpus.map(({ fields }) => JSON.stringify(fields));
    expect(new Set(texts).size).toBe(texts.length);
  });
});
