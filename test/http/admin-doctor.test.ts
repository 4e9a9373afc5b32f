import { expect, test } from 'vitest';
import { startHttp } from '../harness/http.ts';

async function ask(query: string) {
  const inquiries: object[] = [];
  const doctor = (inquiry: object) => {
    inquiries.push(inquiry);
    return Promise.resolve({ checks: [{ name: 'clock', status: 'failed', found: 'no' } as const], ok: false });
  };
  const http = await startHttp({ options: { doctor } });
  const answer = await http.request(`/admin/doctor${query}`, { local: true });
  return { answer, inquiries };
}

test.each([
  ['', { dnsbl: [], port25: undefined }],
  ['?dnsbl=ZEN.lists.test', { dnsbl: ['zen.lists.test'], port25: undefined }],
  ['?dnsbl=a.test&dnsbl=b.test&port25=mx.test:2525', { dnsbl: ['a.test', 'b.test'], port25: 'mx.test:2525' }],
  ['?port25=[2001:db8::1]', { dnsbl: [], port25: '[2001:db8::1]' }],
])('what is asked, and what is answered: %s', async (query, inquiry) => {
  const { answer, inquiries } = await ask(query);
  expect(inquiries).toEqual([inquiry]);
  expect(answer.status).toBe(200);
  expect(answer.json()).toEqual({ checks: [{ name: 'clock', status: 'failed', found: 'no' }], ok: false });
});

test.each([
  ['?dnsbl=no%20zone', 'must be a zone such as zen.spamhaus.org'],
  ['?port25=http://mx.test/', 'must be a host or host:port'],
  ['?port25=mx.test:99999', 'must name a port up to 65535'],
  [`?${Array.from({ length: 21 }, (_, i) => `dnsbl=z${i}.test`).join('&')}`, 'must be at most 20 zones'],
])('what makes no sense is refused: %s', async (query, words) => {
  const { answer, inquiries } = await ask(query);
  expect([answer.status, inquiries]).toEqual([400, []]);
  expect(answer.text).toContain(words);
});
