import { setImmediate as turn } from 'node:timers/promises';
import { expect, test } from 'vitest';
import { Wire } from '../../src/smtp/smtp-server.ts';

test.each([
  ['at once', (done: () => void) => done()],
  ['in a microtask, as after a promise', (done: () => void) => queueMicrotask(done)],
])('a thousand commands of one packet that are answered %s leave others their turn', async (_, answer) => {
  let answered = 0;
  const wire = new Wire({
    isClosed: () => false,
    command(_line, done) {
      answered++;
      answer(done);
    },
  });
  let isRead = false;
  wire.write(Buffer.from('RCPT TO:<info@example.test>\r\n'.repeat(1000)), () => (isRead = true));
  for (let before = 0; !isRead;) {
    await turn();
    expect(answered - before).toBeLessThanOrEqual(20);
    before = answered;
  }
  expect(answered).toBe(1000);
});
