/** What options of a form do with a lead: the whole daemon, real sockets, mail that is caught. */
import { once } from 'node:events';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { simpleParser } from 'mailparser';
import { expect, onTestFinished, test } from 'vitest';
import { dropUnconfirmed } from '../../src/forms/opt-in.ts';
import { retentionJobs } from '../../src/daemon/jobs.ts';
import { OPERATOR } from '../../src/store/tenants.ts';
import { startTestWorld, type TestWorld } from '../harness/daemon.ts';
import { testKey } from '../harness/keys.ts';
import { startSmtpPeer } from '../harness/smtp-peer.ts';
import { testClock } from '../harness/clock.ts';

const PROXIED = { server: { http: { listen: ['127.0.0.1:0'], trusted_proxies: ['127.0.0.1'] } } };
const JSON_ANSWER = { Accept: 'application/json', Origin: 'https://example.test' };

function siteWith(forms: string): { 'site.yml': string } {
  return {
    'site.yml': `
project: { name: Site, slug: site, owner: owner@inbox.test }
settings: { rate_limit: 100000 }
domains:
  example.test:
    forms:
${forms}
`,
  };
}

/** What happened to it, as the operator is told. */
async function traceOf(world: TestWorld, id: string): Promise<string[]> {
  const { body } = await ask(world, 'GET', `/admin/trace/${id}`);
  return (body['timeline'] as { text: string }[]).map(({ text }) => text);
}

async function ask(world: TestWorld, method: string, path: string) {
  const permissions = ['admin', 'forms', 'email.send', 'analytics'] as const;
  const { headers } = await testKey(world.daemon.store, { tenant: OPERATOR, permissions });
  const response = await fetch(world.url + path, { method, headers });
  return { status: response.status, body: (await response.json()) as Record<string, unknown> };
}

async function submit(world: TestWorld, form: string, fields: Record<string, string>, headers = {}) {
  const answer = await world.post(`/example.test/${form}`, fields, { ...JSON_ANSWER, ...headers });
  const body = (await answer.json()) as { id?: string; message?: string };
  expect([answer.status, body]).toMatchObject([200, { success: true }]);
  return { id: body.id ?? '', message: body.message };
}

/** What was caught for this address, oldest first, parsed. */
async function mailTo(world: TestWorld, address: string) {
  const mails = world.mx.mails.list().filter(({ envelope }) => envelope.to.includes(address));
  return Promise.all(mails.reverse().map(async (mail) => simpleParser(await world.mx.mails.source(mail))));
}

async function linkTo(world: TestWorld, address: string): Promise<string> {
  await expect.poll(async () => (await mailTo(world, address)).length).toBeGreaterThan(0);
  const [, token] = /\/confirm\/([\w-]+)/.exec((await mailTo(world, address))[0]?.text ?? '') ?? [];
  return `${world.url}/confirm/${token}`;
}

