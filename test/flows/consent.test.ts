/** Nobody gets mail that a stranger can cause unless he agreed: every kind of recipient, through the sockets of a daemon. */
import { simpleParser } from 'mailparser';
import { expect, test } from 'vitest';
import { z } from 'zod';
import { changeTenant } from '../../src/store/tenants.ts';
import { apiClient, type Client } from '../harness/api.ts';
import { startTestWorld, type TestWorld, type WorldSettings } from '../harness/daemon.ts';
import type { ZoneRecord } from '../../src/dev/dns-server.ts';
import { SmtpClient } from '../harness/inbound-smtp.ts';
import { startSmtpPeer } from '../harness/smtp-peer.ts';

const JSON_ANSWER = { Accept: 'application/json' };
const OPEN = { server: { signup: 'open', http: { listen: ['127.0.0.1:0'], base_url: 'https://mail.postern.test' } } };
const ACCOUNT = 'acct@inbox.test';

/** Who is named as a recipient, by what is known of him. */
const RECIPIENTS = {
  own_domain: 'someone@own.test',
  foreign_domain: 'someone@foreign.test',
  account: ACCOUNT,
  confirmed: 'Yes@inbox.test',
  pending: 'silent@inbox.test',
  refused: 'never@inbox.test',
  trusted: 'unasked@inbox.test',
} as const;
type State = keyof typeof RECIPIENTS;
const STATES = z
  .array(z.enum(['own_domain', 'foreign_domain', 'account', 'confirmed', 'pending', 'refused', 'trusted']))
  .parse(Object.keys(RECIPIENTS));

const KINDS = ['instant', 'api', 'collection', 'to', 'through', 'alias', 'catch_all', 'owner'] as const;

function domainOf(state: State): string {
  return `${state.replace('_', '-')}.test`;
}

/** All kinds of recipients that a project file names. */
function projectOf(state: State): string {
  const to = RECIPIENTS[state];
  const domain = domainOf(state);
  const name = state.replace('_', '-');
  return `
project: { name: ${name}, slug: ${name}, owner: ${to} }
domains:
  ${domain}:
    forwarding: { "through@${domain}": ${to}, "alias@${domain}": ${to}, "*@${domain}": ${to} }
    forms:
      to: { to: ${to}, subject: "to ${state}" }
      through: { subject: "through ${state}" }
collections:
  ${name}: { forms: { collection: { email: ${to}, subject: "collection ${state}" }, owner: { subject: "owner ${state}" } } }
`;
}

const records = z.object({
  records: z.array(
    z.object({ name: z.string(), type: z.enum(['TXT', 'MX', 'CNAME']), value: z.string(), required: z.boolean() }),
  ),
});

/** Publishes what these domains have to, beside what stands there, and has the daemon look. */
async function verify(world: TestWorld, client: Client, domains: readonly string[], zone: ZoneRecord[]): Promise<void> {
  for (const domain of domains) {
    const { body } = await client.ask('GET', `/domains/${domain}`);
    zone.push(...records.parse(body).records.filter(({ required }) => required));
  }
  world.dns.set([...world.publicZone, ...zone]);
  for (const domain of domains) {
    const { body } = await client.ask('POST', `/domains/${domain}/verify`);
    expect(body).toMatchObject({ domain, verified: true });
  }
}

/** Signs up as a stranger does, and follows the link. */
async function signUp(world: TestWorld, email: string, name = 'Stranger & Sons') {
  const signed = await fetch(`${world.url}/signup`, {
    method: 'POST',
    headers: { 'Content-Type': 'application/json' },
    body: JSON.stringify({ name, email }),
  });
  const { tenant, key } = z
    .object({ tenant: z.object({ id: z.string() }), key: z.string() })
    .parse(await signed.json());
  await fetch(await linkTo(world, email), { method: 'POST' });
  // So that no limit of a plan is in the way.
  await world.daemon.store.write(changeTenant(tenant.id, { plan: 'enterprise' }));
  const client: Client = {
    tenant: tenant.id,
    async ask(method, path, body) {
      const response = await fetch(world.url + path, {
        method,
        headers: { Authorization: `Bearer ${key}`, 'Content-Type': 'application/json' },
        ...(body === undefined ? {} : { body: JSON.stringify(body) }),
      });
      return { status: response.status, headers: response.headers, body: await response.json() };
    },
  };
  return client;
}

