/** Mail of ours to addresses that this very server forwards: the whole daemon, by its own listener and out again. */
import { simpleParser } from 'mailparser';
import { expect, test } from 'vitest';
import type { ZoneRecord } from '../../src/dev/dns-server.ts';
import { enqueue } from '../../src/queue/enqueue.ts';
import { systemMail } from '../../src/queue/system-mail.ts';
import { activateKey, dkimKeysOf, relieveKey } from '../../src/store/dkim-keys.ts';
import { OPERATOR } from '../../src/store/tenants.ts';
import { openAppliance, PROJECT as FORMS } from '../harness/binary.ts';
import { startCatcher } from '../harness/catcher.ts';
import { until } from '../harness/child.ts';
import { startTestWorld, type TestWorld } from '../harness/daemon.ts';
import { testKey } from '../harness/keys.ts';
import { sendMany } from '../harness/load.ts';

const PROJECT = `
project: { name: Site, slug: site, owner: owner@inbox.test }
settings: { rate_limit: 100000, from: shop@example.test }
domains:
  example.test:
    forwarding:
      "info@example.test": [ana@inbox.test, team@other.test]
      "nobody@example.test": reject
      "void@example.test": discard
    forms:
      contact: { to: owner@inbox.test, acknowledgment: { enabled: true } }
  other.test:
    forwarding: { "*@other.test": bea@inbox.test }
`;

const NEIGHBOUR = `
project: { name: Next door, slug: neighbour, owner: owner@inbox.test }
domains:
  neighbour.test:
    forwarding: { "carl@neighbour.test": carl@inbox.test }
`;

async function start({ zone = [] }: { zone?: readonly ZoneRecord[] } = {}) {
  const own = ['example.test', 'other.test', 'neighbour.test', 'stranger.test'];
  const world = await startTestWorld({
    projects: { 'site.yml': PROJECT, 'neighbour.yml': NEIGHBOUR },
    server: { server: { operator: 'info@example.test' } },
    zone: [
      ...own.map((name) => ({ name, type: 'MX' as const, value: '10 mail.postern.test' })),
      { name: 'gone.test', type: 'MX', value: '0 .' },
      ...zone,
    ],
  });
  const { headers } = await testKey(world.daemon.store, { tenant: OPERATOR });

  async function ask(path: string, body?: object): Promise<Record<string, unknown>> {
    const init = body === undefined ? {} : { method: 'POST', body: JSON.stringify(body) };
    const response = await fetch(world.url + path, {
      ...init,
      headers: { ...headers, 'Content-Type': 'application/json' },
    });
    expect(response.status).toBe(200);
    return (await response.json()) as Record<string, unknown>;
  }

  return {
    ...world,
    ask,
    /** Sends a mail through the API; answers its recipient's end. */
    async send(to: string) {
      const { id } = await ask('/email/send', { from: 'shop@example.test', to, subject: 'Order 7', text: 'Thank you' });
      const shown = () => ask(`/email/${String(id)}`);
      await expect.poll(async () => (await shown())['status']).not.toMatch(/queued|sending/);
      return (await shown())['recipients'];
    },
  };
}

/** Who has got mail, for `expect.poll`. */
function reached({ mx }: Pick<TestWorld, 'mx'>): () => string[] {
  return () =>
    mx.mails
      .list()
      .flatMap(({ envelope }) => envelope.to)
      .toSorted();
}

test('a mail of the API follows the forwarding, and its sender sees his own address delivered', async () => {
  const world = await start();
  expect(await world.send('Info@example.test')).toMatchObject([
    { address: 'Info@example.test', state: 'delivered', reply: expect.stringMatching(/^250 2\.0\.0 accepted as inb_/) },
  ]);
  await expect.poll(reached(world)).toEqual(['ana@inbox.test', 'bea@inbox.test']);
  const { mails } = world.mx;
  for (const mail of mails.list()) {
    expect(mail.verdicts.dkim).toContainEqual(expect.objectContaining({ result: 'pass' }));
    const { text, headers } = await simpleParser(await mails.source(mail));
    expect([text?.trim(), headers.get('delivered-to')]).toEqual(['Thank you', expect.anything()]);
  }
});

test('whatever DNS says of its author, our own mail is let in; that others may doubt it is seen to', async () => {
  const world = await start({
    zone: [
      { name: 'mail.postern.test', type: 'TXT', value: 'v=spf1 -all' },
      { name: '_dmarc.example.test', type: 'TXT', value: 'v=DMARC1; p=reject' },
    ],
  });
  // Its key signs before it is published.
  const { domains, store } = world.daemon;
  await domains.rotateKeys('example.test');
  const now = Date.now();
  const keys = await dkimKeysOf(store, 'example.test');
  await store.write(
    keys.map(({ selector, state }) =>
      state === 'active'
        ? relieveKey({ domain: 'example.test', selector, now, keep_until: now }, 1)
        : activateKey({ domain: 'example.test', selector, now }, 1),
    ),
  );
  expect(await world.send('carl@other.test')).toMatchObject([{ state: 'delivered' }]);
  await expect.poll(reached(world)).toEqual(['bea@inbox.test']);
  const { mails } = world.mx;
  const [mail] = mails.list();
  const { headers } = await simpleParser(mail === undefined ? '' : await mails.source(mail));
  expect(headers.get('authentication-results')).toMatch(/^mail\.postern\.test; auth=pass; .*dmarc=fail/);
  expect(headers.get('received-spf')).toBeUndefined();
  expect(headers.get('from')).toMatchObject({ value: [{ address: 'forwarded@other.test' }] });
});

