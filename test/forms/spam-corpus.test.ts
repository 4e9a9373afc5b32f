/** What the filter is trained on: scripts/spam-corpus. */
import { describe, expect, test } from 'vitest';
import type { Sample } from '../../scripts/spam-corpus/compose.ts';
import { generateCorpus } from '../../scripts/spam-corpus/corpus.ts';
import { readLanguages } from '../../scripts/spam-corpus/kits.ts';

const LANGUAGES = 'ar cs da de en es fi fr he it ja ko nl pl pt ru sv tr uk zh'.split(' ');

function generate(options: { seed?: number; count?: number } = {}): Sample[] {
  return [...generateCorpus({ seed: 1, count: 10_000, parts: ['train', 'test'], ...options })];
}

/** Sentences of some length, whatever their numbers; not the addresses, which are random. */
function sentencesOf(samples: readonly Sample[]): Set<string> {
  const texts = samples.flatMap(({ fields }) => fields.map(([, value]) => value.replaceAll(/\S+[@/.]\S+/g, '')));
  const sentences = texts.flatMap((text) => text.split(/(?<=[.!?。])\s*|\n/));
  return new Set(sentences.map((each) => each.replaceAll(/\d+/g, '0').trim()).filter(({ length }) => length >= 20));
}

describe('the corpus', () => {
  const corpus = generate();

  test('has at least 5,000 submissions of each label, each with other words', () => {
    for (const label of ['ham', 'spam']) {
      const samples = corpus.filter((sample) => sample.label === label);
      expect(samples).toHaveLength(5_000);
      expect(new Set(samples.map(({ fields }) => JSON.stringify(fields))).size).toBe(5_000);
    }
  });

  test('is the same for the same seed, and another for another', () => {
    expect(generate({ count: 200 })).toEqual(generate({ count: 200 }));
    expect(generate({ count: 200, seed: 2 })).not.toEqual(generate({ count: 200 }));
  });

  test('shares no sentence and no kit between the parts', () => {
    const train = corpus.filter(({ part }) => part === 'train');
    const test = corpus.filter(({ part }) => part === 'test');
    expect(test.length).toBeGreaterThan(800);
    expect([...sentencesOf(test).intersection(sentencesOf(train))]).toEqual([]);
    const sources = new Set(train.map(({ source }) => source));
    expect(test.filter(({ source }) => sources.has(source))).toEqual([]);
  });

  test('has kits of both labels, and of both parts, in 20 languages', () => {
    const languages = readLanguages();
    expect(languages.map(({ code }) => code)).toEqual(LANGUAGES);
    for (const { code, kits } of languages) {
      for (const label of ['ham', 'spam']) {
        const own = kits.filter((kit) => kit.label === label);
        expect(own.length, `${code} ${label}`).toBeGreaterThanOrEqual(code === 'en' ? 25 : 8);
        expect(new Set(own.map(({ part }) => part)).size).toBe(2);
      }
    }
  });

  test('greets in spam as often as in honest submissions, so that a greeting says nothing', () => {
    const messages = Map.groupBy(
      corpus.filter(({ language }) => language === 'en'),
      ({ label }) => label,
    );
    const greeted = [...messages.values()].map((samples) => {
      const hellos = samples.filter(({ fields }) => fields.some(([, value]) => /^(hi|hello|dear|good)\b/i.test(value)));
      return hellos.length / samples.length;
    });
    const [one = 0, other = 0] = greeted;
    expect(Math.abs(one - other)).toBeLessThan(0.15);
  });
});
