/** What serves the MTA-STS policy of a domain over HTTPS, on loopback, with a certificate that this process trusts. */
import { once } from 'node:events';
import { createServer } from 'node:https';
import type { AddressInfo } from 'node:net';
import { getCACertificates, setDefaultCACertificates } from 'node:tls';
import { onTestFinished } from 'vitest';
import { selfSignedCertificate } from '../../src/dev/certificate.ts';
import { createPolicyFetch } from '../../src/dns/guarded-fetch.ts';
import type { FetchedPolicy } from '../../src/dns/mta-sts.ts';

export interface PolicyServer {
  /** What it answers from now on; null: it hangs up. */
  answer: { status?: number; type?: string; text: string; location?: string } | null;
  /** How often it was asked. */
  requests(): number;
  /** The product's own, at this server's port: a test cannot have the one of HTTPS. */
  readonly fetchPolicy: (url: string) => Promise<FetchedPolicy>;
}

/** The lines of a policy. */
export function policy(mode: string, mx: readonly string[], maxAge = 604_800): string {
  return ['version: STSv1', `mode: ${mode}`, ...mx.map((host) => `mx: ${host}`), `max_age: ${maxAge}`, ''].join('\r\n');
}

/** `name` is whom the certificate is for; ends with the test. */
export async function startPolicyServer(name = 'mta-sts.example.test'): Promise<PolicyServer> {
  const { key, cert } = selfSignedCertificate([name], Date.now());
  const trusted = getCACertificates('default');
  setDefaultCACertificates([...trusted, cert]);
  let requests = 0;
  const self: { answer: PolicyServer['answer'] } = { answer: { text: policy('enforce', ['mx.example.test']) } };
  const server = createServer({ key, cert }, (request, response) => {
    requests++;
    if (self.answer === null || request.url !== '/.well-known/mta-sts.txt') return void request.socket.destroy();
    const { status = 200, type = 'text/plain; charset=utf-8', text, location } = self.answer;
    response.writeHead(status, { 'Content-Type': type, ...(location === undefined ? {} : { Location: location }) });
    response.end(text);
  });
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  onTestFinished(() => {
    setDefaultCACertificates(trusted);
    server.closeAllConnections();
    server.close();
  });
  const { port } = server.address() as AddressInfo;
  const fetchPolicy = createPolicyFetch({
    resolver: { addresses: () => Promise.resolve({ kind: 'found', records: ['127.0.0.1'] }) },
    userAgent: 'Postern/test',
    allowPrivate: () => true,
  });
  return Object.assign(self, {
    requests: () => requests,
    fetchPolicy: (url: string) => fetchPolicy(url.replace('/.well-known', `:${port}/.well-known`)),
  });
}
