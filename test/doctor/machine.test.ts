import { join } from 'node:path';
import { describe, expect, test } from 'vitest';
import { serverSchema } from '../../src/config/schema-server.ts';
import { buildSnapshot } from '../../src/config/snapshot.ts';
import {
  checkClock,
  checkConfiguration,
  checkDatabase,
  checkDisk,
  checkQueue,
  checkResolver,
  type Machine,
} from '../../src/doctor/machine.ts';
import { createDoctor } from '../../src/doctor/doctor.ts';
import { enqueue } from '../../src/queue/enqueue.ts';
import { recordEvent } from '../../src/store/events.ts';
import { OPERATOR, saveOperator } from '../../src/store/tenants.ts';
import { testClock } from '../harness/clock.ts';
import { startTestDns } from '../harness/dns.ts';
import type { ZoneRecord } from '../../src/dev/dns-server.ts';
import { openTestStore, temporaryFolder } from '../harness/store.ts';

const MINUTE = 60_000;

interface Setting {
  readonly limits?: object;
  readonly zone?: readonly ZoneRecord[];
  readonly queueProblem?: string;
}

async function machine({ limits = {}, zone = [], queueProblem }: Setting = {}) {
  const clock = testClock();
  const store = await openTestStore();
  await saveOperator(store, 'ops@example.net', clock.now());
  const { resolver } = await startTestDns(zone);
  const server = serverSchema.parse({ server: { hostname: 'mail.example.net', operator: 'ops@example.net' }, limits });
  const snapshot = buildSnapshot({ server, projects: [] });
  const databaseFile = join(await temporaryFolder(), 'postern.db');
  const parts: Machine = {
    store,
    clock,
    resolver,
    databaseFile,
    snapshot: () => snapshot,
    queueProblem: () => queueProblem,
    forwardedBy: () => [],
  };
  return { ...parts, clock };
}

describe('the clock', () => {
  test.each([
    ['behind what happened', 10 * MINUTE, 'failed'],
    ['a moment behind another daemon', MINUTE / 2, 'ok'],
    ['right', -MINUTE, 'ok'],
  ])('%s', async (_what, ahead, status) => {
    const parts = await machine();
    const at = parts.clock.now() + ahead;
    await parts.store.write([recordEvent({ type: 'config.pushed', tenant: OPERATOR, at, data: {} })]);
    expect(await checkClock(parts)).toMatchObject({ status });
  });
});

describe('the disk', () => {
  test.each([
    ['has room', '1B', 'ok'],
    ['has too little', '1000000GiB', 'failed'],
  ])('%s', async (_what, free_disk, status) => {
    expect(await checkDisk(await machine({ limits: { free_disk } }))).toMatchObject({ status });
  });

  test('is the database server’s own', async () => {
    expect(await checkDisk({ ...(await machine()), databaseFile: undefined })).toEqual([]);
  });
});

test('a database that takes no writes', async () => {
  const parts = await machine();
  expect(await checkDatabase(parts)).toMatchObject({ status: 'ok' });
  const store = { ...parts.store, write: () => Promise.reject(new Error('attempt to write a readonly database')) };
  expect(await checkDatabase({ ...parts, store })).toMatchObject({
    status: 'failed',
    found: 'attempt to write a readonly database',
  });
});

describe('the queue', () => {
  test('moves, is late, is held up', async () => {
    const parts = await machine();
    const mail = {
      kind: 'system',
      submission: null,
      domain: 'mail.example.net',
      source: {},
      ttl: 60 * MINUTE,
    } as const;
    const { unit } = enqueue({ ...mail, tenant: OPERATOR, recipients: ['a@one.example'] }, parts.clock.now());
    await parts.store.write(unit);
    expect(await checkQueue(parts)).toMatchObject({
      status: 'ok',
      found: expect.stringMatching(/^1 delivery waiting, /),
    });
    parts.clock.advance(11 * MINUTE);
    expect(await checkQueue(parts)).toMatchObject({ status: 'failed', found: expect.stringContaining('660 s') });
  });

  test('a thread that is silent', async () => {
    const found = await checkQueue(await machine({ queueProblem: 'the delivery thread is silent' }));
    expect(found).toMatchObject({ status: 'failed', found: 'the delivery thread is silent' });
  });
});

test('a resolver that answers nothing', async () => {
  const silent = await machine({ zone: [{ name: '*', fault: 'SERVFAIL' }] });
  expect(await checkResolver(silent)).toMatchObject({
    status: 'failed',
    advice: expect.stringContaining('dns.servers'),
  });
  expect(await checkResolver(await machine())).toMatchObject({ status: 'ok' });
});

test('limits that contradict each other', async () => {
  const parts = await machine({ limits: { body: '1MiB' } });
  expect(checkConfiguration(parts)).toMatchObject([
    {
      status: 'warning',
      found: 'limits.files_total is more than limits.body lets in',
      advice: 'To see the file and line, run postern config check.',
    },
  ]);
});

test('a database that cannot be read keeps nobody from being told of the rest', async () => {
  const parts = await machine();
  const store = { ...parts.store, select: () => Promise.reject(new Error('disk I/O error')) };
  const { checks, ok } = await createDoctor({ ...parts, store })({ dnsbl: [], port25: undefined });
  expect(ok).toBe(false);
  expect(checks).toContainEqual({ name: 'host_dkim', status: 'unknown', found: 'disk I/O error' });
  expect(checks).toContainEqual(expect.objectContaining({ name: 'resolver', status: 'ok' }));
  expect(checks).toContainEqual(expect.objectContaining({ name: 'certificate', status: 'warning' }));
});