/** The mails that ask this address to confirm something, oldest first. */
async function asking(world: TestWorld, address: string): Promise<{ text: string; link: string }[]> {
  const mails = world.mx.mails
    .list()
    .filter(({ envelope }) => envelope.to.includes(address))
    .reverse();
  const texts = await Promise.all(
    mails.map(async (mail) => (await simpleParser(await world.mx.mails.source(mail))).text),
  );
  return texts.flatMap((text = '') => {
    const [, token] = /\/confirm\/([\w-]+)/.exec(text) ?? [];
    return token === undefined ? [] : [{ text, link: `${world.url}/confirm/${token}` }];
  });
}

async function linkTo(world: TestWorld, address: string): Promise<string> {
  await expect.poll(async () => (await asking(world, address)).length).toBeGreaterThan(0);
  return (await asking(world, address)).at(-1)?.link ?? '';
}

/** `subject` of all that was caught but for mail of the server itself. */
function arrived(world: TestWorld): string[] {
  return world.mx.mails
    .list()
    .filter(({ from }) => !from.includes('postern@'))
    .map(({ subject, envelope }) => `${subject} -> ${envelope.to.join()}`)
    .sort();
}

function expected(states: readonly State[]): string[] {
  return states.flatMap((state) => KINDS.map((kind) => `${kind} ${state} -> ${RECIPIENTS[state]}`)).sort();
}

const form = z.object({ id: z.string(), recipient_status: z.string() });

/** Makes every kind of recipient, sends one mail to each, and answers what the forms said of it. */
async function causeMail(world: TestWorld, client: Client, state: State): Promise<string[]> {
  const to = RECIPIENTS[state];
  const instant = form.parse((await client.ask('POST', '/instant/forms', { name: 'I', email: to })).body);
  const made = form.parse((await client.ask('POST', '/forms', { name: 'A', to, subject: `api ${state}` })).body);
  const domain = domainOf(state);
  const name = state.replace('_', '-');
  const posts = [
    `/f/${instant.id}`,
    `/f/${made.id}`,
    `/${domain}/to`,
    `/${domain}/through`,
    `/c/${name}/collection`,
    `/c/${name}/owner`,
  ];
  for (const path of posts) {
    const answer = await world.post(path, { _subject: `instant ${state}`, message: 'Hello' }, JSON_ANSWER);
    expect([path, answer.status]).toEqual([path, 200]);
  }
  for (const [kind, address] of [
    ['alias', `alias@${domain}`],
    ['catch_all', `anybody@${domain}`],
  ]) {
    const smtp = await SmtpClient.open(world.daemon.smtp[0]?.port ?? 0);
    const message = `From: ann@sender.test\r\nMessage-ID: <${kind}-${state}@sender.test>\r\nSubject: ${kind} ${state}\r\n\r\nHello`;
    expect(await smtp.send(message, { to: [address ?? ''] })).toMatch(/^250/);
    smtp.close();
  }
  return [instant.recipient_status, made.recipient_status];
}

/** Deliveries of mail for this recipient, but for what asks him. */
async function deliveriesTo(world: TestWorld, recipient: string) {
  return world.daemon.store.read
    .selectFrom('deliveries')
    .innerJoin('messages', 'messages.id', 'deliveries.message')
    .select(['deliveries.state', 'deliveries.attempts', 'deliveries.next_attempt_at', 'deliveries.last_reply'])
    .where('recipient', '=', recipient)
    .where('messages.kind', '<>', 'system')
    .execute();
}

async function startOpen(more: WorldSettings = {}) {
  const MX = ['own.test', 'foreign.test', 'gmail.com', 'googlemail.com', 'sender.test'].map(
    (name) => ({ name, type: 'MX', value: '10 mx.inbox.test' }) as const,
  );
  return startTestWorld({ server: OPEN, zone: MX, ...more });
}

