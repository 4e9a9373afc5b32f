import { expect, test } from 'vitest';
import { hostOwner } from '../../src/domains/dkim-keys.ts';
import { adoptHostKey, createHostKeys, hostRecords, rotateKeys } from '../../src/domains/rotation.ts';
import { serverSchema } from '../../src/config/schema-server.ts';
import { buildSnapshot } from '../../src/config/snapshot.ts';
import { dkimKeysOf } from '../../src/store/dkim-keys.ts';
import { silentLog } from '../../src/lib/log.ts';
import { testClock } from '../harness/clock.ts';
import { startTestDns } from '../harness/dns.ts';
import { openTestStore } from '../harness/store.ts';

test('the host name gets one key, however often and by however many daemons it is asked for', async () => {
  const store = await openTestStore();
  const clock = testClock();
  await Promise.all([
    adoptHostKey({ store, clock, log: silentLog }, 'mail.example.net'),
    adoptHostKey({ store, clock, log: silentLog }, 'mail.example.net'),
  ]);
  const [key, ...others] = await dkimKeysOf(store, 'mail.example.net');
  expect(key).toMatchObject({ selector: 'postern', algorithm: 'rsa' });
  expect(others).toEqual([]);
  await adoptHostKey({ store, clock, log: silentLog }, 'mail.example.net');
  expect(await dkimKeysOf(store, 'mail.example.net')).toEqual([key]);
});

test('another host name gets a key of its own', async () => {
  const store = await openTestStore();
  const clock = testClock();
  await adoptHostKey({ store, clock, log: silentLog }, 'mail.example.net');
  await adoptHostKey({ store, clock, log: silentLog }, 'mx.example.net');
  expect(await hostRecords(store, 'mx.example.net')).toEqual([
    {
      purpose: 'dkim',
      name: 'postern._domainkey.mx.example.net',
      type: 'TXT',
      value: expect.stringMatching(/^v=DKIM1; k=rsa; p=\S+$/),
      required: true,
    },
  ]);
});

test('a clock that was ahead for one check puts off no other', async () => {
  const store = await openTestStore();
  const { server: zone, resolver } = await startTestDns([]);
  const real = testClock();
  let ahead = 11 * 365 * 86_400_000;
  const clock = { ...real, now: () => real.now() + ahead };
  const parts = { store, clock, log: silentLog };
  const server = serverSchema.parse({ server: { hostname: 'mail.example.net', operator: 'ops@example.net' } });
  const snapshot = buildSnapshot({ server, projects: [] });
  await adoptHostKey(parts, 'mail.example.net');
  const hostKeys = createHostKeys({ ...parts, resolver, snapshot: () => snapshot });
  await hostKeys.checkDue();
  ahead = 0;
  // As another daemon does it.
  await rotateKeys(parts, hostOwner('mail.example.net'));
  zone.set(await hostRecords(store, 'mail.example.net'));
  real.advance(server.dns.recheck);
  await hostKeys.checkDue();
  expect((await dkimKeysOf(store, 'mail.example.net')).map(({ state }) => state).sort()).toEqual([
    'active',
    'retiring',
  ]);
});
