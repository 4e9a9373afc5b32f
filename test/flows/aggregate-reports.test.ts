/** Reports on DMARC and TLS that come to the host name: the whole daemon, from the mail to what its owner sees. */
import nodemailer from 'nodemailer';
import { describe, expect, test } from 'vitest';
import type { z } from 'zod';
import { domains } from '../../src/contract/domains.ts';
import { OPERATOR } from '../../src/store/tenants.ts';
import { cliWorld } from '../cli/cli-world.ts';
import { apiClient, type Client } from '../harness/api.ts';
import { startTestWorld, type TestWorld } from '../harness/daemon.ts';
import { dmarcXml, gzipMail, reportMail, tlsJson, type TestReport } from '../mail/aggregate-fixtures.ts';

type Reports = z.output<typeof domains.reports.answer>;

const TO = 'reports@mail.postern.test';
const RECEIVER = 'noreply@receiver.test';
const DAY = 86_400;
/** The UTC day before this one, seconds. */
const YESTERDAY = Math.floor(Date.now() / 86_400_000 - 1) * DAY;
const WHEN = { begin: YESTERDAY, end: YESTERDAY + DAY - 1 };

const zone = ['receiver.test', 'other.test'].map((name) => ({
  name,
  type: 'TXT' as const,
  value: 'v=spf1 ip4:127.0.0.1 -all',
}));

function sender({ daemon }: Pick<TestWorld, 'daemon'>) {
  const port = daemon.smtp[0]?.port ?? 0;
  const transport = nodemailer.createTransport({ host: '127.0.0.1', port, ignoreTLS: true });
  return async (raw: string, from = RECEIVER, to: string | string[] = TO): Promise<string> =>
    (await transport.sendMail({ envelope: { from, to }, raw })).response;
}

async function start() {
  const world = await startTestWorld({ zone });
  const client = await apiClient(world, { tenant: OPERATOR });
  return { ...world, client, send: sender(world) };
}

async function show(client: Client, query = '', domain = 'example.test'): Promise<Reports> {
  const { body } = await client.ask('GET', `/domains/${domain}/reports${query}`);
  return domains.reports.answer.parse(body);
}

/** Waits until so many reports have been read. */
async function read(client: Client, count: number): Promise<Reports> {
  const total = async (): Promise<number> =>
    (await show(client)).reporters.reduce((sum, { reports }) => sum + reports, 0);
  await expect.poll(total, { interval: 250 }).toBe(count);
  return show(client);
}

function dmarc(report: TestReport): string {
  return gzipMail(dmarcXml({ ...WHEN, ...report }));
}

test('a report is counted by day, source and result, once, however often it comes', async () => {
  const { send, client } = await start();
  const records = [
    { source: '127.0.0.1', count: 90 },
    { source: '203.0.113.9', count: 10, dkim: 'fail', spf: 'fail', disposition: 'quarantine', auth: '' },
  ];
  expect(await send(dmarc({ records }))).toMatch(/^250 2\.0\.0 accepted as inb_/);
  await send(dmarc({ records }));
  await send(dmarc({ id: 'r2', records: [{ source: '127.0.0.1', count: 5 }] }));
  await send(gzipMail(tlsJson(WHEN)));
  const reports = await read(client, 3);
  const day = new Date(YESTERDAY * 1000).toISOString().slice(0, 10);
  expect(reports).toMatchObject({
    domain: 'example.test',
    messages: 105,
    passed: 95,
    days: [{ day, messages: 105, passed: 95 }],
    sources: [
      { source: '127.0.0.1', this_server: true, messages: 95, disposition: 'none', dkim: 'aligned', spf: 'aligned' },
      { source: '203.0.113.9', this_server: false, messages: 10, disposition: 'quarantine', dkim: 'none', spf: 'none' },
    ],
    tls: {
      sessions: 107,
      failures: 7,
      results: [
        { result: 'success', sessions: 100 },
        { result: 'certificate-expired', mx: 'mail.postern.test', policy: 'sts', sessions: 5 },
        { result: 'unspecified', sessions: 2 },
      ],
    },
    reporters: [
      { reporter: 'receiver.test', kind: 'dmarc', reports: 2 },
      { reporter: 'receiver.test', kind: 'tls', reports: 1 },
    ],
  });
  expect(await show(client, `?to=${new Date((YESTERDAY - DAY) * 1000).toISOString().slice(0, 10)}`)).toMatchObject({
    messages: 0,
    days: [],
    tls: { sessions: 0 },
  });
});

