import { expect, test } from 'vitest';
import type { AccountMail } from '../../src/accounts/consent.ts';
import { createDomains } from '../../src/domains/domains.ts';
import { createKeyring } from '../../src/domains/dkim-keys.ts';
import { projectSchema } from '../../src/config/schema.ts';
import { serverSchema } from '../../src/config/schema-server.ts';
import { type Project, buildSnapshot, type Snapshot } from '../../src/config/snapshot.ts';
import { silentLog } from '../../src/lib/log.ts';
import { enqueue } from '../../src/queue/enqueue.ts';
import { systemMail } from '../../src/queue/system-mail.ts';
import { dkimKeysOf } from '../../src/store/dkim-keys.ts';
import { domainOwners, sendingDomains } from '../../src/store/domains.ts';
import { storePrefix } from '../../src/store/messages.ts';
import { putInForce } from '../../src/store/projects.ts';
import { OPERATOR, insertTenant } from '../../src/store/tenants.ts';
import type { Store, Unit } from '../../src/store/store.ts';
import { testClock } from '../harness/clock.ts';
import { startTestDns } from '../harness/dns.ts';
import { tenantRow } from '../harness/keys.ts';
import { openTestStore } from '../harness/store.ts';

const HOUR = 3600_000;
const DAY = 24 * HOUR;

type Claimant = readonly [tenant: string, owner?: string];

interface Setting {
  readonly algorithms?: ('rsa' | 'ed25519')[];
  /** Who claims example.com, with `project.owner`. */
  readonly claims?: readonly Claimant[];
  readonly hostname?: string;
}

async function setUp({ algorithms = ['rsa'], claims = [[OPERATOR]], hostname = 'mail.example.net' }: Setting = {}) {
  const server = serverSchema.parse({ server: { hostname, operator: 'ops@example.net' } });
  const dns = await startTestDns([]);
  const store = await openTestStore();
  const clock = testClock();
  let snapshot = await configured(claims);

  async function configured(by: readonly Claimant[], unavailable?: Snapshot['unavailable']): Promise<Snapshot> {
    const projects = by.map(([tenant, owner]): Project => {
      const config = projectSchema.parse({
        project: { name: 'Site', slug: 'site', owner },
        domains: { 'example.com': { dkim: { algorithms } } },
      });
      return { revision: 'rev_1', slug: 'site', tenant, source: 'push', config };
    });
    const owners = await domainOwners(store, ['example.com']);
    return buildSnapshot({ server, projects, owners, ...(unavailable && { unavailable }) });
  }

  const gate = Promise.withResolvers<void>();
  /** So many units are held back yet, and so many wait. */
  let [toHold, held] = [0, 0];
  const gated: Store = {
    ...store,
    async write<const U extends Unit>(unit: U) {
      if (toHold > 0) {
        toHold -= 1;
        held += 1;
        await gate.promise;
      }
      return store.write(unit);
    },
  };

  const options = {
    store: gated,
    resolver: dns.resolver,
    clock,
    log: silentLog,
    snapshot: () => snapshot,
    fetchPolicy: () => Promise.resolve({ kind: 'failed', reason: 'nobody asks' } as const),
    accountMail: (mail: AccountMail) => systemMail(mail, 'mail.example.net', clock.now()),
    onTransition: async () => {
      snapshot = await configured(claims);
    },
  };
  const domains = createDomains(options);
  await domains.adopt();
  const wanted = async (tenant?: string) => {
    const { records } = (await domains.report('example.com', tenant)) ?? { records: [] };
    return records.filter((record) => record.required);
  };
  return {
    ...dns,
    store,
    clock,
    domains,
    wanted,
    publish: async (tenant?: string) => dns.server.set(await wanted(tenant)),
    again: () => createDomains(options),
    /** A daemon that begins now, and is told of these claims and of files that are broken. */
    async restarted(by: readonly Claimant[], unavailable?: Snapshot['unavailable']) {
      const now = await configured(by, unavailable);
      const another = createDomains({ ...options, snapshot: () => now });
      await another.adopt();
      return another;
    },
    held: () => held,
    /** Holds the next units back, until the function that it answers is called: that waits until all of them are there. */
    hold(units: number): () => Promise<void> {
      toHold = units;
      return async () => {
        await expect.poll(() => held).toBe(units);
        gate.resolve();
      };
    },
    claimedBy: async (...by: Claimant[]) => {
      snapshot = await configured(by);
      await domains.adopt();
    },
    letters: async () => {
      const rows = await store.read
        .selectFrom('messages')
        .select('source')
        .where('kind', '=', 'system')
        .orderBy('created_at')
        .orderBy('source', 'desc')
        .execute();
      return rows.map(({ source }) => JSON.parse(source) as { to: string; subject: string; text: string });
    },
    holder: () => snapshot.domains.get('example.com')?.project.tenant,
  };
}