test('consent × kind of recipient: who gets mail, and who does not', async () => {
  const world = await startOpen();
  const stranger = await signUp(world, ACCOUNT);
  const other = await apiClient(world, { account: { trusted: 0, plan: 'enterprise' } });
  const trusted = await apiClient(world, { account: { trusted: 1, plan: 'enterprise' } });
  const zone: ZoneRecord[] = [];
  const claim = (name: string) => ({ config: `project: { name: D, slug: d }\ndomains: { ${name}: {} }`, files: {} });
  await stranger.ask('PUT', '/projects/d/config', claim('own.test'));
  await other.ask('PUT', '/projects/d/config', claim('foreign.test'));
  await verify(world, stranger, ['own.test'], zone);
  await verify(world, other, ['foreign.test'], zone);

  for (const state of STATES) {
    const client = state === 'trusted' ? trusted : stranger;
    const pushed = await client.ask('PUT', `/projects/${state.replace('_', '-')}/config`, { config: projectOf(state) });
    expect([state, pushed.status]).toEqual([state, 200]);
    await verify(world, client, [domainOf(state)], zone);
  }
  // A mail scanner that follows the link agrees to nothing.
  expect((await fetch(await linkTo(world, RECIPIENTS.pending))).status).toBe(200);
  expect((await fetch(await linkTo(world, RECIPIENTS.confirmed), { method: 'POST' })).status).toBe(200);
  const refusal = await fetch(`${await linkTo(world, RECIPIENTS.refused)}?answer=never`, { method: 'POST' });
  expect(await refusal.text()).toContain('This server no longer sends mail to');

  const said: Record<string, string[]> = {};
  for (const state of STATES) said[state] = await causeMail(world, state === 'trusted' ? trusted : stranger, state);
  expect(said).toEqual({
    own_domain: ['confirmed', 'confirmed'],
    foreign_domain: ['pending', 'pending'],
    account: ['confirmed', 'confirmed'],
    confirmed: ['confirmed', 'confirmed'],
    pending: ['pending', 'pending'],
    refused: ['refused', 'refused'],
    trusted: ['confirmed', 'confirmed'],
  });
  const getting = ['own_domain', 'account', 'confirmed', 'trusted'] as const;
  await expect.poll(() => arrived(world), { timeout: 60_000 }).toEqual(expected(getting));
  for (const state of ['foreign_domain', 'pending'] as const) {
    await expect
      .poll(async () => (await deliveriesTo(world, RECIPIENTS[state])).every(({ last_reply }) => last_reply !== null))
      .toBe(true);
    const waiting = await deliveriesTo(world, RECIPIENTS[state]);
    expect(waiting).toHaveLength(KINDS.length);
    for (const row of waiting) {
      expect(row).toMatchObject({ state: 'queued', attempts: 0, next_attempt_at: null });
      expect(row.last_reply).toContain('has not agreed');
    }
  }
  await expect
    .poll(async () => (await deliveriesTo(world, RECIPIENTS.refused)).map(({ state }) => state))
    .toEqual(KINDS.map(() => 'suppressed'));
  expect((await deliveriesTo(world, RECIPIENTS.refused))[0]?.last_reply).toContain(
    'has declined mail from this server',
  );

  // Who agrees gets what was kept; who is trusted from now on needs nobody’s word.
  await fetch(await linkTo(world, RECIPIENTS.pending), { method: 'POST' });
  const agreed = [...getting, 'pending'] as const;
  await expect.poll(() => arrived(world), { timeout: 60_000 }).toEqual(expected(agreed));
  const operator = await apiClient(world, { tenant: 'ten_operator', permissions: ['admin'] });
  await operator.ask('PATCH', `/admin/tenants/${stranger.tenant}`, { trusted: true });
  await expect.poll(() => arrived(world), { timeout: 60_000 }).toEqual(expected([...agreed, 'foreign_domain']));
  expect((await asking(world, RECIPIENTS.trusted)).length).toBe(0);
  expect((await asking(world, RECIPIENTS.own_domain)).length).toBe(0);
});