describe('a stranger', () => {
  test('who forges a report, or reports on other domains and other times, changes nothing', async () => {
    const { send, client, queue } = await start();
    // The domain of neither is authenticated: no SPF record, and none that this address passes.
    await send(dmarc({ id: 'forged' }), 'x@nobody.test');
    await send(dmarc({ id: 'theirs', domain: 'victim.test', records: [{ from: 'victim.test' }] }));
    await send(dmarc({ id: 'future', begin: YESTERDAY + 9 * DAY, end: YESTERDAY + 10 * DAY }));
    await send(dmarc({ id: 'past', begin: YESTERDAY - 60 * DAY, end: YESTERDAY - 59 * DAY }));
    await send(dmarc({ id: 'long', begin: YESTERDAY - 10 * DAY, end: YESTERDAY + DAY }));
    await send(reportMail('no archive'));
    await send(gzipMail(' '.repeat(30_000_000)));
    await send(dmarc({ id: 'good' }));
    const { reporters, messages } = await read(client, 1);
    expect({ reporters, messages }).toEqual({
      reporters: [{ reporter: 'receiver.test', kind: 'dmarc', reports: 1 }],
      messages: 1,
    });
    expect(await queue()).toEqual([]);
  });

  test('cannot fill the day of a domain, nor keep others from reporting', async () => {
    const { send, client } = await start();
    const many = (net: number) =>
      Array.from({ length: 450 }, (_, i) => ({ source: `10.${net}.${i >> 8}.${i & 255}`, count: 1 }));
    for (const net of [1, 2, 3, 4]) await send(dmarc({ id: `many${net}`, records: many(net) }));
    await send(gzipMail(dmarcXml({ ...WHEN, id: 'honest', records: [{ count: 7 }] }), 'x@other.test'), 'x@other.test');
    const reports = await read(client, 3);
    expect(reports).toMatchObject({
      messages: 2 * 450 + 7,
      reporters: [
        { reporter: 'receiver.test', reports: 2 },
        { reporter: 'other.test', reports: 1 },
      ],
    });
    expect(reports.sources).toHaveLength(200);
  });

  test('who writes a letter, or sends too much, is refused', async () => {
    const { send } = await start();
    const letter = 'From: a@receiver.test\r\nContent-Type: text/plain\r\n\r\nHello\r\n';
    await expect(send(letter)).rejects.toThrow(/550 5\.7\.1 this address accepts only DMARC and TLS reports/);
    await expect(send(reportMail(Buffer.alloc(5_000_000, 1)))).rejects.toThrow(/552 5\.3\.4/);
  });
});

test('an account sees the reports about its own domain, and no other’s', async () => {
  const world = await cliWorld({}, { zone });
  const yaml = 'project: { name: Shop, slug: shop, owner: owner@inbox.test }\ndomains: { shop.test: {} }\n';
  await world.write('postern.yml', yaml);
  await world.say(['push', '--yes']);
  await world.publish('shop.test');
  expect((await world.say(['domains', 'verify', 'shop.test'])).code).toBe(0);
  // No name of a domain, which a terminal would act on if it were shown.
  const auth = '<dkim><domain>\u009b31mx.test</domain><result>pass</result></dkim>';
  const records = [
    { source: '127.0.0.1', count: 40, from: 'shop.test' },
    { source: '203.0.113.9', count: 2, from: 'shop.test', dkim: 'fail', spf: 'fail', auth },
  ];
  const send = sender(world);
  await send(dmarc({ domain: 'shop.test', records }));
  await send(gzipMail(tlsJson({ ...WHEN, domain: 'shop.test' })));
  await expect
    .poll(async () => (await world.say(['domains', 'reports', 'shop.test', '--json'])).out, { interval: 250 })
    .toMatch(/"kind": "tls"/);
  const { code, out } = await world.say(['domains', 'reports', 'shop.test'], { width: 100 });
  expect(code).toBe(0);
  expect(out).toMatch(/^Mail from shop\.test, \S+ to \S+: 40 of 42 passed DMARC \(95 %\)\n/);
  expect(out).toMatch(/^127\.0\.0\.1 \(this server\) +40 +pass +accepted +pass +pass +-$/m);
  expect(out).toMatch(/^203\.0\.113\.9 +2 +fail +accepted +other +- +-$/m);
  expect(out).toMatch(/^TLS connections to shop\.test: 100 of 107 succeeded \(93 %\)$/m);
  expect(out).toMatch(/^certificate-expired +5 +MTA-STS +mail\.postern\.test$/m);
  expect(out).toMatch(/^ {2}receiver\.test +1 DMARC report$/m);

  const stranger = await apiClient(world);
  expect((await stranger.ask('GET', '/domains/shop.test/reports')).status).toBe(404);
});

test('there is nothing to see of a domain that nobody reported on', async () => {
  const world = await cliWorld({ tenant: OPERATOR });
  const { out } = await world.say(['domains', 'reports', 'example.test'], { width: 80 });
  expect(out).toMatch(/^No reports about example\.test, \S+ to \S+\.\n/);
});