test('double opt-in: what a visitor sends arrives once it is confirmed by the mailed link', async () => {
  const world = await startTestWorld({
    projects: siteWith(`
      join: { name: Join us, to: owner@inbox.test, double_opt_in: true, acknowledgment: { enabled: true } }
      beitritt: { to: owner@inbox.test, double_opt_in: true, theme: { language: de } }`),
  });
  const fields = { email: 'ana@inbox.test', message: 'Please <b>call</b> me' };
  const { id, message } = await submit(world, 'join', fields);
  expect(message).toContain('confirm your message');
  expect((await ask(world, 'GET', `/submissions/${id}`)).body).toMatchObject({ status: 'pending', deliveries: [] });
  const listed = await ask(world, 'GET', '/forms/example.test/join/submissions?status=pending');
  expect(listed.body).toMatchObject({ count: 1, submissions: [{ id }] });
  expect((await ask(world, 'GET', '/forms/example.test/join/submissions?status=accepted')).body).toMatchObject({
    count: 0,
  });
  expect((await ask(world, 'POST', `/submissions/${id}/resend`)).status).toBe(409);

  const link = await linkTo(world, 'ana@inbox.test');
  const [mail] = await mailTo(world, 'ana@inbox.test');
  expect(mail?.from?.text).toBe('"Join us" <forms@example.test>');
  // Nothing that was typed comes along: it must be useless to a spammer.
  expect(`${mail?.subject} ${mail?.text} ${String(mail?.html)}`).not.toContain('call');
  expect(mail?.headers.get('auto-submitted')).toBe('auto-replied');
  // The one who gains by the confirmation must not be able to read the link.
  const messages = await world.daemon.store.read.selectFrom('messages').select('id').execute();
  for (const each of messages) {
    expect(JSON.stringify((await ask(world, 'GET', `/email/${each.id}`)).body)).not.toContain('/confirm/');
    expect((await ask(world, 'GET', `/email/${each.id}/source`)).status).toBe(404);
  }

  // A mail scanner follows the link, and confirms nothing.
  await submit(world, 'beitritt', { email: 'bea@inbox.test' });
  const german = await (await fetch(await linkTo(world, 'bea@inbox.test'))).text();
  expect(german).toMatch(/<html lang="de"[^]*Ihre Nachricht an example\.test bestätigen/);
  const page = await (await fetch(link)).text();
  expect(page).toContain('<button>Confirm</button>');
  expect((await ask(world, 'GET', `/submissions/${id}`)).body).toMatchObject({ status: 'pending' });
  expect(await mailTo(world, 'owner@inbox.test')).toEqual([]);

  for (let i = 0; i < 2; i++) {
    const done = await fetch(link, { method: 'POST' });
    expect([done.status, await done.text()]).toEqual([200, expect.stringContaining('your message is confirmed')]);
  }
  await world.caught(4);
  expect((await ask(world, 'GET', `/submissions/${id}`)).body).toMatchObject({ status: 'accepted' });
  expect((await mailTo(world, 'owner@inbox.test')).map(({ text }) => text)).toEqual([
    expect.stringContaining('Please <b>call</b> me'),
  ]);
  expect((await mailTo(world, 'ana@inbox.test')).length).toBe(2);
  expect((await ask(world, 'GET', '/forms/example.test/join')).body).toMatchObject({ submissions: 1 });
  expect(await traceOf(world, id)).toEqual(
    expect.arrayContaining([`submission.pending of ${id}`, `submission.accepted of ${id}`]),
  );
});

test('an address is mailed one link in 24 hours, and it confirms what the same visitor sent, and nobody else', async () => {
  const world = await startTestWorld({
    server: PROXIED,
    projects: siteWith(`
      join: { to: owner@inbox.test, double_opt_in: true }`),
  });
  const own = { 'X-Forwarded-For': '198.51.100.7' };
  const first = await submit(world, 'join', { email: 'an.na@gmail.com', message: 'with a tpyo' }, own);
  const again = await submit(world, 'join', { email: 'anna+x@gmail.com', message: 'with no typo' }, own);
  const others: string[] = [];
  for (let i = 0; i < 20; i++) {
    const from = { 'X-Forwarded-For': `203.0.113.${i + 1}` };
    others.push((await submit(world, 'join', { email: 'anna@googlemail.com', message: `spam ${i}` }, from)).id);
  }
  const sent = await world.daemon.store.read
    .selectFrom('messages')
    .select('source')
    .where('kind', '=', 'confirmation')
    .execute();
  expect(sent.length).toBe(1);
  expect(await traceOf(world, again.id)).toContain(
    'no link to confirm it: the address got one within the last 24 hours',
  );

  const [, token] = /\/confirm\/([\w-]+)/.exec(sent[0]?.source ?? '') ?? [];
  await fetch(`${world.url}/confirm/${token}`, { method: 'POST' });
  for (const { id } of [first, again])
    expect((await ask(world, 'GET', `/submissions/${id}`)).body).toMatchObject({ status: 'accepted' });
  for (const id of others) {
    expect((await ask(world, 'GET', `/submissions/${id}`)).body).toMatchObject({ status: 'pending' });
  }
  // The owner of the form may know better: releasing it needs no link.
  const [other = ''] = others;
  expect((await ask(world, 'POST', `/submissions/${other}/ham`)).body).toMatchObject({ status: 'accepted' });
  await world.caught(3);
});

