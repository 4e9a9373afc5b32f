/** The program trusts the machine's CA certificates for TLS to others, in each of its threads. */
import { writeFile } from 'node:fs/promises';
import { createServer } from 'node:https';
import type { AddressInfo } from 'node:net';
import { join } from 'node:path';
import { expect, onTestFinished, test } from 'vitest';
import { selfSignedCertificate } from '../../src/lib/x509.ts';
import { openAppliance } from '../harness/binary.ts';
import { startSmtpPeer } from '../harness/smtp-peer.ts';
import { temporaryFolder } from '../harness/store.ts';

test('an ACME directory and a smarthost whose authorities the machine knows are trusted', async () => {
  const own = selfSignedCertificate(['localhost'], Date.now());
  const asked: string[] = [];
  const directory = createServer(own, ({ url = '' }, response) => {
    asked.push(url);
    response.writeHead(503).end();
  });
  await new Promise<void>((done) => void directory.listen(0, 'localhost', done));
  onTestFinished(() => {
    directory.closeAllConnections();
    return new Promise((done) => void directory.close(() => done()));
  });
  const smarthost = await startSmtpPeer({ names: ['mx.inbox.test'], features: ['STARTTLS'] });
  // Where the machine has its certificates, as OpenSSL has it.
  const file = join(await temporaryFolder(), 'ca-certificates.crt');
  await writeFile(file, own.cert + smarthost.certificate);
  const { port } = directory.address() as AddressInfo;
  const appliance = await openAppliance({
    deliverTo: smarthost.port,
    env: { SSL_CERT_FILE: file },
    server: {
      tls: { mode: 'acme', acme: { directory: `https://localhost:${port}/directory` } },
      delivery: {
        allow_private_networks: true,
        retry: ['1s', '1s'],
        relay: { host: 'mx.inbox.test', port: smarthost.port, tls: 'required' },
      },
    },
  });
  const run = await appliance.startVerified();
  // In the main thread.
  await expect.poll(() => asked).toContain('/directory');
  const body = new URLSearchParams({ message: 'Hello' });
  expect((await fetch(appliance.formUrl, { method: 'POST', body, redirect: 'manual' })).status).toBeLessThan(400);
  // In the delivery thread.
  await expect.poll(() => smarthost.messages).toHaveLength(1);
  expect(smarthost.messages[0]).toMatchObject({ tls: true });
  await run.end('SIGTERM');
});
