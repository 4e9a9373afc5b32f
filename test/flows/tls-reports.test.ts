/** Reports about TLS to the domains that mail was sent to: what they say, who gets them, and how often (RFC 8460). */
import { once } from 'node:events';
import { createServer } from 'node:https';
import type { AddressInfo } from 'node:net';
import { getCACertificates, setDefaultCACertificates } from 'node:tls';
import { gunzipSync } from 'node:zlib';
import { simpleParser } from 'mailparser';
import { expect, onTestFinished, test } from 'vitest';
import { z } from 'zod';
import { readAggregateReport } from '../../src/mail/aggregate-report.ts';
import { selfSignedCertificate } from '../../src/lib/x509.ts';
import { saveMtaStsPolicy } from '../../src/store/mta-sts-policies.ts';
import { movedClock, type MovedClock } from '../harness/clock.ts';
import { startTestWorld, type TestWorld, type WorldSettings } from '../harness/daemon.ts';

const HOUR = 3_600_000;
const DAY = 24 * HOUR;
/** A day and the hours over which its reports are spread. */
const DAY_AND_MORE = DAY + 5 * HOUR;

interface World extends TestWorld {
  readonly clock: MovedClock;
}

/** A world in which inbox.test wants reports there, and has a policy that its mail host breaks, or none. */
async function start(
  rua: string | undefined,
  mode: 'testing' | 'enforce' | undefined,
  more: WorldSettings = {},
): Promise<World> {
  const clock = movedClock();
  const text = { name: '_smtp._tls.inbox.test', type: 'TXT', value: `v=TLSRPTv1; rua=${rua}` } as const;
  const zone = [...(rua === undefined ? [] : [text]), ...(more.zone ?? [])];
  const world = await startTestWorld({ ...more, zone, parts: { clock } });
  if (mode === undefined) return { ...world, clock };
  const now = clock.now();
  const kept = { id: 'a1', mode, mx: 'mx.inbox.test', max_age: 864_000 } as const;
  const times = { expires_at: now + 10 * DAY, refresh_at: now + 10 * DAY, used_at: now };
  await world.daemon.store.write([saveMtaStsPolicy({ domain: 'inbox.test', ...kept, ...times })]);
  return { ...world, clock };
}

async function send({ post, queue }: World, state: 'delivered' | 'deferred'): Promise<void> {
  await post('/example.test/contact', { message: 'Are you open on Friday?' });
  await expect.poll(async () => (await queue()).map((each) => each.state)).toContain(state);
}

/** Lets a day go by, with all jobs. */
async function nextDay({ clock }: World): Promise<void> {
  await clock.later(0);
  clock.pass(DAY_AND_MORE);
  await clock.later(0);
}

async function caughtMails({ mx }: World) {
  return Promise.all(mx.mails.list().map(async (mail) => simpleParser(await mx.mails.source(mail))));
}

/** The policies of the report among the mails that were caught. */
async function reportedPolicies(world: World): Promise<unknown> {
  const mail = (await caughtMails(world)).find(({ subject }) => subject?.startsWith('Report Domain'));
  const report = z.object({ policies: z.array(z.unknown()) });
  return report.parse(JSON.parse(gunzipSync(mail?.attachments[0]?.content ?? '').toString())).policies;
}

const FAILURE = {
  'result-type': 'certificate-not-trusted',
  'sending-mta-ip': '127.0.0.1',
  'receiving-mx-hostname': 'mx.inbox.test',
  'receiving-ip': '127.0.0.1',
  'failed-session-count': 1,
};

test.each<['testing' | 'enforce', 'delivered' | 'deferred', readonly string[]]>([
  ['testing', 'delivered', ['owner@inbox.test']],
  ['enforce', 'deferred', []],
])('with mode %s mail is %s, and the domain gets a report, once', async (mode, state, before) => {
  const world = await start('mailto:tls-reports@inbox.test', mode);
  await send(world, state);
  const day = Math.floor(world.clock.now() / DAY) * DAY;
  expect(world.mx.mails.list().map(({ to }) => to)).toEqual(before);
  await nextDay(world);
  // The domain is paused where its mail host broke the policy, again with each mail that is not the report.
  const again = { timeout: 30_000, interval: 200 };
  await expect.poll(() => world.tryNow().then(() => world.mx.mails.list().length), again).toBe(before.length + 1);
  const mail = (await caughtMails(world)).find(({ subject }) => subject?.startsWith('Report Domain'));
  const date = new Date(day).toISOString().slice(0, 10);
  const id = `${date}.inbox.test@mail.postern.test`;
  expect(mail).toMatchObject({
    subject: `Report Domain: inbox.test Submitter: mail.postern.test Report-ID: <${id}>`,
    from: { value: [{ address: 'postern@mail.postern.test' }] },
    to: { value: [{ address: 'tls-reports@inbox.test' }] },
    text: `This is a TLS report about mail from mail.postern.test to inbox.test on ${date} (RFC 8460).\n`,
    attachments: [
      {
        contentType: 'application/tlsrpt+gzip',
        filename: `mail.postern.test!inbox.test!${day / 1000}!${day / 1000 + 86_399}.json.gz`,
      },
    ],
  });
  expect(mail?.headers.get('content-type')).toMatchObject({
    value: 'multipart/report',
    params: { 'report-type': 'tlsrpt' },
  });
  expect(mail?.headers.get('tls-report-domain')).toBe('inbox.test');
  expect(mail?.headers.get('tls-report-submitter')).toBe('mail.postern.test');
  expect(mail?.headers.get('dkim-signature')).toMatchObject({ params: { d: 'mail.postern.test' } });
  const report: unknown = JSON.parse(gunzipSync(mail?.attachments[0]?.content ?? '').toString());
  expect(report).toEqual({
    'organization-name': 'mail.postern.test',
    'date-range': { 'start-datetime': `${date}T00:00:00Z`, 'end-datetime': `${date}T23:59:59Z` },
    'contact-info': 'postmaster@mail.postern.test',
    'report-id': id,
    policies: [
      {
        policy: {
          'policy-type': 'sts',
          'policy-string': ['version: STSv1', `mode: ${mode}`, 'mx: mx.inbox.test', 'max_age: 864000'],
          'policy-domain': 'inbox.test',
          'mx-host': ['mx.inbox.test'],
        },
        summary: { 'total-successful-session-count': 0, 'total-failure-session-count': 1 },
        'failure-details': [
          mode === 'enforce'
            ? {
                ...FAILURE,
                'failure-reason-code': expect.stringContaining('421 4.7.5 the domain requires verified TLS'),
              }
            : { ...FAILURE, 'failure-reason-code': 'DEPTH_ZERO_SELF_SIGNED_CERT' },
        ],
      },
    ],
  });
});

