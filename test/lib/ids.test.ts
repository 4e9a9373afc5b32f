import { expect, test } from 'vitest';
import { newId } from '../../src/lib/ids.ts';

test('an id names its kind, has 26 characters, sorts by time and never comes twice', () => {
  const early = newId('sub', 1_700_000_000_000);
  const late = newId('sub', 1_700_000_000_001);
  expect(early).toMatch(/^sub_[0-9a-hjkmnp-tv-z]{26}$/);
  expect(early < late).toBe(true);
  expect(new Set(Array.from({ length: 10_000 }, () => newId('msg', 5))).size).toBe(10_000);
});
