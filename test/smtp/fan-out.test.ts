/** How many deliveries one message that comes in may cause, however its recipients are arranged. */
import { expect, test } from 'vitest';
import { startInboundSmtp, type TestInboundSmtp } from '../harness/inbound-smtp.ts';

const list = (name: string) => Array.from({ length: 20 }, (_, i) => `${name}${i}@inbox.test`);
const LISTS = ['a', 'b', 'c', 'd', 'e', 'f'];
const forwarding = {
  ...Object.fromEntries(LISTS.map((name) => [`${name}@example.test`, list(name)])),
  'one@example.test': 'one@inbox.test',
  'none@example.test': 'discard',
  'most@example.test': LISTS.slice(0, 5).map((name) => `${name}@example.test`),
  // Each project may say so by itself; together they lead too far.
  'all@example.test': LISTS.map((name) => `${name}@example.test`),
} as const;

async function offer(listener: TestInboundSmtp, names: readonly string[]): Promise<string[]> {
  const client = await listener.client();
  await client.say('EHLO client.test');
  await client.say('MAIL FROM:<x@sender.test>');
  const replies: string[] = [];
  for (const name of names) replies.push((await client.say(`RCPT TO:<${name}@example.test>`)).slice(0, 9));
  if (replies.some((reply) => reply.startsWith('250'))) {
    await client.say('DATA');
    client.write('From: x@sender.test\r\nSubject: x\r\n\r\nx\r\n.\r\n');
    expect(await client.reply()).toMatch(/^250/);
  }
  client.close();
  return replies;
}

async function deliveries({ store }: TestInboundSmtp): Promise<number> {
  return (await store.read.selectFrom('deliveries').select('id').execute()).length;
}

test('all recipients of a transaction cause 100 deliveries at most; the others are for another transaction', async () => {
  const listener = await startInboundSmtp({ forwarding });
  expect(await offer(listener, [...LISTS, 'one', 'none', 'a'])).toEqual([
    ...Array<string>(5).fill('250 2.1.5'),
    '452 4.5.3',
    '452 4.5.3',
    '250 2.1.5',
    '250 2.1.5',
  ]);
  expect(await deliveries(listener)).toBe(100);
  expect(await offer(listener, ['f', 'one'])).toEqual(['250 2.1.5', '250 2.1.5']);
  expect(await deliveries(listener)).toBe(121);
});

test('an address behind which there are 100 is taken alone, and one with more is not', async () => {
  const listener = await startInboundSmtp({ forwarding });
  expect(await offer(listener, ['most', 'one'])).toEqual(['250 2.1.5', '452 4.5.3']);
  expect(await deliveries(listener)).toBe(100);
  expect(await offer(listener, ['all', 'one'])).toEqual(['554 5.4.6', '250 2.1.5']);
  expect(await deliveries(listener)).toBe(101);
});