test('a new domain is pending and told what to publish; published, it is verified', async () => {
  const { domains, publish, store } = await setUp();
  expect(domains.status('example.com')).toBe('pending');
  expect(domains.status('other.example')).toBeUndefined();
  const before = await domains.check('example.com');
  expect(before?.status).toBe('pending');
  expect(before?.records.filter((record) => record.required)).toMatchObject([
    { purpose: 'ownership', name: '_postern.example.com', status: 'missing' },
    { purpose: 'dkim', name: 'postern._domainkey.example.com', status: 'missing' },
  ]);
  await publish();
  await domains.checkDue();
  expect(domains.status('example.com')).toBe('pending');
  expect(await domains.check('example.com')).toMatchObject({ status: 'verified' });
  expect(domains.status('example.com')).toBe('verified');
  expect(await store.read.selectFrom('events').select('type').execute()).toEqual([{ type: 'domain.verified' }]);
});

test('checks at the same moment tell of one change', async () => {
  const { domains, publish, store } = await setUp();
  await publish();
  await Promise.all([domains.check('example.com'), domains.checkDue(), domains.check('example.com')]);
  expect(await store.read.selectFrom('events').select('type').execute()).toEqual([{ type: 'domain.verified' }]);
});

test('the scheduled check finds a publication by itself', async () => {
  const { domains, publish, clock } = await setUp();
  await domains.checkDue();
  await publish();
  clock.advance(20_000);
  await domains.checkDue();
  expect(domains.status('example.com')).toBe('verified');
});

test('records that break degrade it, and fail it after the grace; a silent DNS does neither', async () => {
  const { domains, publish, clock, server } = await setUp();
  await publish();
  await domains.check('example.com');
  server.set([{ name: '_postern.example.com', fault: 'SERVFAIL' }]);
  clock.advance(100 * HOUR);
  expect(await domains.check('example.com')).toMatchObject({ status: 'degraded' });
  server.set([
    { name: '_postern.example.com', fault: 'SERVFAIL' },
    { name: 'postern._domainkey.example.com', fault: 'SILENT' },
  ]);
  clock.advance(100 * HOUR);
  expect(await domains.check('example.com')).toMatchObject({ status: 'degraded' });
  server.set([]);
  expect(await domains.check('example.com')).toMatchObject({ status: 'failed' });
  await publish();
  expect(await domains.check('example.com')).toMatchObject({ status: 'verified' });
});

test('the state, the token and the keys outlive the daemon', async () => {
  const { domains, publish, again } = await setUp({ algorithms: ['rsa', 'ed25519'] });
  await publish();
  await domains.check('example.com');
  const before = await domains.report('example.com');
  expect(before?.records.map(({ name }) => name)).toContain('postern-ed25519._domainkey.example.com');
  const restarted = again();
  await restarted.adopt();
  expect(restarted.status('example.com')).toBe('verified');
  expect(await restarted.report('example.com')).toEqual(before);
});

test('the owner and the operator are told once when records break, and once when mail is held', async () => {
  const { domains, publish, clock, server, letters } = await setUp({ claims: [['ten_a', 'owner@example.org']] });
  await publish();
  await domains.check('example.com');
  expect(await letters()).toEqual([]);
  server.set([]);
  await domains.check('example.com');
  await domains.check('example.com');
  expect(await letters()).toMatchObject([
    { to: 'owner@example.org', subject: 'The DNS records of example.com are no longer correct' },
    { to: 'ops@example.net' },
  ]);
  expect((await letters())[0]?.text).toMatch(/TXT _postern\.example\.com\n.*postern-verification=\w+/);
  clock.advance(100 * HOUR);
  await domains.checkDue();
  await domains.check('example.com');
  expect((await letters()).map(({ subject }) => subject)).toEqual([
    expect.any(String),
    expect.any(String),
    'Mail from example.com is held: its DNS records are wrong',
    'Mail from example.com is held: its DNS records are wrong',
  ]);
});

