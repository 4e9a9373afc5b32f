/** A person is erased from everything by one command: the whole daemon, and the command line. */
import { expect, test } from 'vitest';
import { OPERATOR } from '../../src/store/tenants.ts';
import { cliWorld } from '../cli/cli-world.ts';
import { SmtpClient } from '../harness/inbound-smtp.ts';

const SITE = `
project: { name: Site, slug: site, owner: owner@inbox.test }
settings: { rate_limit: 100000, from: shop@example.test }
domains:
  example.test:
    forwarding: { "info@example.test": owner@inbox.test }
    forms:
      contact: { to: owner@inbox.test, acknowledgment: { enabled: true }, uploads: { enabled: true } }
`;
const JSON_ANSWER = { Accept: 'application/json', Origin: 'https://example.test' };

test('a person is shown, then erased from submissions, files, mail, queue and copies of inbound mail', async () => {
  const permissions = ['admin', 'forms', 'email.send', 'analytics'] as const;
  const world = await cliWorld({ tenant: OPERATOR, permissions }, { projects: { 'site.yml': SITE } });
  const { store } = world.daemon;
  const form = new FormData();
  form.set('email', 'Ana+x@inbox.test');
  form.set('message', 'My number is 555-0199');
  form.set('file', new Blob(['%PDF']), 'plan.pdf');
  expect((await world.post('/example.test/contact', form, JSON_ANSWER)).status).toBe(200);
  await world.post('/example.test/contact', { email: 'bo@inbox.test', message: 'Hello' }, JSON_ANSWER);
  const smtp = await SmtpClient.open(world.daemon.smtp[0]?.port ?? 0);
  const message = 'From: ana@inbox.test\r\nMessage-ID: <1@inbox.test>\r\nSubject: Secret\r\n\r\nMy number is 555-0199';
  expect(await smtp.send(message, { from: 'ana@inbox.test', to: ['info@example.test'] })).toMatch(/^250/);
  smtp.close();
  await world.caught(5);
  await expect.poll(async () => (await world.queue()).every(({ state }) => state === 'delivered')).toBe(true);

  const shown = await world.say(['erase', 'ana@inbox.test', '--all-accounts', '--dry-run']);
  expect([shown.code, shown.err]).toEqual([0, '']);
  expect(shown.out).toContain('Would erase for ana@inbox.test');
  expect(shown.out).toMatch(/submissions +1, with 1 file/);
  expect(shown.out).toMatch(/mail +3 messages/);
  expect(shown.out).toMatch(/incoming mail +1 message/);
  expect(shown.out).toContain('backups');
  // Nobody who can be asked, and nobody who agreed.
  expect((await world.say(['erase', 'ana@inbox.test', '--all-accounts'])).code).toBe(2);
  const unsure = await world.say(['erase', 'ana@inbox.test', '--all-accounts'], { answers: ['n'] });
  expect([unsure.code, unsure.err]).toEqual([1, expect.stringContaining('Nothing was changed')]);
  expect(await traces()).not.toEqual([]);

  const erased = await world.say(['erase', 'ana@inbox.test', '--all-accounts', '--yes']);
  expect([erased.code, erased.err]).toEqual([0, '']);
  expect(erased.out).toContain('Erased for ana@inbox.test');
  expect(erased.out).toMatch(/submissions +1, with 1 file/);
  expect(await traces()).toEqual([]);
  const left = await world.say(['submissions', 'list', 'example.test/contact']);
  expect(left.out.split('\n').filter((line) => line !== '').length).toBe(1);
  expect(left.out).toContain('bo@inbox.test');
  const again = await world.say(['erase', 'ana@inbox.test', '--all-accounts', '--yes', '--json']);
  expect(JSON.parse(again.out)).toMatchObject({ erased: { submissions: 0, messages: 0, inbound: 0 }, in_progress: 0 });

  /** Tables that hold the person still. */
  async function traces(): Promise<string[]> {
    const found: string[] = [];
    for (const table of TABLES) {
      const rows = await store.read.selectFrom(table).selectAll().execute();
      const texts = rows.map((row) =>
        Object.values(row)
          .map((value) => (value instanceof Uint8Array ? Buffer.from(value).toString('latin1') : String(value)))
          .join('\n'),
      );
      if (texts.some((text) => /\bana(?:\+x)?@inbox|555-0199/i.test(text))) found.push(table);
    }
    return found;
  }
});

const TABLES = [
  'submissions',
  'submission_files',
  'file_chunks',
  'messages',
  'message_chunks',
  'deliveries',
  'attempts',
  'events',
  'acknowledged',
  'consents',
  'tokens',
  'suppressions',
  'mailboxes',
  'inbound',
  'raw_chunks',
  'inbound_log',
  'bounces',
] as const;

test('a key erases what its account has, where it may do both halves of it', async () => {
  const world = await cliWorld({ permissions: ['forms'] });
  const refused = await world.say(['erase', 'ana@inbox.test', '--yes']);
  expect([refused.code, refused.err]).toEqual([1, expect.stringContaining('email.send')]);
  const more = await cliWorld({ permissions: ['forms', 'email.send'] });
  expect((await more.say(['erase', 'ana@inbox.test', '--yes'])).code).toBe(0);
  const all = await more.say(['erase', 'ana@inbox.test', '--all-accounts', '--yes']);
  expect([all.code, all.err]).toEqual([1, expect.stringContaining('admin')]);
});

test('submissions are marked, released, sent again and deleted on the command line', async () => {
  const world = await cliWorld({ tenant: OPERATOR }, { projects: { 'site.yml': SITE } });
  const answer = await world.post('/example.test/contact', { message: 'Hello' }, JSON_ANSWER);
  const { id } = (await answer.json()) as { id: string };
  await world.caught(1);
  const said = async (...args: string[]) => (await world.say(['submissions', ...args])).out;
  expect(await said('resend', id)).toBe(`${id} sent again\n`);
  await world.caught(2);
  expect(await said('spam', id)).toBe(`${id} marked as spam\n`);
  expect(await said('list', 'example.test/contact', '--status', 'spam')).toContain(id);
  const refused = await world.say(['submissions', 'resend', id]);
  expect([refused.code, refused.err]).toEqual([1, expect.stringContaining('Release it first')]);
  expect(await said('ham', id)).toBe(`${id} accepted\n`);
  expect(JSON.parse(await said('ham', id, '--json'))).toMatchObject({ id, status: 'accepted' });
  expect((await world.say(['submissions', 'delete', id], { answers: ['n'] })).code).toBe(1);
  expect(await said('delete', id, '--yes')).toBe(`${id} deleted\n`);
  expect((await world.say(['submissions', 'show', id])).code).toBe(1);
});
