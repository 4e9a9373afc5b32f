import { expect, test } from 'vitest';
import type { Letter } from '../../src/access/domain-letters.ts';
import { createDomains } from '../../src/access/domains.ts';
import { projectSchema, serverSchema } from '../../src/config/schema.ts';
import type { Domain, Snapshot } from '../../src/config/snapshot.ts';
import { silentLog } from '../../src/lib/log.ts';
import { systemMail } from '../../src/queue/system-mail.ts';
import { OPERATOR } from '../../src/store/revisions.ts';
import { testClock } from '../harness/clock.ts';
import { startTestDns } from '../harness/dns.ts';
import { openTestStore } from '../harness/store.ts';

const HOUR = 3600_000;

async function setUp(algorithms: ('rsa' | 'ed25519')[] = ['rsa']) {
  const server = serverSchema.parse({ server: { hostname: 'mail.example.net', operator: 'ops@example.net' } });
  const config = projectSchema.parse({
    project: { name: 'Site', slug: 'site' },
    domains: { 'example.com': { dkim: { algorithms } } },
  });
  const project = { revision: 'rev_1', slug: 'site', tenant: OPERATOR, source: 'file', config } as const;
  const domainConfig = config.domains['example.com'];
  if (domainConfig === undefined) throw new Error('no domain');
  const domain: Domain = { name: 'example.com', project, config: domainConfig, forms: new Map() };
  const snapshot: Snapshot = {
    server,
    projects: [project],
    domains: new Map([['example.com', domain]]),
    claims: new Map([[`${OPERATOR} example.com`, domain]]),
    collections: new Map(),
    unavailable: new Map(),
    problems: [],
  };
  const dns = await startTestDns([]);
  const store = await openTestStore();
  const clock = testClock();
  const options = {
    store,
    resolver: dns.resolver,
    clock,
    log: silentLog,
    snapshot: () => snapshot,
    letter: (letter: Letter) => systemMail(letter, 'mail.example.net', clock.now()),
    onTransition: () => Promise.resolve(),
  };
  const domains = createDomains(options);
  await domains.adopt();
  const publish = async () => {
    const { records } = (await domains.report('example.com')) ?? { records: [] };
    dns.server.set(records.filter((record) => record.required));
  };
  return { ...dns, store, clock, domains, publish, again: () => createDomains(options) };
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
  const { domains, publish, again } = await setUp(['rsa', 'ed25519']);
  await publish();
  await domains.check('example.com');
  const before = await domains.report('example.com');
  expect(before?.records.map(({ name }) => name)).toContain('postern-ed25519._domainkey.example.com');
  const restarted = again();
  await restarted.adopt();
  expect(restarted.status('example.com')).toBe('verified');
  expect(await restarted.report('example.com')).toEqual(before);
});
