import { expect, test } from 'vitest';
import { DeadlineError, withDeadline } from '../../src/lib/clock.ts';

test('work in time is answered, its own error is passed on', async () => {
  expect(await withDeadline(10_000, 'asking', Promise.resolve(7))).toBe(7);
  await expect(withDeadline(10_000, 'asking', Promise.reject(new Error('no')))).rejects.toThrow('no');
});

test('at the deadline the error says what took how long', async () => {
  const stuck = withDeadline(5, 'the greeting', new Promise(() => undefined));
  await expect(stuck).rejects.toThrow(DeadlineError);
  await expect(stuck).rejects.toThrow('the greeting took longer than 0.005 s');
});
