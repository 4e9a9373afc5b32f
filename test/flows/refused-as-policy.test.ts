/** Mail that is refused for what we are: the operator learns of it once a day, whoever sent it. */
import { simpleParser } from 'mailparser';
import { expect, test } from 'vitest';
import { startTestWorld, type TestWorld } from '../harness/daemon.ts';

const SITE = `
project: { name: Site, slug: site, owner: owner@inbox.test }
settings: { rate_limit: 100000 }
domains:
  example.test:
    forms:
      contact: { to: owner@picky.test }
`;

async function start(code: number, text: string): Promise<TestWorld> {
  const world = await startTestWorld({
    projects: { 'site.yml': SITE },
    zone: [{ name: 'picky.test', type: 'MX', value: '10 mx.inbox.test' }],
  });
  world.mx.behave(({ stage, to }) =>
    stage === 'rcpt' && to.at(-1)?.endsWith('@picky.test') === true ? { code, text } : undefined,
  );
  return world;
}

/** Sends so many and waits until each has bounced. */
async function bounce({ queue, post }: TestWorld, count: number): Promise<void> {
  for (let i = 0; i < count; i++) {
    expect((await post('/example.test/contact', { message: `Number ${i}` })).status).toBe(200);
  }
  const bounced = async () => (await queue()).filter(({ state }) => state === 'bounced');
  await expect.poll(async () => (await bounced()).length).toBe(count);
}

test.each([
  [554, '5.7.1 Service unavailable; Client host [192.0.2.10] blocked using zen.spamhaus.org'],
  [550, 'We do not want you: your address is on a blacklist'],
])('%d %s: one letter', async (code, text) => {
  const world = await start(code, text);
  await bounce(world, 3);
  const mails = await world.caught(1);
  const [letter] = mails.list();
  if (letter === undefined) throw new Error('there is no letter');
  expect(letter.envelope.to).toEqual(['ops@inbox.test']);
  const mail = await simpleParser(await mails.source(letter));
  expect(mail.subject).toBe('Mail from mail.postern.test is refused by picky.test');
  expect(mail.text).toContain(`Mail from this server to owner@picky.test was refused:\n\n    ${code} ${text}\n`);
  const letters = world.daemon.store.read.selectFrom('messages').select('id').where('kind', '=', 'system');
  expect(await letters.execute()).toHaveLength(1);
});

test('an address that is not there is no policy', async () => {
  const world = await start(550, '5.1.1 no such user');
  await bounce(world, 1);
  const letters = world.daemon.store.read.selectFrom('messages').select('id').where('kind', '=', 'system');
  expect(await letters.execute()).toEqual([]);
});
