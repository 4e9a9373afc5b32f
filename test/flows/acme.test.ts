/** Certificates by ACME, from an authority on loopback that can refuse, be slow and lie; by real TLS clients. */
import type { PeerCertificate } from 'node:tls';
import { expect, test } from 'vitest';
import { systemClock } from '../../src/lib/clock.ts';
import { startAcmeServer, type AcmeServer, type Manners } from '../harness/acme.ts';
import { ask } from '../harness/binary.ts';
import { SmtpClient } from '../harness/inbound-smtp.ts';
import { readMetrics } from '../harness/monitoring.ts';
import { runOperator } from '../harness/terminal.ts';
import { HOSTNAME, settled, shownAt, startSecured, statesOf, type Secured } from '../harness/secured.ts';

const MINUTE = 60_000;
const HOUR = 60 * MINUTE;
const DAY = 24 * HOUR;

interface Certified extends Secured {
  readonly authority: AcmeServer;
  /** Lets the wall clock go on, and the daemon look what is due. */
  later(ms: number): Promise<void>;
}

async function start(
  manners: Manners = {},
  { acme = {}, reachable = true }: { acme?: object; reachable?: boolean } = {},
): Promise<Certified> {
  const authority = await startAcmeServer(manners);
  const secured = await startSecured({ acme: { directory: authority.directory, ...acme } });
  if (reachable) authority.proofPort = secured.plainPort;
  return { ...secured, authority, later: secured.clock.later };
}

const issuer = (certificate: PeerCertificate) => certificate.issuer.CN;

test('it starts with a self-signed certificate, and swaps it for a real one on HTTPS and SMTP', async () => {
  const secured = await start({}, { reachable: false });
  const { world, authority, port, plainPort } = secured;
  expect(issuer(await shownAt(port))).toBe(HOSTNAME);
  authority.proofPort = plainPort;
  expect(await settled(secured)).toMatchObject([{ name: HOSTNAME, failure: null }]);
  expect(await shownAt(port)).toMatchObject({ issuer: { CN: 'Test authority' }, subjectaltname: `DNS:${HOSTNAME}` });
  const smtp = await SmtpClient.open(world.daemon.smtp[0]?.port ?? 0);
  await smtp.say('EHLO client.test');
  expect(await smtp.say('STARTTLS')).toMatch(/^220/);
  expect(authority.orders).toEqual([HOSTNAME]);
  expect([...authority.accounts.values()]).toEqual([['mailto:ops@inbox.test']]);
});

test('it is renewed when a third of its life is left', async () => {
  const secured = await start({ pending: 3, badNonce: true });
  const { world, authority, port, later } = secured;
  await settled(secured);
  const first = await shownAt(port);
  await later(30 * DAY);
  expect(authority.orders).toHaveLength(1);
  await later(32 * DAY);
  expect(authority.orders).toHaveLength(2);
  const second = await shownAt(port);
  expect(second.serialNumber).not.toBe(first.serialNumber);
  expect(authority.accounts.size).toBe(1);
  const metrics = await ask({ socketPath: world.daemon.addresses?.socket, path: '/metrics' });
  expect(String(metrics.body)).toContain(
    `postern_tls_certificate_expiry_timestamp_seconds{name="${HOSTNAME}"} ${Date.parse(second.valid_to) / 1000}`,
  );
});

test('what it obtained is used at once after a restart, and not ordered again', async () => {
  const { world, authority, port, ...before } = await start();
  await settled({ world, ...before });
  const { serialNumber } = await shownAt(port);
  await world.daemon.close();
  const { store, snapshot } = world.daemon;
  const after = await startSecured({
    acme: { directory: authority.directory },
    parts: { store },
    server: { database: { url: snapshot().server.database.url } },
  });
  expect(await shownAt(after.port)).toMatchObject({ serialNumber });
  await after.clock.later(DAY);
  expect(authority.orders).toHaveLength(1);
});

test.each<[string, Manners, string]>([
  [
    'refuses',
    { refuse: { status: 403, type: 'rejectedIdentifier', detail: 'not\nthat\u001B[31m name' } },
    'not that [31m name',
  ],
  ['certifies another name', { lie: 'name' }, `is not for ${HOSTNAME}`],
  ['certifies another key', { lie: 'key' }, 'is for another key'],
  ['wants an account that it knows', { eab: { key_id: 'k', hmac_key: 'c2VjcmV0' } }, 'tls.acme.eab'],
])('an authority that %s is tried again later, and no storm of it', async (_what, manners, reason) => {
  const secured = await start(manners);
  const { authority, port, later } = secured;
  const [state] = await settled(secured);
  expect(state).toMatchObject({
    name: HOSTNAME,
    expires_at: null,
    failure: { reason: expect.stringContaining(reason) },
  });
  expect(issuer(await shownAt(port))).toBe(HOSTNAME);
  const orders = authority.orders.length;
  for (let i = 0; i < 5; i++) await later(1000);
  expect(authority.orders).toHaveLength(orders);
  for (let hour = 0; hour < 24; hour++) await later(HOUR);
  expect(authority.orders.length).toBeLessThan(12);
  Object.assign(manners, { refuse: undefined, lie: undefined, eab: undefined });
  await later(2 * DAY);
  expect(issuer(await shownAt(port))).toBe('Test authority');
});