test('what nobody confirms is dropped after seven days, and a form with double opt-in asks for an address', async () => {
  const clock = testClock(Date.now());
  const world = await startTestWorld({
    projects: siteWith(`
      join: { to: owner@inbox.test, double_opt_in: true, retention: forever }`),
  });
  const bare = await world.post('/example.test/join', { message: 'Hello' }, JSON_ANSWER);
  expect([bare.status, await bare.json()]).toMatchObject([
    400,
    { errors: [{ field: 'email', code: 'REQUIRED_FIELD_MISSING' }] },
  ]);
  const { id } = await submit(world, 'join', { email: 'ana@inbox.test', message: 'Hello' });
  const spam = await submit(world, 'join', { email: 'bo@inbox.test', message: 'Hello' });
  const spamLink = await linkTo(world, 'bo@inbox.test');
  expect((await ask(world, 'POST', `/submissions/${spam.id}/spam`)).body).toMatchObject({ status: 'spam' });
  expect((await fetch(spamLink, { method: 'POST' })).status).toBe(404);
  expect((await ask(world, 'GET', `/submissions/${spam.id}`)).body).toMatchObject({ status: 'spam' });

  const link = await linkTo(world, 'ana@inbox.test');
  const parts = { store: world.daemon.store, clock };
  clock.advance(7 * 86_400_000 - 60_000);
  await dropUnconfirmed(parts);
  expect((await ask(world, 'GET', `/submissions/${id}`)).status).toBe(200);
  clock.advance(120_000);
  await dropUnconfirmed(parts);
  expect((await ask(world, 'GET', `/submissions/${id}`)).status).toBe(404);
  expect((await fetch(link, { method: 'POST' })).status).toBe(404);
});

/** What a receiver of webhooks on loopback is told. */
async function startReceiver() {
  const heard: { type: string; data: Record<string, unknown> }[] = [];
  const server = createServer((request, response) => {
    let body = '';
    request.setEncoding('utf8').on('data', (chunk: string) => (body += chunk));
    request.on('end', () => {
      heard.push(JSON.parse(body) as (typeof heard)[number]);
      response.end();
    });
  }).listen(0, '127.0.0.1');
  await once(server, 'listening');
  onTestFinished(() => void server.close());
  return { heard, url: `http://127.0.0.1:${(server.address() as AddressInfo).port}/fallback` };
}

/** A world whose owners are at a server that answers this to every recipient; its time is the test's. */
async function startFailing(reply: string, fallback: (url: string) => string) {
  const clock = testClock(Date.now());
  const peer = await startSmtpPeer({ script: { rcpt: ({ line }) => (line.includes('<fine@') ? undefined : reply) } });
  const { heard, url } = await startReceiver();
  let passing: NodeJS.Timeout | undefined;
  onTestFinished(() => clearInterval(passing));
  const world = await startTestWorld({
    parts: { clock },
    server: {
      delivery: { routes: { 'full.test': `127.0.0.1:${peer.port}` } },
      webhooks: { allow_private_networks: true },
    },
    projects: siteWith(fallback(url)),
  });
  // Before the daemon ends: its stop takes time.
  onTestFinished(() => void (passing = setInterval(() => clock.advance(100), 1)));

  /** Lets so much time pass, a little at a time. */
  async function pass(ms: number): Promise<void> {
    const step = Math.max(10_000, ms / 100);
    for (let left = ms; left > 0; left -= step) {
      clock.advance(Math.min(left, step));
      await new Promise((resolve) => setTimeout(resolve, 5));
    }
  }

  return { ...world, heard, pass };
}