test('without an owner the tenant’s own address is told; an operator who is both is told once', async () => {
  const tenant = await setUp({ claims: [['ten_a']] });
  await tenant.store.write([insertTenant(tenantRow({ email: 'a@example.org' }))]);
  const both = await setUp({ claims: [[OPERATOR, 'ops@example.net']] });
  for (const { publish, domains, server } of [tenant, both]) {
    await publish();
    await domains.check('example.com');
    server.set([]);
    await domains.check('example.com');
  }
  expect((await tenant.letters()).map(({ to }) => to)).toEqual(['ops@example.net', 'a@example.org']);
  expect((await both.letters()).map(({ to }) => to)).toEqual(['ops@example.net']);
});

test('several daemons that see the same change tell of it once', async () => {
  const { domains, publish, store, again } = await setUp();
  const other = again();
  await other.adopt();
  await publish();
  await Promise.all([domains.check('example.com'), other.check('example.com')]);
  expect([domains.status('example.com'), other.status('example.com')]).toEqual(['verified', 'verified']);
  expect(await store.read.selectFrom('events').select('type').execute()).toEqual([{ type: 'domain.verified' }]);
});

test('the first claim that verifies owns the domain; another stays pending and says why', async () => {
  const { domains, server, wanted, holder, store, clock } = await setUp({ claims: [['ten_a'], ['ten_b']] });
  const [a, b] = [await wanted('ten_a'), await wanted('ten_b')];
  expect(a.map(({ name }) => name)).toEqual(['_postern.example.com', 'postern._domainkey.example.com']);
  expect(b.map(({ name }) => name)).toEqual([
    '_postern.example.com',
    expect.stringMatching(/^postern-[0-9a-f]{6}\._domainkey\.example\.com$/),
  ]);
  server.set(b);
  expect(await domains.check('example.com', 'ten_b')).toMatchObject({ status: 'verified', reason: null });
  expect(holder()).toBe('ten_b');
  server.set([...a, ...b]);
  const other = { status: 'pending', reason: 'owned by another account' };
  expect(await domains.check('example.com', 'ten_a')).toMatchObject(other);
  server.set(a);
  expect(await domains.check('example.com', 'ten_b')).toMatchObject({ status: 'degraded' });
  expect(await domains.check('example.com', 'ten_a')).toMatchObject(other);
  clock.advance(4 * DAY);
  expect(await domains.check('example.com', 'ten_b')).toMatchObject({ status: 'failed' });
  expect(await domains.check('example.com', 'ten_a')).toMatchObject(other);
  expect(await domains.report('example.com', 'ten_a')).toMatchObject(other);
  expect(holder()).toBe('ten_b');
  expect(await sendingDomains(store, 'ten_a')).toEqual([]);
});

test('a domain that has been failed for longer than dns.release is the next one’s that verifies, without a mail', async () => {
  const { domains, server, wanted, holder, letters, clock } = await setUp({ claims: [['ten_a'], ['ten_b']] });
  const [a, b] = [await wanted('ten_a'), await wanted('ten_b')];
  server.set(a);
  await domains.check('example.com', 'ten_a');
  server.set(b);
  await domains.check('example.com', 'ten_a');
  clock.advance(3 * DAY);
  await domains.check('example.com', 'ten_a');
  const told = (await letters()).length;
  clock.advance(13 * DAY);
  expect(await domains.check('example.com', 'ten_b')).toMatchObject({ status: 'pending' });
  clock.advance(DAY);
  // Nobody else wants it: it accepts as before.
  expect(await domains.check('example.com', 'ten_a')).toMatchObject({ status: 'failed' });
  expect(await domains.check('example.com', 'ten_b')).toMatchObject({ status: 'verified' });
  expect(holder()).toBe('ten_b');
  expect(await letters()).toHaveLength(told);
  server.set([...a, ...b]);
  expect(await domains.check('example.com', 'ten_a')).toMatchObject({
    status: 'pending',
    reason: 'owned by another account',
    verifiedAt: null,
  });
});

