import { expect, test, vi } from 'vitest';
import type { Answer, MxRecord } from '../../src/dns/resolver.ts';
import { refusesMail } from '../../src/dns/mx.ts';

const failed = { kind: 'failed', reason: 'SERVFAIL' } as const;
const nodata = { kind: 'nodata' } as const;
const nxdomain = { kind: 'nxdomain' } as const;
const host = { kind: 'found', records: ['192.0.2.1'] } as const;
const mx = (...names: string[]): Answer<MxRecord> => ({
  kind: 'found',
  records: names.map((exchange) => ({ preference: 0, exchange })),
});

test.each<[string, Answer<MxRecord>, Answer<string>, boolean]>([
  ['a mail host', mx('mx.example'), nodata, false],
  ['a null MX', mx(''), host, true],
  ['a null MX beside another', mx('', 'mx.example'), nodata, false],
  ['no MX, but an address', nodata, host, false],
  ['neither', nodata, nodata, true],
  ['neither, and the name is gone', nodata, nxdomain, true],
  ['no such name', nxdomain, nodata, true],
  ['a server that fails', failed, nodata, false],
  ['no MX, and then a server that fails', nodata, failed, false],
])('%s', async (_, mxAnswer, addresses, refuses) => {
  const resolver = { mx: () => Promise.resolve(mxAnswer), addresses: () => Promise.resolve(addresses) };
  expect(await refusesMail('example.org', resolver)).toBe(refuses);
});

test('a server that says nothing keeps nobody waiting, and proves nothing', async () => {
  vi.useFakeTimers();
  try {
    const silent = { mx: () => new Promise<never>(() => undefined), addresses: () => Promise.resolve(nodata) };
    const asked = refusesMail('example.org', silent);
    await vi.advanceTimersByTimeAsync(1500);
    expect(await asked).toBe(false);
  } finally {
    vi.useRealTimers();
  }
});