test('of several recipients those who agreed get theirs, and the visitor an acknowledgment once one has', async () => {
  const world = await startOpen();
  const stranger = await signUp(world, ACCOUNT);
  const to = [ACCOUNT, 'silent@inbox.test'];
  const made = await stranger.ask('POST', '/forms', { name: 'Both', to, acknowledgment: { enabled: true } });
  expect(made.body).toMatchObject({
    recipient_status: 'pending',
    recipients: [
      { address: ACCOUNT, status: 'confirmed' },
      { address: 'silent@inbox.test', status: 'pending' },
    ],
  });
  const alone = await stranger.ask('POST', '/forms', {
    name: 'Alone',
    to: 'silent@inbox.test',
    acknowledgment: { enabled: true },
  });
  const path = (answer: { body: unknown }) => `/f/${form.parse(answer.body).id}`;
  const visitor = (name: string) => ({ email: `${name}@inbox.test`, message: 'Hello' });
  expect((await world.post(path(alone), visitor('nobody'), JSON_ANSWER)).status).toBe(200);
  const posted = (await (await world.post(path(made), visitor('visitor'), JSON_ANSWER)).json()) as { id: string };
  await expect
    .poll(() => arrived(world))
    .toEqual([`Both: visitor@inbox.test -> ${ACCOUNT}`, expect.stringContaining('-> visitor@inbox.test')]);
  await expect
    .poll(async () => (await stranger.ask('GET', `/submissions/${posted.id}`)).body)
    .toMatchObject({
      deliveries: [
        { recipient: ACCOUNT, state: 'delivered', recipient_status: 'confirmed' },
        { recipient: 'silent@inbox.test', state: 'queued', recipient_status: 'pending' },
      ],
    });
});

test('no route shows an account the link that was mailed, also while that waits in the queue', async () => {
  // Another server that puts everything off, so that the finished mail is kept.
  const peer = await startSmtpPeer({ script: { rcpt: '451 4.2.1 later' } });
  const world = await startOpen({ server: { ...OPEN, delivery: { port: peer.port } } });
  const stranger = await apiClient(world, { account: { trusted: 0, plan: 'enterprise' } });
  await stranger.ask('POST', '/instant/forms', { name: 'Trap', email: 'victim@inbox.test' });
  const read = () => world.daemon.store.read.selectFrom('messages').selectAll().where('kind', '=', 'system').execute();
  await expect.poll(async () => (await read())[0]?.body).toBe('stored');
  const [letter] = await read();
  const token = /\/confirm\/([\w-]+)/.exec(letter?.source ?? '')?.[1] ?? '';
  expect(token).not.toBe('');
  const id = letter?.id ?? '';
  const delivery = await world.daemon.store.read.selectFrom('deliveries').select('id').executeTakeFirstOrThrow();
  const paths = [
    `/email/${id}`,
    `/email/${id}/source`,
    `/emails/${id}`,
    `/email/${delivery.id}/source`,
    '/email',
    '/events?limit=200',
    '/instant/forms',
    '/instant/submissions',
    '/recipients',
    `/admin/trace/${id}`,
    `/admin/queue/${id}`,
  ];
  for (const path of paths) {
    const { status, body } = await stranger.ask('GET', path);
    const text = JSON.stringify(body);
    expect([path, text.includes(token), text.includes(id) && status === 200]).toEqual([path, false, false]);
  }
});