test('an owner that removes the domain leaves it to the next one that verifies', async () => {
  const { domains, server, wanted, claimedBy } = await setUp({ claims: [['ten_a'], ['ten_b']] });
  const [a, b] = [await wanted('ten_a'), await wanted('ten_b')];
  server.set([...a, ...b]);
  await domains.check('example.com', 'ten_a');
  expect(await domains.check('example.com', 'ten_b')).toMatchObject({ status: 'pending' });
  await claimedBy(['ten_b']);
  expect(await domains.check('example.com', 'ten_b')).toMatchObject({ status: 'verified' });
});

test('the operator moves a domain: its new owner’s mail is held until its records are found', async () => {
  const { domains, server, wanted, holder, store } = await setUp({ claims: [['ten_a'], ['ten_b']] });
  const [a, b] = [await wanted('ten_a'), await wanted('ten_b')];
  server.set(a);
  await domains.check('example.com', 'ten_a');
  expect(await domains.move('example.com', 'ten_c')).toBeUndefined();
  expect(await domains.move('example.com', 'ten_b')).toMatchObject({ status: 'failed' });
  expect(holder()).toBe('ten_b');
  expect(await domains.check('example.com', 'ten_a')).toMatchObject({
    status: 'pending',
    reason: 'owned by another account',
  });
  expect(await sendingDomains(store, 'ten_a')).toEqual([]);
  server.set([...a, ...b]);
  expect(await domains.check('example.com', 'ten_b')).toMatchObject({ status: 'verified' });
  expect(await domains.move('example.com', 'ten_b')).toMatchObject({ status: 'verified' });
  expect(await domains.move('example.com', 'ten_a')).toMatchObject({ status: 'verified' });
  expect(holder()).toBe('ten_a');
});

test('of two accounts that are verified by two daemons at once one has the domain', async () => {
  const { domains, server, wanted, hold, store, again } = await setUp({ claims: [['ten_a'], ['ten_b']] });
  server.set([...(await wanted('ten_a')), ...(await wanted('ten_b'))]);
  const other = again();
  await other.adopt();
  const release = hold(2);
  const checks = [domains.check('example.com', 'ten_a'), other.check('example.com', 'ten_b')];
  // Both have looked.
  await release();
  const found = await Promise.all(checks);
  expect(found.map((report) => report?.status).sort()).toEqual(['pending', 'verified']);
  const rows = await store.read.selectFrom('domains').select('status').execute();
  expect(rows.map(({ status }) => status).sort()).toEqual(['pending', 'verified']);
  expect(await store.read.selectFrom('events').select('type').execute()).toEqual([{ type: 'domain.verified' }]);
});

test('a claim that is withdrawn and made again keeps its token and its key', async () => {
  const { domains, publish, wanted, claimedBy, store } = await setUp();
  await publish();
  await domains.check('example.com');
  const before = await wanted();
  await claimedBy();
  expect(domains.status('example.com')).toBeUndefined();
  expect(await sendingDomains(store, OPERATOR)).toEqual([]);
  await domains.checkDue();
  await claimedBy([OPERATOR]);
  expect(domains.status('example.com')).toBe('pending');
  await domains.checkDue();
  expect((await wanted()).map(({ value }) => value)).toEqual(before.map(({ value }) => value));
  expect(await sendingDomains(store, OPERATOR)).toEqual(['example.com']);
});

test('a claim that is made again is looked at as soon as a new one', async () => {
  const { domains, publish, clock, claimedBy, server } = await setUp();
  await publish();
  await domains.check('example.com');
  await claimedBy();
  clock.advance(365 * DAY);
  server.set([]);
  await claimedBy([OPERATOR]);
  await domains.checkDue();
  expect(domains.status('example.com')).toBe('pending');
  await publish();
  clock.advance(20_000);
  await domains.checkDue();
  expect(domains.status('example.com')).toBe('verified');
});

test('a claim that was withdrawn while no daemon ran is pending when it is made again', async () => {
  const { domains, publish, clock, store, restarted, server } = await setUp();
  await publish();
  await domains.check('example.com');
  await restarted([]);
  expect(await sendingDomains(store, OPERATOR)).toEqual([]);
  server.set([]);
  const back = await restarted([[OPERATOR]]);
  expect(back.status('example.com')).toBe('pending');
  await back.checkDue();
  expect(back.status('example.com')).toBe('pending');
  await publish();
  clock.advance(20_000);
  await back.checkDue();
  expect(back.status('example.com')).toBe('verified');
});

