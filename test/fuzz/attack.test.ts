/**
 * A stranger with a free account on an open server, who tries with eight connections at once everything that would stall
 * the daemon or mail people who did not agree, beside a normal tenant's traffic. For ten minutes (`npm run attack`), or
 * `ATTACK_SECONDS`.
 */
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { expect, test } from 'vitest';
import type { ZoneRecord } from '../../src/dev/dns-server.ts';
import { openAppliance, PROJECT, WORLD, type Appliance, type Run } from '../harness/binary.ts';
import { until } from '../harness/child.ts';
import { SmtpClient } from '../harness/inbound-smtp.ts';
import { startSmtpPeer, type SmtpPeer } from '../harness/smtp-peer.ts';
import { percentile, startNormalTraffic, startProbes } from './probes.ts';

const MINUTES = 10;
const MAX_NORMAL_MS = 250;
const MAX_HEALTH_MS = 100;
/** Confirmations that one mailbox may be asked for in a day. */
const MAX_CONFIRMATIONS = 3;
const OWN = 'stranger.test';
const TENANT = 'forms.test';

const LOOP =
  '{% for a in (1..100000) %}{% for b in (1..100000) %}{{ a | times: b | append: "x" }}{% endfor %}{% endfor %}';

test('a stranger slows nobody and mails nobody who did not agree', { timeout: 3_600_000 }, async () => {
  const { ATTACK_SECONDS: seconds } = process.env;
  const end = performance.now() + (seconds === undefined ? MINUTES * 60_000 : Number(seconds) * 1000);
  const mx = await startSmtpPeer();
  const appliance = await openAppliance({ deliverTo: mx.port, server: { server: { signup: 'open' } } });
  const idle = await openAppliance({ deliverTo: mx.port });
  await appliance.writeProject({
    ...PROJECT,
    domains: { [TENANT]: { ...PROJECT.domains[TENANT], forwarding: { [`info@${TENANT}`]: 'ana@inbox.test' } } },
  });
  const run = await appliance.startVerified();
  await idle.start();
  const stranger = await signUp(appliance, mx);
  await ownDomain(appliance, stranger);
  const probes = startProbes([appliance.url, idle.url]);
  const normal = startNormalTraffic({
    formUrl: appliance.formUrl,
    socketPath: join(appliance.folder, 'admin.sock'),
    smtpPort: appliance.smtpPort,
    alias: `info@${TENANT}`,
  });
  const outcomes = new Map<string, Map<number, number>>();
  const isOver = () => performance.now() >= end;

  await Promise.all(Array.from({ length: 8 }, (_, n) => attack({ appliance, stranger, isOver, first: n, outcomes })));

  const samples = await normal.stop();
  const [attacked = [], quiet = []] = await probes.stop();
  const noise = percentile(quiet, 0.99);
  const figures = Array.from(
    Map.groupBy(samples, ({ what }) => what),
    ([what, list]) => ({
      what,
      count: list.length,
      p99: percentile(list, 0.99),
      refused: list.flatMap(({ status }) => (status === 0 || status >= 400 ? [status] : [])),
    }),
  );
  const health = percentile(attacked, 0.99);
  const shown = figures.map(({ what, count, p99 }) => `${what}: ${count}, p99 ${p99.toFixed(0)} ms`);
  process.stdout.write(`/healthz p99 ${health.toFixed(0)} ms (idle ${noise.toFixed(0)} ms); ${shown.join('; ')}\n`);
  for (const [trick, statuses] of outcomes)
    process.stdout.write(
      `  ${trick}: ${Array.from(statuses, ([status, count]) => `${status} × ${count}`).join(', ')}\n`,
    );

  expect(await isRunning(run)).toBe(true);
  expectOnlyConfirmations(mx);
  expect(health - noise).toBeLessThan(MAX_HEALTH_MS);
  expect(figures.filter(({ p99 }) => p99 - noise >= MAX_NORMAL_MS)).toEqual([]);
  expect(figures.filter(({ refused }) => refused.length > 0)).toEqual([]);
});

