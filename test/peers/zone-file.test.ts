import { expect, onTestFinished, test } from 'vitest';
import type { DnsRecord } from '../../src/cli/dns-records.ts';
import { zoneText } from '../../src/lib/zone-file.ts';
import { createResolver } from '../../src/dns/resolver.ts';
import { freePort } from '../harness/child.ts';
import { startNsd } from '../harness/nsd.ts';

test('NSD serves the zone file of a domain with the values that were meant', async () => {
  const key = `v=DKIM1; k=rsa; p=${'A'.repeat(392)}`;
  const odd = 'a"quote\\and é';
  const given = { required: true, status: 'missing', found: [] } satisfies Partial<DnsRecord>;
  const records: DnsRecord[] = [
    { ...given, purpose: 'ownership', type: 'TXT', name: '_postern.example.com', value: odd },
    { ...given, purpose: 'dkim', type: 'TXT', name: 'postern._domainkey.example.com', value: key },
    {
      ...given,
      purpose: 'spf',
      type: 'TXT',
      name: 'example.com',
      value: 'v=spf1 -all',
      status: 'wrong',
      found: ['x\ny'],
    },
    { ...given, purpose: 'inbound', type: 'MX', name: 'example.com', value: '10 mail.example.net.' },
    { ...given, purpose: 'mta_sts', type: 'CNAME', name: 'mta-sts.example.com', value: 'mail.example.net.' },
    { ...given, purpose: 'dmarc', type: 'TXT', name: '_dmarc.example.com', value: 'v=DMARC1', status: 'ok' },
  ];
  const lines = zoneText({ domain: 'example.com', records }).split('\n');
  const nsd = await startNsd({ port: await freePort(), zones: { 'example.com': lines }, expired: [] });
  onTestFinished(() => nsd.close());
  const resolver = createResolver({ servers: [nsd.address], timeoutMs: 2000 });
  expect(await resolver.txt('_postern.example.com')).toMatchObject({ kind: 'found', records: [odd] });
  expect(await resolver.txt('postern._domainkey.example.com')).toMatchObject({ kind: 'found', records: [key] });
  expect(await resolver.txt('example.com')).toMatchObject({ kind: 'found', records: ['v=spf1 -all'] });
  expect(await resolver.txt('_dmarc.example.com')).toMatchObject({ kind: 'nxdomain' });
  expect(await resolver.mx('example.com')).toMatchObject({ records: [{ exchange: 'mail.example.net' }] });
  const alias = await resolver.lookup('mta-sts.example.com', 'CNAME');
  expect(alias).toMatchObject({ kind: 'found', records: ['mail.example.net'] });
});