test('a claim stays where the file that makes it is broken, or the snapshot is older than the push that makes it', async () => {
  const { domains, publish, clock, store, restarted } = await setUp({ claims: [['ten_a']] });
  await publish('ten_a');
  await domains.check('example.com', 'ten_a');
  clock.advance(2 * DAY);
  await restarted([], new Map([['example.com', 'projects/site.yml']]));
  expect(await sendingDomains(store, 'ten_a')).toEqual(['example.com']);
  const project = {
    tenant: 'ten_a',
    slug: 'site',
    name: 'Site',
    source: 'push',
    machine: null,
    file: null,
    yaml: '',
    files: {},
  } as const;
  await store.write([...putInForce(project, { was: undefined, id: 'rev_2' }, clock.now())]);
  await restarted([]);
  expect(await sendingDomains(store, 'ten_a')).toEqual(['example.com']);
});

test('mail from before a domain was taken out of service is signed, until another account has it', async () => {
  const { domains, server, wanted, clock, store, claimedBy, restarted } = await setUp({
    claims: [['ten_a'], ['ten_b']],
  });
  const keysOf = (tenant: string) => createKeyring({ store, clock, hostname: () => 'mail' })('example.com', tenant);
  const [a, b] = [await wanted('ten_a'), await wanted('ten_b')];
  server.set(a);
  await domains.check('example.com', 'ten_a');
  await claimedBy();
  expect(await sendingDomains(store, 'ten_a')).toEqual([]);
  expect(await keysOf('ten_a')).toHaveLength(1);
  expect(await keysOf('ten_b')).toEqual([]);
  server.set([...a, ...b]);
  const later = await restarted([['ten_b']]);
  await later.check('example.com', 'ten_b');
  expect(await keysOf('ten_b')).toHaveLength(1);
  expect(await keysOf('ten_a')).toEqual([]);
});

test('a clock that was ahead for one check puts off no other', async () => {
  const { domains, publish, clock, server } = await setUp();
  await publish();
  clock.advance(11 * 365 * DAY);
  await domains.checkDue();
  clock.advance(-11 * 365 * DAY);
  expect(domains.status('example.com')).toBe('verified');
  server.set([]);
  await domains.checkDue();
  expect(domains.status('example.com')).toBe('degraded');
  await publish();
  await domains.checkDue();
  expect(domains.status('example.com')).toBe('degraded');
});

test('a rotation that begins during a check is looked at soon', async () => {
  const { domains, publish, server, clock, store, hold, held } = await setUp();
  await publish();
  await domains.check('example.com');
  clock.advance(6 * HOUR);
  const release = hold(1);
  const checking = domains.checkDue();
  await expect.poll(held).toBe(1);
  await domains.rotateKeys('example.com');
  await release();
  await checking;
  const { records = [] } = (await domains.report('example.com')) ?? {};
  server.set(records.filter(({ purpose }) => purpose === 'ownership' || purpose === 'dkim'));
  clock.advance(20_000);
  await domains.checkDue();
  expect((await dkimKeysOf(store, 'example.com')).map(({ state }) => state)).toEqual(['retiring', 'active']);
});

test('the keys of a domain that is the host name are kept for all mail that is forwarded', async () => {
  const { domains, publish, server, clock, store } = await setUp({ hostname: 'example.com' });
  await publish();
  await domains.check('example.com');
  await domains.rotateKeys('example.com');
  const { records = [] } = (await domains.report('example.com')) ?? {};
  server.set(records.filter(({ purpose }) => purpose === 'ownership' || purpose === 'dkim'));
  const message = {
    kind: 'forward',
    tenant: 'ten_b',
    domain: 'elsewhere.example',
    submission: null,
    source: {},
  } as const;
  const { id, rows } = enqueue({ ...message, recipients: ['a@inbox.test'], ttl: 90 * 24 * HOUR }, clock.now());
  await store.write(rows);
  const prefix = [{ bytes: Buffer.from('x') }];
  await store.write(storePrefix(id, { sender: '', encoding: '7bit', size: 1, prefix }));
  await domains.check('example.com');
  clock.advance(8 * 24 * HOUR);
  await domains.check('example.com');
  const keys = await dkimKeysOf(store, 'example.com');
  expect(keys.map(({ state }) => state)).toEqual(['retiring', 'active']);
});
