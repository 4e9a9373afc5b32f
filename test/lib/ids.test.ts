import { expect, test } from 'vitest';
import { firstId, newId, timeOfId } from '../../src/lib/ids.ts';

test('an id names its kind, has 26 characters, sorts by time and never comes twice', () => {
  const early = newId('sub', 1_700_000_000_000);
  const late = newId('sub', 1_700_000_000_001);
  expect(early).toMatch(/^sub_[0-9a-hjkmnp-tv-z]{26}$/);
  expect(early < late).toBe(true);
  expect(new Set(Array.from({ length: 10_000 }, () => newId('msg', 5))).size).toBe(10_000);
});

test('an id tells when it was made, and where those of a time begin', () => {
  for (const at of [0, 5, 1_700_000_000_000, Date.UTC(2100, 0, 1)]) {
    const id = newId('evt', at);
    expect(timeOfId(id)).toBe(at);
    expect(id >= firstId('evt', at)).toBe(true);
    expect(id < firstId('evt', at + 1)).toBe(true);
  }
});
