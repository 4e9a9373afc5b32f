/** What the daemon notices by itself: one mail to the operator about each cause, and a metric. */
import { simpleParser } from 'mailparser';
import { expect, test } from 'vitest';
import { serverSchema } from '../../src/config/schema-server.ts';
import { createAlerts } from '../../src/daemon/alerts.ts';
import { selfSignedCertificate } from '../../src/lib/x509.ts';
import type { ZoneRecord } from '../../src/dev/dns-server.ts';
import { silentLog } from '../../src/lib/log.ts';
import { enqueue } from '../../src/queue/enqueue.ts';
import { saveOperator } from '../../src/store/tenants.ts';
import { testClock } from '../harness/clock.ts';
import { startTestWorld, type TestWorld } from '../harness/daemon.ts';
import { startTestDns } from '../harness/dns.ts';
import { readMetrics } from '../harness/monitoring.ts';
import { openTestStore } from '../harness/store.ts';

const MINUTE = 60_000;
const DAY = 86_400_000;
const PUBLIC = ['192.0.2.10'];

async function firstMail(world: TestWorld) {
  const mails = await world.caught(1);
  const [mail] = mails.list();
  if (mail === undefined) throw new Error('no mail was caught');
  const { text = '' } = await simpleParser(await mails.source(mail));
  return { ...mail, text };
}

test('a certificate that is not renewed: the operator is mailed, and told what to do', async () => {
  const files = selfSignedCertificate(['mail.postern.test'], Date.now() - 359.5 * DAY);
  const world = await startTestWorld({ server: { tls: { mode: 'files', files } } });
  const { subject, to, text } = await firstMail(world);
  expect({ subject, to }).toEqual({
    subject: 'The certificate of mail.postern.test expires in 4 days',
    to: 'ops@inbox.test',
  });
  expect(text).toContain('certbot renew --dry-run');
  await expect.poll(() => readMetrics(world.daemon)).toContain('postern_alerts{alert="certificate"} 1\n');
});

test('an address on a block list: the operator is mailed with the reason of the list', async () => {
  const world = await startTestWorld({
    server: { server: { public_ips: PUBLIC }, alerts: { dnsbl: ['bl.test', 'all.test', 'clean.test'] } },
    zone: [
      { name: '10.2.0.192.bl.test', type: 'A', value: '127.0.0.2' },
      { name: '10.2.0.192.bl.test', type: 'TXT', value: 'spam was sent from there' },
      // This one was given up, and its name answers to everything.
      { name: '10.2.0.192.all.test', type: 'A', value: '127.0.0.2' },
      { name: '1.0.0.127.all.test', type: 'A', value: '127.0.0.2' },
    ],
  });
  const { subject, text } = await firstMail(world);
  expect(subject).toBe('192.0.2.10 is on the block list bl.test');
  expect(text).toContain('192.0.2.10 is on bl.test (127.0.0.2): spam was sent from there');
  await expect.poll(() => readMetrics(world.daemon)).toContain('postern_alerts{alert="block_list"} 1\n');
});

async function openAlerts(zone: readonly ZoneRecord[] = []) {
  const clock = testClock();
  const store = await openTestStore();
  await saveOperator(store, 'ops@example.net', clock.now());
  const { resolver } = await startTestDns(zone);
  const server = serverSchema.parse({
    server: { hostname: 'mail.example.net', operator: 'ops@example.net', public_ips: PUBLIC },
    alerts: { dnsbl: ['bl.test'] },
  });
  let mails = 0;
  const open = () =>
    createAlerts({
      store,
      clock,
      log: silentLog,
      config: () => server,
      resolver,
      wake: () => mails++,
      certificates: () => [],
    });
  async function queueMail(domain: string, count: number): Promise<void> {
    const recipients = Array.from({ length: count }, (_, i) => `a${i}@${domain}`);
    const message = { tenant: 'ten_a', kind: 'transactional', submission: null, domain: 'example.com' } as const;
    await store.write(enqueue({ ...message, source: {}, ttl: 5 * DAY, recipients }, clock.now()).unit);
  }
  return { clock, open, queueMail, mails: () => mails };
}

test('one mail about each cause, whatever restarts and however many look; another after a week', async () => {
  const { clock, open, mails } = await openAlerts([{ name: '10.2.0.192.bl.test', type: 'A', value: '127.0.0.2' }]);
  const [first, second] = [open(), open()];
  await Promise.all([first.jobs['alert_block_list']?.(), second.jobs['alert_block_list']?.()]);
  await open().jobs['alert_block_list']?.();
  expect(mails()).toBe(1);
  clock.advance(6.5 * DAY);
  await first.jobs['alert_block_list']?.();
  expect(mails()).toBe(1);
  clock.advance(DAY);
  await first.jobs['alert_block_list']?.();
  expect(mails()).toBe(2);
});

test('the queue of a big receiver: told of when mail waits for over an hour and becomes more', async () => {
  const { clock, open, queueMail, mails } = await openAlerts([
    { name: 'firm.test', type: 'MX', value: '10 firm-test.mail.protection.outlook.com' },
    { name: 'small.test', type: 'MX', value: '10 mx.small.test' },
  ]);
  const alerts = open();
  const active = async () => {
    await alerts.jobs['alert_receiver']?.();
    return alerts.figure().value;
  };
  const told = (count: number) => expect.arrayContaining([[{ alert: 'receiver' }, count]]);
  await queueMail('firm.test', 40);
  await queueMail('small.test', 200);
  clock.advance(20 * MINUTE);
  await queueMail('firm.test', 40);
  await queueMail('small.test', 200);
  clock.advance(50 * MINUTE);
  // What came twenty minutes later has not waited for an hour yet.
  expect(await active()).toEqual(told(0));
  clock.advance(20 * MINUTE);
  expect(await active()).toEqual(told(1));
  expect(mails()).toBe(1);
  // It becomes no more: no matter of concern.
  clock.advance(20 * MINUTE);
  expect(await active()).toEqual(told(0));
});
