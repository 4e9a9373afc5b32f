import { expect, test } from 'vitest';
import { BodyMemory } from '../../src/http/api/route.ts';

const MIB = 1024 * 1024;

test('large bodies share what room there is, and no tenant takes all of it; small ones always enter', () => {
  const memory = new BodyMemory();
  const leave = [1, 2, 3].map(() => memory.enter('ten_a', 20 * MIB));
  expect(leave.every((one) => one !== undefined)).toBe(true);
  expect(memory.enter('ten_a', 20 * MIB)).toBeUndefined();
  expect(memory.enter('ten_a', MIB)).toBeDefined();
  for (let i = 0; i < 3; i++) expect(memory.enter('ten_b', 20 * MIB)).toBeDefined();
  expect(memory.enter('ten_c', 20 * MIB)).toBeUndefined();
  leave[0]?.();
  expect(memory.enter('ten_c', 20 * MIB)).toBeDefined();
  expect(memory.enter('ten_c', 20 * MIB)).toBeUndefined();
});
