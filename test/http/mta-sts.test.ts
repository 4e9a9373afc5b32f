import { expect, test } from 'vitest';
import { startHttp } from '../harness/http.ts';

const FORWARDING = { domain: { forwarding: { 'info@example.com': 'ana@inbox.test' } } };
const TLS = { mode: 'files', files: { cert: 'cert.pem', key: 'key.pem' } };

async function policy(given: Parameters<typeof startHttp>[0], host: string) {
  const http = await startHttp(given);
  return http.request('/.well-known/mta-sts.txt', { headers: { host } });
}

test('a domain whose mail comes here has a policy at its mta-sts name (RFC 8461 §3.2)', async () => {
  const answer = await policy({ ...FORWARDING, tls: TLS }, 'MTA-STS.example.com:443');
  expect(answer.status).toBe(200);
  expect(answer.headers['content-type']).toBe('text/plain; charset=utf-8');
  expect(answer.text).toBe('version: STSv1\r\nmode: enforce\r\nmx: mail.example.net\r\nmax_age: 604800\r\n');
});

test.each<[string, Parameters<typeof startHttp>[0], string]>([
  ['a domain that is not ours', { ...FORWARDING, tls: TLS }, 'mta-sts.other.test'],
  ['another name of the domain', { ...FORWARDING, tls: TLS }, 'example.com'],
  ['a domain whose mail goes elsewhere', { tls: TLS }, 'mta-sts.example.com'],
  ['a server that takes mail in clear text alone', FORWARDING, 'mta-sts.example.com'],
])('there is none for %s', async (_what, given, host) => {
  const answer = await policy(given, host);
  expect(answer.status).toBe(404);
  expect(answer.json()).toMatchObject({ error: 'There is no MTA-STS policy for this host.' });
});
