import { expect, test } from 'vitest';
import type { ServerConfig } from '../../src/config/schema.ts';
import { silentLog } from '../../src/lib/log.ts';
import { createTlsReports, TlsSessions } from '../../src/smtp-client/tls-reports.ts';
import { testClock } from '../harness/clock.ts';
import { startTestDns } from '../harness/dns.ts';
import { configOf } from '../harness/queue.ts';
import { openTestStore } from '../harness/store.ts';

const HOUR = 3_600_000;
const DAY = 24 * HOUR;

test('two daemons make one report', async () => {
  const store = await openTestStore();
  const clock = testClock();
  const sessions = [
    new TlsSessions({ store, clock, log: silentLog }),
    new TlsSessions({ store, clock, log: silentLog }),
  ];
  const policy = { type: 'no-policy-found', strings: [], domain: 'inbox.test', hosts: [] } as const;
  const from = { host: 'mx.inbox.test', address: '192.0.2.7', local: '192.0.2.1', reason: 'no TLS' };
  for (const each of sessions) {
    each.count({ ...from, domain: 'inbox.test', policy, result: 'success' });
    each.count({ ...from, domain: 'inbox.test', policy, result: 'starttls-not-supported' });
    each.count({ ...from, domain: 'silent.test', policy, result: 'success' });
  }
  await Promise.all(sessions.map((each) => each.flush()));
  const { resolver } = await startTestDns([
    { name: '_smtp._tls.inbox.test', type: 'TXT', value: 'v=TLSRPTv1; rua=mailto:a@inbox.test,mailto:b@other.test' },
  ]);
  const http = { request: () => Promise.resolve({ kind: 'failed', reason: 'nobody asks' } as const) };
  const config = (): ServerConfig => configOf({});
  const parts = { store, clock, log: silentLog, config, resolver, http, wake: () => undefined };
  const daemons = [createTlsReports(parts), createTlsReports(parts)];
  clock.advance(DAY - HOUR);
  await Promise.all(daemons.map((make) => make()));
  expect(await store.read.selectFrom('messages').selectAll().execute()).toEqual([]);
  clock.advance(6 * HOUR);
  await Promise.all(daemons.map((make) => make()));
  const [message, ...more] = await store.read.selectFrom('messages').selectAll().execute();
  expect(more).toEqual([]);
  const source: unknown = JSON.parse(message?.source ?? '{}');
  expect(source).toMatchObject({ to: ['a@inbox.test', 'b@other.test'], domain: 'inbox.test' });
  expect(JSON.stringify(source)).toContain(
    String.raw`\"total-successful-session-count\":2,\"total-failure-session-count\":2`,
  );
  // Nobody wants to know of the other domain.
  expect(await store.read.selectFrom('tls_sessions').selectAll().execute()).toEqual([]);
});
