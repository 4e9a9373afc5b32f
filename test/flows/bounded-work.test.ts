/** What a tenant or a visitor sends, made to be slow, through the API of a whole daemon: nobody else waits for it. */
import { request as httpRequest } from 'node:http';
import { text } from 'node:stream/consumers';
import { expect, test } from 'vitest';
import { apiClient } from '../harness/api.ts';
import { longestTurn } from '../harness/cpu.ts';
import { startTestWorld, type TestWorld } from '../harness/daemon.ts';
import { testKey } from '../harness/keys.ts';

/** Of the main thread without a break, ms: the server's share and what this test itself does there, also on a busy machine. */
const MAX_TURN_MS = 500;
const LOOP = '{% for a in (1..99999) %}{% for b in (1..99999) %}{% endfor %}{% endfor %}';
/** A fraction of a second with sixty rows, whatever the machine: it passes the trial of a push, and takes its time in a mail. */
const HEAVY = '{% for a in data.rows %}{% for b in (1..40000) %}{% endfor %}{% endfor %}';
const STUBBORN =
  "{% assign a = data.text | split: '' | sort | join: '' | split: '' | sort | where: 'x', 'y' %}{{ a | size }}";

const MINE = `project: { name: Mine, slug: mine, owner: me@inbox.test }
domains:
  mine.test: {}
templates:
  heavy: { subject: Heavy, text: '${HEAVY}' }
  stubborn: { subject: Stubborn, text: "${STUBBORN}" }
  plain: { subject: 'Hello {{ name }}', text: 'Hello {{ name }}' }
`;

async function startWorld() {
  const world = await startTestWorld({ asInProduction: true });
  const attacker = await apiClient(world);
  expect((await attacker.ask('PUT', '/projects/mine/config', { config: MINE })).status).toBe(200);
  const { body } = await attacker.ask('GET', '/domains/mine.test');
  const { records } = body as { records: { name: string; type: 'TXT'; value: string; required: boolean }[] };
  world.dns.set([...world.publicZone, ...records.filter(({ required }) => required)]);
  expect((await attacker.ask('POST', '/domains/mine.test/verify')).body).toMatchObject({ verified: true });
  const { headers } = await testKey(world.daemon.store, { tenant: attacker.tenant });
  return {
    world,
    attacker,
    post: (path: string, body: Buffer) => send(world, path, { method: 'POST', body, headers }),
  };
}

interface Sent {
  readonly method: string;
  readonly body: Buffer;
  readonly headers?: Readonly<Record<string, string>>;
}

/** Sends bytes as they are, so that this thread has little to do with them. */
function send({ url }: Pick<TestWorld, 'url'>, path: string, { method, body, headers }: Sent) {
  return new Promise<{ status: number; text: string }>((resolve, reject) => {
    const request = httpRequest(url + path, {
      method,
      headers: { 'Content-Type': 'application/json', 'Content-Length': body.length, ...headers },
    });
    request.once('error', reject);
    request.once('response', (response) => {
      void text(response).then((answer) => resolve({ status: response.statusCode ?? 0, text: answer }), reject);
    });
    request.end(body);
  });
}

const bytes = (value: object): Buffer => Buffer.from(JSON.stringify(value));
const mail = { to: 'you@inbox.test', subject: 'x' };

