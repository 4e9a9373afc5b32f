import { expect, test } from 'vitest';
import { adoptHostKey, hostRecords } from '../../src/access/host-key.ts';
import { dkimKeysOf } from '../../src/store/dkim-keys.ts';
import { silentLog } from '../../src/lib/log.ts';
import { testClock } from '../harness/clock.ts';
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