test('a lead that bounces goes to the fallback, by mail and by webhook, once, and trace says why', async () => {
  const world = await startFailing(
    '550 5.1.1 no such user',
    (url) => `
      contact: { to: [owner@full.test, boss@full.test], fallback: { to: second@inbox.test, webhook: "${url}" } }
      shared: { to: [owner@full.test, fine@full.test], fallback: { to: second@inbox.test } }`,
  );
  const shared = await submit(world, 'shared', { email: 'ana@inbox.test', message: 'One of two got it' });
  const { id } = await submit(world, 'contact', { email: 'ana@inbox.test', message: 'Are you open?' });
  await expect
    .poll(async () => {
      await world.pass(10_000);
      return world.heard.length;
    })
    .toBe(1);
  await expect.poll(async () => (await mailTo(world, 'second@inbox.test')).length).toBe(1);
  const mails = await mailTo(world, 'second@inbox.test');
  expect(mails.map(({ text }) => text)).toEqual([expect.stringContaining('Are you open?')]);
  expect(mails[0]?.text).toContain('could not be delivered to boss@full.test, owner@full.test');
  expect(world.heard).toMatchObject([
    {
      type: 'submission.fallback',
      data: {
        id,
        fields: { message: 'Are you open?' },
        failed: ['boss@full.test', 'owner@full.test'],
        reply: expect.stringContaining('550 5.1.1') as string,
      },
    },
  ]);
  expect(await traceOf(world, id)).toContainEqual(
    expect.stringMatching(
      /^submission\.fallback of .*: to second@inbox\.test, because mail to boss@full\.test, owner@full\.test failed: 550 5\.1\.1/,
    ),
  );
  const { body } = await ask(world, 'GET', `/submissions/${id}`);
  expect(body['deliveries']).toMatchObject([
    { recipient: 'boss@full.test', state: 'bounced' },
    { recipient: 'owner@full.test', state: 'bounced' },
    { recipient: 'second@inbox.test', state: 'delivered' },
  ]);
  // What is sent again fails again, and does not go to the fallback again.
  expect((await ask(world, 'POST', `/submissions/${id}/resend`)).status).toBe(200);
  await world.pass(6 * 3_600_000);
  expect((await mailTo(world, 'second@inbox.test')).length).toBe(1);
  expect((await ask(world, 'GET', `/submissions/${shared.id}`)).body['deliveries']).toMatchObject([
    { recipient: 'fine@full.test', state: 'delivered' },
    { recipient: 'owner@full.test', state: 'bounced' },
  ]);
});

test('a lead that is still not delivered after that time goes to the fallback, and not before', async () => {
  const world = await startFailing(
    '451 4.2.2 mailbox full',
    () => `
      contact: { to: owner@full.test, fallback: { to: second@inbox.test, after: 2h } }`,
  );
  const { id } = await submit(world, 'contact', { email: 'ana@inbox.test', message: 'Are you open?' });
  await world.pass(2 * 3_600_000 - 120_000);
  expect(await mailTo(world, 'second@inbox.test')).toEqual([]);
  await world.pass(240_000);
  await expect.poll(async () => (await mailTo(world, 'second@inbox.test')).length).toBe(1);
  expect((await ask(world, 'GET', `/submissions/${id}`)).body['deliveries']).toMatchObject([
    { recipient: 'owner@full.test', state: 'deferred' },
    { recipient: 'second@inbox.test', state: 'delivered' },
  ]);
});