test('what is slow by design is refused, or takes its time, while everybody else is served', async () => {
  const { world, attacker, post } = await startWorld();
  async function attack(
    name: string,
    work: () => Promise<{ status: number; text: string }>,
    status: number,
    words = '',
  ) {
    let answer = { status: 0, text: '' };
    const turn = await longestTurn(async () => void (answer = await work()));
    expect([name, answer.status, answer.text.slice(0, 2000)]).toEqual([name, status, expect.stringContaining(words)]);
    expect(turn, name).toBeLessThan(MAX_TURN_MS);
  }
  const { headers } = await testKey(world.daemon.store, { tenant: attacker.tenant });
  const loops = Array.from({ length: 40 }, (_, i) => `  t${i}: { text: '${LOOP}' }\n`).join('');
  const push = bytes({ config: `project: { name: B, slug: bad }\ntemplates:\n${loops}` });
  await attack(
    'a push of 40 templates that loop',
    () => send(world, '/projects/bad/config?dry_run=true', { method: 'PUT', body: push, headers }),
    400,
    'templates.t0.text',
  );
  const rows = Array.from({ length: 60 }, () => 1);
  const batch = bytes(Array.from({ length: 20 }, () => ({ ...mail, template: 'heavy', data: { rows } })));
  await attack('a batch of 20 heavy mails', () => post('/email/batch', batch), 400, 'cannot be rendered');
  const large = 'qwertyuiop'.repeat(500_000);
  const whole = bytes({ ...mail, template: 'plain', data: { text: large } });
  await attack('5 MB of data', () => post('/email/send', whole), 400, '1 MiB');
  const most = bytes({ ...mail, template: 'stubborn', data: { text: large.slice(0, 1_000_000) } });
  // The engine's own limit ends it, or the process is killed first.
  await attack('filters on 1 MB of data', () => post('/email/send', most), 400, 'cannot be rendered');
  const links = "<a href='x'>".repeat(1_400_000);
  const many = bytes({ ...mail, html: links });
  const some = bytes({ ...mail, html: links.slice(0, 500_000) });
  await attack('17 MB of links', () => post('/email/send', many), 400, '2,097,152');
  await attack('500 kB of links', () => post('/email/send', some), 200);
  const escaped = Buffer.from(`{"to":"you@inbox.test","subject":"x","html":"${'\\"'.repeat(9_000_000)}"}`);
  await attack('18 MB of quotation marks', () => post('/email/send', escaped), 400, 'quotation marks');
  const file = { filename: 'a', content: `${' '.repeat(15_000_000)}!` };
  const attached = bytes({ ...mail, text: 'x', attachments: [file] });
  await attack('15 MB that are not base64', () => post('/email/send', attached), 400, 'base64');
});

test.each(['a*a*a*a*a*a*b', String.raw`\w*-?\w*-?\w*-?\w*-?\w*`, 'a{0,100}a{0,100}a{0,100}b'])(
  'a form with the pattern %s answers every visitor soon',
  async (pattern) => {
    const world = await startTestWorld({ asInProduction: true });
    const client = await apiClient(world);
    const made = await client.ask('POST', '/forms', { name: 'F', to: 'a@inbox.test', fields: { p: { pattern } } });
    expect(made.status).toBe(200);
    const { id } = made.body as { id: string };
    let status = 0;
    const turn = await longestTurn(async () => {
      for (const value of [`${'a'.repeat(100)}!`, `${'a'.repeat(2700)}!`, `${'a'.repeat(60_000)}!`]) {
        ({ status } = await world.post(`/f/${id}`, { p: value, name: 'x' }, { Accept: 'application/json' }));
        expect(status).toBe(400);
      }
    });
    expect(turn).toBeLessThan(MAX_TURN_MS);
  },
);

test('a notification whose template takes too long arrives with the built-in one', async () => {
  const slow = `project: { name: Slow, slug: slow, owner: owner@inbox.test }
settings: { rate_limit: 100000 }
domains:
  example.test:
    forms:
      contact: { name: Contact form, to: owner@inbox.test, template: slow, subject: 'From {{ form.name }}' }
templates:
  slow: { text: "{% if form.name == 'Slow' %}${LOOP}{% endif %}Hello {{ form.name }}" }
`;
  const world = await startTestWorld({ asInProduction: true, projects: { 'slow.yml': slow } });
  for (const name of ['Ann', 'Slow']) {
    expect((await world.post('/example.test/contact', { name }, { Accept: 'application/json' })).status).toBe(200);
    await world.caught(name === 'Ann' ? 1 : 2);
  }
  const mails = (await world.caught(2)).list();
  const sources = await Promise.all(mails.map(async (one) => (await world.mx.mails.source(one)).toString()));
  const of = (name: string) => sources.find((source) => source.includes(`Subject: From ${name}`));
  expect(of('Ann')).toContain('Hello Ann');
  expect(of('Slow')).toContain('New submission: Contact form');
});