test('the mail says who asks in bounded words, and a mailbox is asked three times a day, whoever asks', async () => {
  const world = await startOpen();
  const spammer = {
    trusted: 0,
    plan: 'enterprise',
    name: 'WIN at https://spam.example/x <b>call 0900 123456789</b> now, you lucky dog!',
  };
  const statuses: number[] = [];
  for (const email of ['ann.lee@gmail.com', 'annlee+x@gmail.com', 'A.N.N.Lee@googlemail.com', 'annlee@gmail.com']) {
    const client = await apiClient(world, { account: spammer });
    statuses.push((await client.ask('POST', '/instant/forms', { name: 'Read this!', email })).status);
  }
  expect(statuses).toEqual([200, 200, 200, 429]);
  for (const address of ['ann.lee@gmail.com', 'annlee+x@gmail.com', 'A.N.N.Lee@googlemail.com'])
    await linkTo(world, address);
  const [first] = await asking(world, 'ann.lee@gmail.com');
  expect(first?.text).toContain('"WIN at https spam example x b call 0900" (ten_');
  expect(first?.text).not.toMatch(/spam\.example|123456789|Read this/);
  const page = await (await fetch(first?.link ?? '')).text();
  expect(page).not.toMatch(/spam\.example|123456789/);
  expect(page).toContain('Never again');

  // Once refused nothing more comes, by no way: no link, no acknowledgment, no sign-up.
  await fetch(`${first?.link}?answer=never`, { method: 'POST' });
  const client = await apiClient(world, { account: { trusted: 0, plan: 'enterprise' } });
  expect(await client.ask('POST', '/recipients', { address: 'annlee+y@gmail.com' })).toMatchObject({
    status: 403,
    body: { code: 'RECIPIENT_NOT_CONFIRMED' },
  });
  const before = world.mx.mails.list().length;
  const made = await client.ask('POST', '/signup', { name: 'X', email: 'ann.lee@gmail.com' });
  expect(made.status).toBe(200);
  const operator = await apiClient(world, { tenant: 'ten_operator' });
  const thanking = await operator.ask('POST', '/forms', {
    name: 'T',
    to: 'owner@inbox.test',
    acknowledgment: { enabled: true },
  });
  const posted = await world.post(
    `/f/${form.parse(thanking.body).id}`,
    { email: 'ann.lee+z@gmail.com', message: 'Hi' },
    JSON_ANSWER,
  );
  expect(posted.status).toBe(200);
  await expect.poll(() => world.mx.mails.list().length).toBe(before + 1);
  expect(world.mx.mails.list()[0]?.envelope.to).toEqual(['owner@inbox.test']);
  // The one who agreed by an old link after that still gets nothing.
  await fetch(first?.link ?? '', { method: 'POST' });
  expect((await client.ask('GET', '/recipients')).body).toMatchObject({ count: 0 });
});

test('a push that names very many mails links to few of them, and says who waits', async () => {
  const world = await startOpen();
  const stranger = await apiClient(world, { account: { trusted: 0, plan: 'enterprise' } });
  const forms = Array.from({ length: 120 }, (_, i) => `      f${i}: { to: victim${i}@inbox.test }`).join('\n');
  const config = `project: { name: C, slug: c }\ndomains:\n  cannon.test:\n    forms:\n${forms}\n`;
  const dry = await stranger.ask('PUT', '/projects/c/config?dry_run=true', { config, files: {} });
  const warnings = z.object({
    warnings: z.array(z.object({ path: z.string(), message: z.string(), line: z.number() })),
  });
  expect(warnings.parse(dry.body).warnings).toContainEqual(
    expect.objectContaining({
      path: 'domains.cannon.test.forms.f0.to',
      message: expect.stringContaining('mail for victim0@inbox.test waits for confirmation'),
    }),
  );
  const letters = () =>
    world.daemon.store.read.selectFrom('messages').select('id').where('kind', '=', 'system').execute();
  expect(await letters()).toHaveLength(0);
  expect((await stranger.ask('PUT', '/projects/c/config', { config, files: {} })).status).toBe(200);
  expect(await letters()).toHaveLength(50);
  expect((await stranger.ask('GET', '/recipients?limit=200')).body).toMatchObject({ count: 50 });
});

test('a domain that is verified makes its addresses agree, and one that is taken out no more', async () => {
  const world = await startOpen();
  const stranger = await apiClient(world, { account: { trusted: 0, plan: 'enterprise' } });
  const made = await stranger.ask('POST', '/forms', { name: 'Mine', to: 'me@own.test' });
  const path = `/f/${form.parse(made.body).id}`;
  await world.post(path, { message: 'early' }, JSON_ANSWER);
  await expect.poll(async () => (await deliveriesTo(world, 'me@own.test'))[0]?.last_reply).toContain('has not agreed');
  const config = 'project: { name: D, slug: d }\ndomains: { own.test: {} }';
  await stranger.ask('PUT', '/projects/d/config', { config, files: {} });
  await verify(world, stranger, ['own.test'], []);
  await expect.poll(() => arrived(world)).toEqual(['New submission: Mine -> me@own.test']);
  await stranger.ask('PUT', '/projects/d/config', { config: 'project: { name: D, slug: d }', files: {} });
  expect((await stranger.ask('GET', path.replace('/f/', '/forms/'))).body).toMatchObject({
    recipient_status: 'pending',
  });
});
