/** DKIM keys change hands while mail flows: whatever arrives verifies, and the owner of the domain is told what to do. */
import { readFile, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { expect, onTestFinished, test } from 'vitest';
import { z } from 'zod';
import { OPERATOR } from '../../src/store/tenants.ts';
import { apiClient } from '../harness/api.ts';
import { testClock } from '../harness/clock.ts';
import { SITE, startTestWorld } from '../harness/daemon.ts';

const shown = z.object({
  status: z.string(),
  records: z.array(
    z.object({
      purpose: z.string(),
      type: z.enum(['TXT', 'MX', 'CNAME']),
      name: z.string(),
      value: z.string(),
      required: z.boolean(),
      status: z.string(),
      note: z.string().optional(),
    }),
  ),
  keys: z.array(z.object({ selector: z.string(), state: z.string(), advice: z.string() })),
});

async function start(site = SITE, unverified: readonly string[] = []) {
  const clock = testClock();
  let passing: NodeJS.Timeout | undefined;
  onTestFinished(() => clearInterval(passing));
  const world = await startTestWorld({ projects: { 'site.yml': site }, unverified, parts: { clock } });
  onTestFinished(() => void (passing = setInterval(() => clock.advance(100), 1)));
  const client = await apiClient(world, { tenant: OPERATOR, now: clock.now() });
  let mails = 0;

  async function ask(method: string, path = '') {
    const { status, body } = await client.ask(method, `/domains/example.test${path}`);
    expect(status).toBe(200);
    return shown.parse(body);
  }

  return {
    world,
    clock,
    show: () => ask('GET'),
    rotate: () => ask('POST', '/rotate-dkim'),
    verify: () => ask('POST', '/verify'),
    /** Every record that the domain is told of, but those of MX and the like. */
    async publish() {
      const { records } = await ask('GET');
      world.dns.set([
        ...world.publicZone,
        ...records.flatMap(({ purpose, name, value }) =>
          purpose === 'ownership' || purpose === 'dkim' ? [{ type: 'TXT' as const, name, value }] : [],
        ),
      ]);
    },
    /** The selectors that sign a form's mail now; each signature verifies where it arrives. */
    async signing(): Promise<string[]> {
      // A keyring looks again after a minute.
      clock.advance(60_000);
      await world.post('/example.test/contact', { message: 'Are you open on Friday?' });
      const mail = (await world.caught(++mails)).list().at(0);
      if (mail === undefined) throw new Error('no mail was caught');
      expect(mail.verdicts.dkim.map(({ result }) => result)).toEqual(mail.verdicts.dkim.map(() => 'pass'));
      const text = (await world.mx.mails.source(mail)).toString();
      const header = text.slice(0, text.indexOf('\r\n\r\n')).replaceAll(/\r\n[ \t]+/g, ' ');
      return Array.from(header.matchAll(/^DKIM-Signature:.*?\bs=([^;]+)/gm), ([, selector = '']) => selector);
    },
  };
}

test('a rotation: asked for, published, seen, and only then signing; the old record is needed for a while', async () => {
  const { world, show, rotate, verify, publish, signing } = await start();
  expect(await signing()).toEqual(['postern']);
  const asked = await rotate();
  expect(asked.keys).toMatchObject([
    { selector: 'postern', state: 'active' },
    { selector: 'postern-20260101', state: 'next' },
  ]);
  expect(asked.records.filter(({ purpose }) => purpose === 'dkim')).toMatchObject([
    { name: 'postern._domainkey.example.test', required: true, status: 'ok' },
    {
      name: 'postern-20260101._domainkey.example.test',
      required: false,
      status: 'unknown',
      note: expect.stringContaining('The next key signs once it is found in DNS'),
    },
  ]);
  // The daemon may have looked at the new record meanwhile.
  expect((await rotate()).keys).toEqual(asked.keys);
  expect((await verify()).status).toBe('verified');
  expect(await signing()).toEqual(['postern']);

  await publish();
  const seen = await verify();
  expect(seen).toMatchObject({
    status: 'verified',
    keys: [
      { selector: 'postern-20260101', state: 'active' },
      {
        selector: 'postern',
        state: 'retiring',
        advice: expect.stringContaining('Keep this record until at least 2026-01-08'),
      },
    ],
  });
  expect(seen.records.filter(({ purpose }) => purpose === 'dkim')).toMatchObject([
    { name: 'postern-20260101._domainkey.example.test', required: true, status: 'ok' },
    { name: 'postern._domainkey.example.test', required: false, status: 'ok', note: expect.any(String) },
  ]);
  expect(await show()).toEqual(seen);
  expect(await signing()).toEqual(['postern-20260101']);
  const told = await world.daemon.store.read
    .selectFrom('events')
    .select('type')
    .where('type', 'like', '%dkim%')
    .execute();
  expect(told.map(({ type }) => type).sort()).toEqual(['domain.dkim_active', 'domain.dkim_next']);
});

test('nobody asks: the scheduled check sees the record soon, retires the old key in time, and forgets it once its record is gone', async () => {
  const { world, clock, show, rotate, publish } = await start();
  await rotate();
  await publish();
  clock.advance(20_000);
  await world.daemon.domains.checkDue();
  expect((await show()).keys).toMatchObject([{ state: 'active' }, { selector: 'postern', state: 'retiring' }]);
  clock.advance(7 * 86_400_000);
  await world.daemon.domains.checkDue();
  const { keys, records } = await show();
  expect(keys).toMatchObject([
    { state: 'active' },
    { selector: 'postern', advice: expect.stringContaining('can remove it') },
  ]);
  expect(records.filter(({ purpose }) => purpose === 'dkim')).toHaveLength(1);
  await publish();
  clock.advance(86_400_000);
  await world.daemon.domains.checkDue();
  expect((await show()).keys.map(({ selector }) => selector)).toEqual(['postern-20260101']);
});

test('another selector and another algorithm in the configuration are published before they sign, too', async () => {
  const { world, show, verify, publish, signing } = await start();
  const file = join(world.folder, 'projects', 'site.yml');
  const text = await readFile(file, 'utf8');
  const dkim = 'dkim: { selector: mail, algorithms: [rsa, ed25519] }';
  await writeFile(file, text.replace('  example.test:\n', `  example.test:\n    ${dkim}\n`));
  await world.daemon.reload();
  await world.daemon.domains.adopt();
  expect((await show()).keys.map(({ selector, state }) => `${selector} ${state}`).sort()).toEqual([
    'mail next',
    'mail-ed25519 next',
    'postern active',
  ]);
  expect((await verify()).status).toBe('verified');
  expect(await signing()).toEqual(['postern']);
  await publish();
  await verify();
  expect((await signing()).sort()).toEqual(['mail', 'mail-ed25519']);

  await writeFile(file, text.replace('  example.test:\n', `  example.test:\n    dkim: { selector: mail }\n`));
  await world.daemon.reload();
  await verify();
  expect(await signing()).toEqual(['mail']);
});

test('where the host name is a domain of the operator’s, its key is that domain’s', async () => {
  const { world, clock } = await start(SITE.replace('example.test', 'mail.postern.test'), ['mail.postern.test']);
  const operator = await apiClient(world, { tenant: OPERATOR, permissions: ['admin', 'domains'], now: clock.now() });
  const refused = await operator.ask('POST', '/admin/host-keys/rotate');
  expect(refused).toMatchObject({ status: 409, body: { error: expect.stringContaining('as for any other domain') } });
  const { body } = await operator.ask('POST', '/domains/mail.postern.test/rotate-dkim');
  expect(body).toMatchObject({ keys: [{ selector: 'postern', state: 'active' }, { state: 'next' }] });
});

test('the server’s own key is rotated likewise', async () => {
  const { world, clock } = await start();
  const operator = await apiClient(world, { tenant: OPERATOR, permissions: ['admin'], now: clock.now() });
  const { body } = await operator.ask('POST', '/admin/host-keys/rotate');
  expect(body).toMatchObject({
    hostname: 'mail.postern.test',
    keys: [
      { selector: 'postern', state: 'active' },
      { state: 'next', advice: expect.stringContaining('Publish this') },
    ],
  });
  const { keys } = z
    .object({ keys: z.array(z.object({ record: z.object({ name: z.string(), value: z.string() }) })) })
    .parse(body);
  const states = async (method: string, path: string) => {
    const answer = await operator.ask(method, path);
    return z
      .object({ keys: z.array(z.object({ state: z.string() })) })
      .parse(answer.body)
      .keys.map(({ state }) => state);
  };
  expect(await states('POST', '/admin/host-keys/verify')).toEqual(['active', 'next']);
  world.dns.set([...world.publicZone, ...keys.map(({ record }) => ({ type: 'TXT' as const, ...record }))]);
  expect(await states('POST', '/admin/host-keys/verify')).toEqual(['active', 'retiring']);
  expect(await states('GET', '/admin/host-keys')).toEqual(['active', 'retiring']);
});