test('the last good one goes on while a renewal fails, and Retry-After is kept', async () => {
  const manners: Manners = {};
  const secured = await start(manners);
  const { authority, port, later } = secured;
  await settled(secured);
  manners.refuse = { status: 429, type: 'rateLimited', detail: 'too many', retryAfter: String((3 * DAY) / 1000) };
  await later(62 * DAY);
  expect(issuer(await shownAt(port))).toBe('Test authority');
  expect(await statesOf(secured)).toMatchObject([{ failure: { reason: 'too many' } }]);
  await later(2 * DAY);
  expect(authority.orders).toHaveLength(2);
  await later(2 * DAY);
  expect(authority.orders).toHaveLength(3);
});

test('what keeps failing: the operator is mailed, metrics and doctor say it, and a reload tries again at once', async () => {
  const manners: Manners = { refuse: { status: 403, type: 'rejectedIdentifier', detail: 'a policy forbids it' } };
  const secured = await start(manners);
  const { world, authority, port, clock, later } = secured;
  const socket = world.daemon.addresses?.socket ?? '';
  await settled(secured);
  for (let i = 0; i < 2; i++) await later(20 * MINUTE);
  expect(await readMetrics(world.daemon)).toContain(`postern_tls_certificate_failed_tries{name="${HOSTNAME}"} 3\n`);
  clock.pass(10 * MINUTE);
  await later(0);
  const [mail] = (await world.caught(1)).list();
  expect(mail).toMatchObject({ to: 'ops@inbox.test', subject: `No certificate can be obtained for ${HOSTNAME}` });
  const { out } = await runOperator(socket, ['doctor']);
  expect(out).toContain('a policy forbids it');
  expect(out).toContain('systemctl reload postern');
  const orders = authority.orders.length;
  manners.refuse = undefined;
  await world.daemon.reload();
  await expect.poll(async () => issuer(await shownAt(port))).toBe('Test authority');
  expect(authority.orders).toHaveLength(orders + 1);
});

test('a reload keeps neither to the back-off nor less than a minute, and never forgets that the authority asked to wait', async () => {
  const manners: Manners = { refuse: { status: 403, type: 'rejectedIdentifier', detail: 'no' } };
  const secured = await start(manners);
  const { world, authority, later } = secured;
  async function ordersAfterReload(): Promise<number> {
    await world.daemon.reload();
    // The job comes after what the reload has begun.
    await later(0);
    return authority.orders.length;
  }
  await settled(secured);
  expect(await ordersAfterReload()).toBe(1);
  await later(2 * MINUTE);
  manners.refuse = { status: 429, type: 'rateLimited', detail: 'too many', retryAfter: String((3 * HOUR) / 1000) };
  expect(await ordersAfterReload()).toBe(2);
  await later(HOUR);
  expect(await ordersAfterReload()).toBe(2);
  await later(2 * HOUR);
  expect(await ordersAfterReload()).toBe(3);
});

test('an authority that does not answer does not hold up the end', async () => {
  const { world, authority } = await start({ hang: true });
  for (let i = 0; i < 1000 && authority.orders.length + authority.accounts.size === 0; i++) await systemClock.sleep(10);
  await expect(world.daemon.close()).resolves.toBeUndefined();
});

test('other names have their own certificates, chosen by SNI', async () => {
  const secured = await start({}, { acme: { names: ['forms.postern.test'] } });
  const { port } = secured;
  await settled(secured);
  expect(await shownAt(port, 'forms.postern.test')).toMatchObject({ subjectaltname: 'DNS:forms.postern.test' });
  expect(await shownAt(port, HOSTNAME)).toMatchObject({ subjectaltname: `DNS:${HOSTNAME}` });
  expect(await shownAt(port, 'other.test')).toMatchObject({ subjectaltname: `DNS:${HOSTNAME}` });
});

test('the account is bound to another one where the authority asks for that', async () => {
  const eab = { key_id: 'kid-1', hmac_key: 'zWNDZM6eQGHWpSRTPal5eIUYFTu7EajVIoguysqZ9wG44nMEtx3MUAsUDkMTQ12W' };
  const secured = await start({ eab }, { acme: { eab, email: 'certificates@inbox.test' } });
  expect(await settled(secured)).toMatchObject([{ failure: null }]);
  expect([...secured.authority.accounts.values()]).toEqual([['mailto:certificates@inbox.test']]);
});