test('what reads the reports of others reads ours', async () => {
  const world = await start('mailto:tls-reports@inbox.test', 'testing');
  await send(world, 'delivered');
  await nextDay(world);
  await world.caught(2);
  const mail = world.mx.mails.list().find(({ to }) => to.includes('tls-reports@inbox.test'));
  if (mail === undefined) throw new Error('there is no report');
  const row = { domain: 'inbox.test', policy: 'sts', result: 'certificate-not-trusted', mx: 'mx.inbox.test', count: 1 };
  expect(await readAggregateReport(await world.mx.mails.source(mail))).toMatchObject({ kind: 'tls', rows: [row] });
});

test('a domain hears of a policy that nobody can fetch', async () => {
  const announced = { name: '_mta-sts.inbox.test', type: 'TXT', value: 'v=STSv1; id=a1;' } as const;
  const world = await start('mailto:tls-reports@inbox.test', undefined, { zone: [announced] });
  await send(world, 'delivered');
  await nextDay(world);
  await world.caught(2);
  const none = { 'policy-type': 'no-policy-found', 'policy-domain': 'inbox.test' };
  const details = {
    'result-type': 'sts-policy-fetch-error',
    'failed-session-count': 1,
    'failure-reason-code': 'mta-sts.inbox.test has no address',
  };
  expect(await reportedPolicies(world)).toEqual(
    expect.arrayContaining([
      {
        policy: none,
        summary: { 'total-successful-session-count': 1, 'total-failure-session-count': 0 },
        'failure-details': [],
      },
      {
        policy: { 'policy-type': 'sts', 'policy-domain': 'inbox.test' },
        summary: { 'total-successful-session-count': 0, 'total-failure-session-count': 1 },
        'failure-details': [details],
      },
    ]),
  );
});

test('a report is made once, whoever asks, and is not reported on', async () => {
  const world = await start('mailto:tls-reports@inbox.test', 'testing');
  await send(world, 'delivered');
  await nextDay(world);
  await world.caught(2);
  await nextDay(world);
  await nextDay(world);
  expect((await world.queue()).map(({ recipient }) => recipient).sort()).toEqual([
    'owner@inbox.test',
    'tls-reports@inbox.test',
  ]);
});

test.each<[string, string | undefined, WorldSettings]>([
  ['a domain that does not ask for it', undefined, {}],
  ['a domain whose record names nobody', 'ftp://inbox.test/', {}],
  ['delivery.tls_reports: false', 'mailto:tls-reports@inbox.test', { server: { delivery: { tls_reports: false } } }],
])('there is no report with %s', async (_, rua, settings) => {
  const world = await start(rua, 'testing', settings);
  await send(world, 'delivered');
  await nextDay(world);
  expect((await world.queue()).map(({ recipient }) => recipient)).toEqual(['owner@inbox.test']);
});

test('a report is posted where the domain wants that, and again an hour later where it was not taken', async () => {
  const posted: { type: string | undefined; body: Buffer }[] = [];
  const { key, cert } = selfSignedCertificate(['reports.inbox.test'], Date.now());
  const trusted = getCACertificates('default');
  setDefaultCACertificates([...trusted, cert]);
  const server = createServer({ key, cert }, (request, response) => {
    void request.toArray().then((chunks) => {
      posted.push({ type: request.headers['content-type'], body: Buffer.concat(chunks) });
      response.writeHead(posted.length === 1 ? 503 : 201).end();
    });
  });
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  onTestFinished(() => {
    setDefaultCACertificates(trusted);
    server.closeAllConnections();
    server.close();
  });
  const { port } = server.address() as AddressInfo;
  const world = await start(`https://reports.inbox.test:${port}/tls`, 'testing', {
    zone: [{ name: 'reports.inbox.test', type: 'A', value: '127.0.0.1' }],
  });
  await send(world, 'delivered');
  await nextDay(world);
  await expect.poll(() => posted.length).toBe(1);
  await world.clock.later(0);
  expect(posted.length).toBe(1);
  for (let hour = 0; hour < 3; hour++) {
    world.clock.pass(HOUR);
    await world.clock.later(0);
  }
  expect(posted.map(({ type }) => type)).toEqual(['application/tlsrpt+gzip', 'application/tlsrpt+gzip']);
  const [first, second] = posted.map(({ body }): unknown => JSON.parse(gunzipSync(body).toString()));
  expect(second).toEqual(first);
  expect(second).toMatchObject({
    'organization-name': 'mail.postern.test',
    policies: [{ policy: { 'policy-type': 'sts' } }],
  });
});