test('what a form does not store goes when its mail has arrived, and not before', async () => {
  const peer = await startSmtpPeer({ script: { rcpt: '451 4.2.1 later' } });
  const world = await startTestWorld({
    server: { delivery: { routes: { 'full.test': `127.0.0.1:${peer.port}` } } },
    projects: siteWith(`
      none: { to: owner@inbox.test, store: none, uploads: { enabled: true } }
      metadata: { to: owner@inbox.test, store: metadata, uploads: { enabled: true } }
      waiting: { to: owner@full.test, store: none }`),
  });
  const ids: string[] = [];
  for (const name of ['none', 'metadata']) {
    const form = new FormData();
    form.set('email', 'ana@inbox.test');
    form.set('message', 'A secret');
    form.set('file', new Blob(['%PDF']), 'plan.pdf');
    const answer = await world.post(`/example.test/${name}`, form, JSON_ANSWER);
    ids.push(((await answer.json()) as { id: string }).id);
  }
  const waiting = await submit(world, 'waiting', { email: 'ana@inbox.test', message: 'A secret' });
  const states = async () => (await world.queue()).map(({ state }) => state).toSorted();
  await expect.poll(states).toEqual(['deferred', 'delivered', 'delivered']);
  const { store, snapshot } = world.daemon;
  const clock = testClock(Date.now() + 3 * 60_000);
  const jobs = retentionJobs({ store, clock, config: () => snapshot().server, snapshot });
  for (const job of Object.values(jobs)) await job();

  const [none = '', metadata = ''] = ids;
  expect((await ask(world, 'GET', `/submissions/${none}`)).status).toBe(404);
  expect((await ask(world, 'GET', '/forms/example.test/none')).body).toMatchObject({ submissions: 1 });
  const { body } = await ask(world, 'GET', `/submissions/${metadata}`);
  expect(body).toMatchObject({ stored: 'metadata', fields: {}, files: [], status: 'accepted', ip: '127.0.0.1' });
  expect((await ask(world, 'POST', `/submissions/${metadata}/resend`)).body).toMatchObject({ code: 'CONFLICT' });
  expect((await ask(world, 'GET', `/submissions/${waiting.id}`)).body).toMatchObject({
    stored: 'all',
    fields: { message: 'A secret' },
  });
  const chunks = await store.read.selectFrom('file_chunks').select('file').execute();
  expect(chunks).toEqual([]);
});

test('the address of a visitor is kept as the form says, wherever it is shown, and counts as a whole', async () => {
  const world = await startTestWorld({
    server: PROXIED,
    projects: siteWith(`
      full: { to: owner@inbox.test, subject: "full {{ ip }}" }
      truncated: { to: owner@inbox.test, ip: truncated, subject: "truncated {{ ip }}" }
      hashed: { to: owner@inbox.test, ip: hashed, subject: "hashed {{ ip }}" }
      none: { to: owner@inbox.test, ip: none, rateLimit: 1, subject: "none {{ ip }}" }`),
  });
  const visitor = { 'X-Forwarded-For': '198.51.100.77' };
  const shown: Record<string, unknown> = {};
  for (const name of ['full', 'truncated', 'hashed', 'none']) {
    const { id } = await submit(world, name, { message: 'Hello' }, visitor);
    shown[name] = (await ask(world, 'GET', `/submissions/${id}`)).body['ip'];
    const traced = (await traceOf(world, id)).join('\n');
    expect([name, traced.includes('198.51.100.77')]).toEqual([name, name === 'full']);
  }
  expect(shown).toEqual({
    full: '198.51.100.77',
    truncated: '198.51.100.0',
    hashed: expect.stringMatching(/^hash:[0-9a-f]{16}$/) as string,
    none: '',
  });
  await world.caught(4);
  const subjects = (await mailTo(world, 'owner@inbox.test')).map(({ subject }) => subject).sort();
  expect(subjects).toEqual(
    ['full 198.51.100.77', `hashed ${String(shown['hashed'])}`, 'none', 'truncated 198.51.100.0'].sort(),
  );
  // The limit counts the visitor all the same, and nobody else.
  const again = await world.post('/example.test/none', { message: 'Hello' }, { ...JSON_ANSWER, ...visitor });
  expect(again.status).toBe(429);
  const neighbour = { ...JSON_ANSWER, 'X-Forwarded-For': '198.51.100.78' };
  expect((await world.post('/example.test/none', { message: 'Hello' }, neighbour)).status).toBe(200);
  const rows = await world.daemon.store.read.selectFrom('submissions').select(['ip', 'spam_reasons']).execute();
  expect(rows.filter(({ ip }) => ip.includes('198.51.100.7')).length).toBe(1);
});
