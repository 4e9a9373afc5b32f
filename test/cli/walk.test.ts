/** The walk of a new user, without a terminal: as a script, or a person with pipes. */
import { expect, test } from 'vitest';
import { runBinary } from '../harness/command.ts';
import { temporaryFolder } from '../harness/store.ts';
import { startEmptyWorld, walk } from '../harness/walk.ts';

test('from signup to the first delivered mail, and to figures and keys', async () => {
  const world = await startEmptyWorld();
  const folder = await temporaryFolder();
  await walk(world, async ({ args, flags = [], code = 0 }) => {
    const { out, err, ...ended } = await runBinary([...args, ...flags], { folder });
    expect([ended.code, `${out}${err}`], `postern ${[...args, ...flags].join(' ')}\n${out}${err}`).toEqual([
      code,
      expect.not.stringContaining('\u001b'),
    ]);
    return out;
  });
});
