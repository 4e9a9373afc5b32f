import { expect, test } from 'vitest';
import { alternate, median } from '../../bench/lib/rounds.ts';
import type { Row } from '../../bench/lib/row.ts';
import { linesOf, table } from '../../bench/lib/table.ts';

test('both sides run in turn, and the first round of each only warms up', async () => {
  const order: string[] = [];
  let figure = 0;
  const [accepted, delivered] = await alternate({
    rounds: 2,
    ours: () => Promise.resolve([(order.push('A'), ++figure), figure * 10]),
    reference: () => Promise.resolve([(order.push('B'), ++figure), figure * 10]),
  });
  expect(order.join(' ')).toBe('A B A B A B');
  expect(accepted).toEqual({ ours: [3, 5], reference: [4, 6] });
  expect(delivered).toEqual({ ours: [30, 50], reference: [40, 60] });
});

test('the median does not mind the order, nor one bad round', () => {
  expect(median([3, 1000, 1, 2, 4])).toBe(3);
  expect(median([4, 1, 3, 2])).toBe(2.5);
});

test('a line tells the ratio of the medians and whether it is what we want', () => {
  const row: Row = {
    number: '14',
    measure: 'posts',
    reference: 'something else',
    goals: [
      { name: 'accepted', atLeast: 30 },
      { name: 'delivered', atLeast: 8 },
    ],
    run: () => Promise.reject(new Error('not run here')),
  };
  const results = [
    { ours: [3000, 3100, 9000], reference: [100, 99, 101] },
    { ours: [500], reference: [100] },
  ];
  expect(table(linesOf(row, results)).split('\n')).toEqual([
    '#   per second         ours  reference            ratio  goal',
    '14  posts: accepted   3,100  100  something else  31.0   ≥ 30  ok',
    '14  posts: delivered    500  100  something else  5.00   ≥ 8   BELOW',
    '',
  ]);
});
