/** Large messages are judged a few at a time. */
import { expect, test } from 'vitest';
import { limitConcurrency, type AuthenticationOutcome } from '../../src/smtp/accept.ts';
import type { InboundMessage } from '../../src/smtp/receive.ts';

function mail(id: string, size: number): InboundMessage {
  return {
    id,
    size,
    ip: '192.0.2.1',
    helo: 'client.test',
    tls: null,
    protocol: 'ESMTP',
    isOwn: false,
    sender: '',
    recipients: [],
    encoding: '7bit',
    at: 0,
    async *pieces() {},
  };
}

test('sixteen at once, the others after them, also after one that fails; small ones never wait', async () => {
  let now = 0;
  let most = 0;
  const ends: (() => void)[] = [];
  const authenticate = limitConcurrency(async ({ id }): Promise<AuthenticationOutcome> => {
    if (id.startsWith('small')) return { headers: '', verdicts: '{}' };
    most = Math.max(most, ++now);
    await new Promise<void>((resolve) => ends.push(resolve));
    now--;
    if (id === 'large3') throw new Error('the store is away');
    return { headers: '', verdicts: '{}' };
  });
  const large = Array.from({ length: 40 }, (_, i) => authenticate(mail(`large${i}`, 1_000_000)));
  const settled = Promise.allSettled(large);
  await authenticate(mail('small', 1000));
  for (let ended = 0; ended < 40; ended++) {
    await expect.poll(() => ends.length).toBeGreaterThan(ended);
    ends[ended]?.();
  }
  expect((await settled).filter(({ status }) => status === 'fulfilled')).toHaveLength(39);
  expect(most).toBe(16);
});
