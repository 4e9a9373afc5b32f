/** The walk of a new user, without a terminal: as a script, or a person with pipes. */
import { expect, test } from 'vitest';
import { runBinary } from '../harness/command.ts';
import { startEmptyWorld, walk } from '../harness/walk.ts';
import { person } from './cli-world.ts';

/** What leaves something for the next command, or waits for the server, is the program; the rest runs here, which is quicker. */
const PROGRAMS = /^(?:signup|auth status|init|push|domains verify|test send)/;

test('from signup to the first delivered mail, and to figures and keys', async () => {
  const world = await startEmptyWorld();
  const { folder, say } = await person();
  await walk(world, async ({ args, flags = [], code = 0 }) => {
    const words = [...args, ...flags];
    const line = words.join(' ');
    const { out, err, ...ended } = PROGRAMS.test(line) ? await runBinary(words, { folder }) : await say(words);
    expect([ended.code, `${out}${err}`], `postern ${line}\n${out}${err}`).toEqual([
      code,
      expect.not.stringContaining('\u001b'),
    ]);
    return out;
  });
});