test('an address that is rejected or not there bounces; one that is discarded takes it', async () => {
  const { send, mx } = await start();
  expect(await send('nobody@example.test')).toMatchObject([
    { state: 'bounced', reply: expect.stringMatching(/^550 5\.1\.1 /) },
  ]);
  expect(await send('who@example.test')).toMatchObject([
    { state: 'bounced', reply: expect.stringMatching(/^550 5\.1\.1 /) },
  ]);
  expect(await send('void@example.test')).toMatchObject([{ state: 'delivered' }]);
  expect(mx.mails.list()).toEqual([]);
});

test('the postmaster of a domain and of the server are people', async () => {
  const world = await start();
  expect(await world.send('postmaster@example.test')).toMatchObject([{ state: 'delivered' }]);
  await expect.poll(reached(world)).toEqual(['owner@inbox.test']);
  expect(await world.send('postmaster@mail.postern.test')).toMatchObject([{ state: 'delivered' }]);
  await expect.poll(reached(world)).toEqual(['ana@inbox.test', 'bea@inbox.test', 'owner@inbox.test']);
});

test('a visitor whose address is forwarded here gets his acknowledgment', async () => {
  const world = await start();
  const fields = { email: 'carl@neighbour.test', message: 'Hello' };
  expect((await world.post('/example.test/contact', fields)).status).toBe(200);
  await expect.poll(reached(world)).toEqual(['carl@inbox.test', 'owner@inbox.test']);
});

test('the operator gets his letters', async () => {
  const world = await start();
  const letter = { tenant: OPERATOR, to: 'info@example.test', subject: 'An alert', text: 'Look' };
  await world.daemon.store.write(systemMail(letter, 'mail.postern.test', Date.now()));
  await world.tryNow();
  await expect.poll(reached(world)).toEqual(['ana@inbox.test', 'bea@inbox.test']);
});

test('a report to an author who is forwarded here reaches him', async () => {
  const world = await start();
  const about = {
    tenant: OPERATOR,
    kind: 'dsn',
    submission: null,
    domain: 'mail.postern.test',
    ttl: 3_600_000,
  } as const;
  const failed = [{ address: 'x@gone.test', reply: '550 5.1.1 no', remote: null, at: Date.now() }];
  const source = { to: 'carl@other.test', failed, arrived: Date.now(), headers: 'Subject: Offer\r\n' };
  await world.daemon.store.write(enqueue({ ...about, source, recipients: ['carl@other.test'] }, Date.now()).unit);
  await world.tryNow();
  await expect.poll(reached(world)).toEqual(['bea@inbox.test']);
  expect(world.mx.mails.list()[0]?.envelope.from).toBe('');
});

test('where a forward of our own mail fails for good, that comes back to it', async () => {
  const world = await start();
  world.mx.behave(({ stage }) => (stage === 'rcpt' ? { code: 550, text: '5.1.1 no such user' } : undefined));
  const { id } = await world.ask('/email/send', { to: 'carl@other.test', subject: 'Order 7', text: 'Thank you' });
  const state = async () => (await world.ask(`/email/${String(id)}`))['recipients'];
  // A job reads it, every ten seconds.
  await expect.poll(state, { interval: 250 }).toMatchObject([{ address: 'carl@other.test', state: 'bounced' }]);
});

test('a domain of nobody here, whose mail hosts are we, still ends at once', async () => {
  const { send } = await start();
  expect(await send('a@stranger.test')).toMatchObject([
    { state: 'bounced', reply: expect.stringMatching(/^550 5\.4\.6 /) },
  ]);
});

test('the program itself, with its delivery in a thread of its own', async () => {
  const catcher = await startCatcher();
  const appliance = await openAppliance({ deliverTo: catcher.port });
  const to = 'postmaster@mail.postern.test';
  await appliance.writeProject({ ...FORMS, domains: { 'forms.test': { forms: { contact: { to } } } } });
  await appliance.startVerified();
  await sendMany({ url: appliance.formUrl, connections: 1, count: 1 });
  await until('all is delivered', async () => (await appliance.waiting()) === 0);
  const { body } = await appliance.admin('/admin/queue');
  expect(body).toMatchObject({
    deliveries: expect.arrayContaining([
      expect.objectContaining({ recipient: to, state: 'delivered' }),
      expect.objectContaining({ recipient: 'ops@inbox.test', state: 'delivered' }),
    ]),
  });
});
