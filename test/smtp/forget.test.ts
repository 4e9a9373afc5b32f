/** What is forgotten of mail that came in, and when: at the listener, and in the queue that it went into. */
import { expect, test } from 'vitest';
import { serverSchema } from '../../src/config/schema-server.ts';
import { forgetOldMessages } from '../../src/queue/retention.ts';
import { forgetOldInbound } from '../../src/smtp/retention.ts';
import { testClock } from '../harness/clock.ts';
import { settle } from '../harness/settle.ts';
import { startInboundSmtp } from '../harness/inbound-smtp.ts';

const DAY = 86_400_000;
const HOUR = 3_600_000;

test('the bytes go with the last of the messages that they became, and that it came after a month', async () => {
  const clock = testClock();
  const listener = await startInboundSmtp({
    clock,
    forwarding: { 'a@example.test': 'ana@inbox.test', 'b@example.test': 'bea@inbox.test' },
  });
  const { store } = listener;
  const client = await listener.client();
  for (const line of [
    'EHLO x',
    'MAIL FROM:<x@y.test>',
    'RCPT TO:<a@example.test>',
    'RCPT TO:<b@example.test>',
    'DATA',
  ]) {
    client.write(`${line}\r\n`);
    await client.reply();
  }
  client.write('From: x@y.test\r\n\r\nHello\r\n.\r\n');
  expect(await client.reply()).toMatch(/^250/);
  const config = () => serverSchema.parse({ server: { hostname: 'mail.example.net', operator: 'ops@example.net' } });
  const forgetMessages = forgetOldMessages({ store, clock, config, withoutContent: ({ source }) => source });
  const forgetInbound = forgetOldInbound({ store, clock, config });
  const pass = async (ms: number) => {
    clock.advance(ms);
    await forgetMessages();
    await forgetInbound();
    const raws = await store.read.selectFrom('raw_chunks').select('inbound').execute();
    const rows = await store.read.selectFrom('inbound').select('id').execute();
    return [raws.length, rows.length];
  };
  const [one, other] = await store.read.selectFrom('messages').select('id').execute();
  await settle(store, { message: one?.id ?? '', state: 'delivered', at: clock.now() });
  expect(await pass(40 * DAY)).toEqual([1, 1]);
  await settle(store, { message: other?.id ?? '', state: 'bounced', at: clock.now() });
  expect(await pass(7 * DAY)).toEqual([1, 1]);
  expect(await pass(HOUR)).toEqual([0, 1]);
  await pass(23 * DAY);
  expect(await pass(HOUR)).toEqual([0, 0]);
});
