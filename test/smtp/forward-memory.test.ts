/** What is forwarded passes through memory in pieces, however large it is and however slowly it is taken. */
import { setTimeout as sleep } from 'node:timers/promises';
import { setFlagsFromString } from 'node:v8';
import { runInNewContext } from 'node:vm';
import { expect, test } from 'vitest';
import { MAIL, openForwardWorld } from './forward-world.ts';

const MIB = 1 << 20;

setFlagsFromString('--expose-gc');
const collect = runInNewContext('gc') as () => void;

/** Bytes outside of the heap that are in use: where message bytes are. */
function held(): number {
  collect();
  // Buffers are freed beside the program: the next collection waits for that.
  collect();
  const { arrayBuffers, external } = process.memoryUsage();
  return Math.max(arrayBuffers, external);
}

test('a message of 40 MiB to a server that stops reading takes a few pieces', async () => {
  const world = await openForwardWorld({ data: { reply: '354 go on', thenStall: true } });
  const raw = Buffer.alloc(40 * MIB, `${'x'.repeat(76)}\r\n`);
  raw.write(MAIL.slice(0, MAIL.indexOf('\r\n\r\n') + 4));
  const before = held();
  await world.take({ raw });
  let most = 0;
  for (let stalled = 0; stalled < 5; await sleep(100)) {
    most = Math.max(most, held() - before);
    if (world.peer.lines.includes('DATA')) stalled += 1;
  }
  expect(most / MIB).toBeLessThan(28);
  // It has counted all the time.
  expect(raw.length).toBe(40 * MIB);
});