/** Strangers got at most the mails that ask them, however often they were named. */
function expectOnlyConfirmations(mx: SmtpPeer): void {
  const toVictims = mx.messages.filter(({ to }) => to.some((address) => address.endsWith('@victims.test')));
  const others = toVictims.filter(({ data }) => !/\/confirm\//.test(data.replaceAll('=\r\n', '')));
  expect(others.map(({ to, data }) => `${to.join()}: ${data.slice(0, 1000)}`)).toEqual([]);
  const counts = Map.groupBy(
    toVictims.flatMap(({ to }) => to),
    (address) => address.replace(/\+[^@]*/, '').toLowerCase(),
  );
  const asked = Array.from(counts, ([address, mails]) => ({ address, count: mails.length }));
  expect(asked.filter(({ count }) => count > MAX_CONFIRMATIONS)).toEqual([]);
  // They were named, and the server did ask.
  expect(asked.length).toBeGreaterThan(0);
}

async function isRunning(run: Run): Promise<boolean> {
  return (await Promise.race([run.ended.then(() => 'ended'), sleep(100)])) !== 'ended';
}

/** The key of a new account, whose mailed link was followed. */
async function signUp({ url }: Appliance, mx: SmtpPeer): Promise<string> {
  const answer = await fetch(`${url}/signup`, {
    method: 'POST',
    headers: { 'Content-Type': 'application/json' },
    body: JSON.stringify({ name: 'Stranger', email: 'stranger@inbox.test' }),
  });
  expect(answer.status).toBe(200);
  const { key } = (await answer.json()) as { key: string };
  let link: string | undefined;
  await until('the sign-up is to be confirmed', () => {
    for (const { to, data } of mx.messages)
      if (to.includes('stranger@inbox.test')) link = /\/confirm\/[\w-]+/.exec(data.replaceAll('=\r\n', ''))?.[0];
    return link !== undefined;
  });
  expect((await fetch(url + link, { method: 'POST' })).status).toBe(200);
  return key;
}

/** A verified domain of the stranger's own, with a form and aliases that lead to people who did not ask for it. */
async function ownDomain({ url, dns, published }: Appliance, key: string): Promise<void> {
  const victims: ZoneRecord = { name: 'victims.test', type: 'MX', value: '10 mx.inbox.test' };
  // Before anybody is mailed: that a name does not exist is remembered.
  dns.set([...WORLD, victims, ...published()]);
  const config = [
    'project: { name: Stranger, slug: stranger }',
    `templates: { heavy: { type: form, subject: x, text: "{{ list | split: ',' | where: 'x' | sort | join: ',' }}" } }`,
    'domains:',
    `  ${OWN}:`,
    '    forms:',
    '      lead: { to: [a@victims.test, b@victims.test, c@victims.test] }',
    `      slow: { to: me@${OWN}, fields: { v: { pattern: '\\w*-?\\w*-?\\w*-?\\w*-?\\w*' } } }`,
    '    forwarding:',
    `      all@${OWN}: [${Array.from({ length: 20 }, (_, n) => `f${n}@victims.test`).join(', ')}]`,
  ].join('\n');
  const pushed = await call(url, key, {
    method: 'PUT',
    path: '/projects/stranger/config',
    body: { config, files: {} },
  });
  expect(pushed).toBe(200);
  const answer = await fetch(`${url}/domains/${OWN}`, { headers: { 'X-Api-Key': key } });
  const { records } = (await answer.json()) as { records: (ZoneRecord & { required: boolean })[] };
  dns.set([...WORLD, victims, ...published(), ...records.filter(({ required }) => required)]);
  expect(await call(url, key, { method: 'POST', path: `/domains/${OWN}/verify`, body: {} })).toBe(200);
}

interface Call {
  readonly method: string;
  readonly path: string;
  readonly body?: unknown;
}

/** The status of an answer that is read to its end; 0 where the connection was cut. */
async function call(url: string, key: string, { method, path, body }: Call): Promise<number> {
  try {
    const answer = await fetch(url + path, {
      method,
      headers: { 'X-Api-Key': key, 'Content-Type': 'application/json' },
      ...(body === undefined ? {} : { body: typeof body === 'string' ? body : JSON.stringify(body) }),
    });
    await answer.text();
    return answer.status;
  } catch {
    return 0;
  }
}

interface Attack {
  readonly appliance: Appliance;
  readonly stranger: string;
  readonly isOver: () => boolean;
  readonly first: number;
  readonly outcomes: Map<string, Map<number, number>>;
}

/** One connection: trick after trick, until the time is over. */
async function attack({ appliance, stranger, isOver, first, outcomes }: Attack): Promise<void> {
  const tricks = tricksOf(appliance, stranger);
  for (let n = first; !isOver(); n++) {
    const [name, play] = tricks[n % tricks.length] ?? [];
    if (name === undefined || play === undefined) return;
    const status = await play(n);
    const counts = outcomes.get(name) ?? new Map<number, number>();
    counts.set(status, (counts.get(status) ?? 0) + 1);
    outcomes.set(name, counts);
    // An account's limit is soon reached; an attacker would not wait for it either.
    await sleep(20);
  }
}

type Trick = readonly [name: string, play: (n: number) => Promise<number>];

function tricksOf({ url, smtpPort }: Appliance, key: string): Trick[] {
  const api = (method: string, path: string, body?: unknown): Promise<number> => call(url, key, { method, path, body });
  const loops = Object.fromEntries(
    Array.from({ length: 40 }, (_, n) => [`t${n}`, { type: 'form', subject: 'x', text: LOOP }]),
  );
  const push = (slug: string, rest: object): string => JSON.stringify({ project: { name: 'x', slug }, ...rest });
  const dryRun = '/projects/stranger/config?dry_run=true';
  const fields = (value: string) => new URLSearchParams({ v: value, message: 'x', email: 'visitor@victims.test' });
  return [
    [
      'push of 40 looping templates',
      () => api('PUT', dryRun, { config: push('stranger', { templates: loops }), files: {} }),
    ],
    [
      'push of patterns',
      (n) => {
        const pattern = ['a*a*a*a*a*a*b', '\\w*-?\\w*-?\\w*-?\\w*-?\\w*', 'a{0,90}a{0,90}a{0,90}b'][n % 3];
        const forms = { f: { to: `me@${OWN}`, fields: { v: { pattern } } } };
        return api('PUT', dryRun, { config: push('stranger', { domains: { [OWN]: { forms } } }), files: {} });
      },
    ],
    ['a form whose pattern backtracks', () => post(`${url}/${OWN}/slow`, fields(`${'a'.repeat(5000)}!`))],
    [
      'YAML with aliases and duplicate keys',
      () => api('PUT', dryRun, { config: `a: &a [x]\n${'b: *a\n'.repeat(20_000)}`.slice(0, 250_000), files: {} }),
    ],
    [
      'batch of template mails',
      () =>
        api(
          'POST',
          '/email/batch',
          Array.from({ length: 20 }, (_, n) => ({
            to: `s${n}@inbox.test`,
            from: `a@${OWN}`,
            subject: 'x',
            data: { list: 'a,b '.repeat(30_000) },
            template: 'stranger/heavy',
          })),
        ),
    ],
    [
      '5 MB of data',
      () =>
        api('POST', '/email/send', {
          to: 'x@inbox.test',
          from: `a@${OWN}`,
          subject: 'x',
          template: 'stranger/heavy',
          data: { list: 'a,b '.repeat(1_250_000) },
        }),
    ],
    [
      '17 MB of links without text',
      () =>
        api('POST', '/email/send', {
          to: 'x@inbox.test',
          from: `a@${OWN}`,
          subject: 'x',
          html: "<a href='x'>".repeat(1_400_000),
        }),
    ],
    [
      'an instant form for a victim',
      (n) => api('POST', '/instant/forms', { name: 'Buy now', email: `v${n % 50}@victims.test` }),
    ],
    [
      'an API form for victims',
      (n) => api('POST', '/forms', { name: 'Buy now', to: `v${n % 50}+${n}@victims.test`, subject: 'x' }),
    ],
    ['a post to a form of victims', () => post(`${url}/${OWN}/lead`, fields('x'))],
    [
      'a fan-out by forwarding',
      async () => {
        try {
          const client = await SmtpClient.open(smtpPort);
          const reply = await client.send('From: a@sender.test\r\nSubject: Buy\r\n\r\nnow', { to: [`all@${OWN}`] });
          client.close();
          return Number(reply.slice(0, 3));
        } catch {
          return 0;
        }
      },
    ],
    [
      'a collection',
      (n) =>
        api('POST', '/collections', {
          name: `c${n}`,
          title: 'x',
          settings: {},
          forms: { f: { email: `v${n % 50}@victims.test` } },
        }),
    ],
    [
      'a key that makes keys',
      (n) => api('POST', '/api-keys', { name: `k${n}`, permissions: ['forms', 'keys'], restrictions: {} }),
    ],
    ['a wrong key', () => call(url, 'svc_sk_live_0000000000000000000000000000', { method: 'GET', path: '/projects' })],
  ];
}

async function post(url: string, body: URLSearchParams): Promise<number> {
  try {
    const answer = await fetch(url, { method: 'POST', body, headers: { Accept: 'application/json' } });
    await answer.text();
    return answer.status;
  } catch {
    return 0;
  }
}
