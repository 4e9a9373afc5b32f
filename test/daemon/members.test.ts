import { describe, expect, test } from 'vitest';
import { MemberWatch } from '../../src/daemon/members.ts';

function member(id: string, beat: number) {
  return { id, machine: id, roles: 'delivery', beat };
}

/** Looks every two seconds; answers whom it took for dead, by the time. */
function watched(looks: readonly (readonly ReturnType<typeof member>[] | 'not seen')[]): Record<number, string[]> {
  const watch = new MemberWatch();
  const dead: Record<number, string[]> = {};
  looks.forEach((rows, i) => {
    const now = 2000 * i;
    if (rows === 'not seen') return watch.forget();
    const found = watch.see(rows, now).map(({ id }) => id);
    if (found.length > 0) dead[now] = found;
  });
  return dead;
}

describe('a member', () => {
  test('that counts lives', () => {
    expect(watched(Array.from({ length: 20 }, (_, i) => [member('a', i)]))).toEqual({});
  });

  test('that does not count for eight seconds is dead, and lives again when it counts', () => {
    const looks = Array.from({ length: 9 }, (_, i) => [member('a', i), member('b', i < 2 ? i : i < 8 ? 1 : 2)]);
    expect(watched(looks)).toEqual({ 10_000: ['b'], 12_000: ['b'], 14_000: ['b'] });
  });

  test('is not judged by a time in which nothing was seen', () => {
    const looks = Array.from({ length: 9 }, (_, i) => (i === 4 ? 'not seen' : [member('b', 1)]));
    expect(watched(looks)).toEqual({});
    expect(watched([...looks, ...looks.map(() => [member('b', 1)])])[18_000]).toEqual(['b']);
  });

  test('is not judged by a time in which this process did not run', () => {
    const watch = new MemberWatch();
    for (const now of [0, 2000, 4000]) expect(watch.see([member('b', 1)], now)).toEqual([]);
    expect(watch.see([member('b', 1)], 60_000)).toEqual([]);
    expect(watch.see([member('b', 2)], 62_000)).toEqual([]);
    expect(watch.living.map(({ id }) => id)).toEqual(['b']);
  });
});
