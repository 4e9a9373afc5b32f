/** What forms ask of pages, in the whole daemon: across its restart, and with a provider of captchas on a real socket. */
import { once } from 'node:events';
import { createServer, type RequestListener } from 'node:http';
import { describe, expect, onTestFinished, test } from 'vitest';
import { createHttpClient } from '../../src/dns/guarded-fetch.ts';
import { startDaemon } from '../../src/daemon/daemon.ts';
import { startTestWorld, type TestWorld } from '../harness/daemon.ts';
import { proofOf } from '../harness/proof.ts';

const PROJECT = `
project: { name: Site, slug: site, owner: owner@inbox.test }
domains:
  example.test:
    forms:
      proved: { to: owner@inbox.test, spam_protection: { challenge: pow } }
      captcha:
        to: owner@inbox.test
        spam_protection: { challenge: { provider: hcaptcha, secret: the-secret } }
`;
const JSON_WANTED = { Accept: 'application/json' };

async function codeOf(response: Response): Promise<unknown> {
  const { errors } = (await response.json()) as { errors?: { code: string }[] };
  return errors?.[0]?.code;
}

test('proof of work is good once, also after a restart', async () => {
  const world = await startTestWorld({ projects: { 'site.yml': PROJECT }, asInProduction: true });
  async function prove(): Promise<string> {
    const asked = await fetch(`${world.url}/challenge?form=/example.test/proved`);
    return proofOf((await asked.json()) as Parameters<typeof proofOf>[0]);
  }
  const [first, second] = [await prove(), await prove()];
  const send = (url: string, answer: string) =>
    fetch(`${url}/example.test/proved`, {
      method: 'POST',
      headers: JSON_WANTED,
      body: new URLSearchParams({ message: 'Hello', _challenge: answer }),
    });
  expect((await send(world.url, first)).status).toBe(200);
  await world.daemon.close();
  const again = await startDaemon(`${world.folder}/server.yml`);
  onTestFinished(() => again.close());
  const url = `http://127.0.0.1:${again.addresses?.tcp[0]?.port ?? 0}`;
  expect(await codeOf(await send(url, first))).toBe('CHALLENGE_FAILED');
  expect((await send(url, second)).status).toBe(200);
});

describe('a captcha', () => {
  async function startWith(provider: RequestListener): Promise<TestWorld> {
    const server = createServer(provider).listen(0, '127.0.0.1');
    await once(server, 'listening');
    onTestFinished(() => {
      server.close();
      server.closeAllConnections();
    });
    const address = server.address();
    const port = typeof address === 'object' ? address?.port : undefined;
    const client = createHttpClient({
      resolver: { addresses: () => Promise.resolve({ kind: 'nxdomain' }) },
      userAgent: 'Postern/test',
      allowPrivate: () => true,
      wholeMs: 500,
    });
    const http = {
      request: (request: Parameters<typeof client.request>[0]) =>
        client.request({ ...request, url: `http://127.0.0.1:${port}${new URL(request.url).pathname}` }),
    };
    return startTestWorld({ projects: { 'site.yml': PROJECT }, parts: { http } });
  }

  const sent = { message: 'Hello', 'h-captcha-response': 'from-the-widget' };

  test('is what its provider says', async () => {
    const world = await startWith((request, response) => {
      let body = '';
      request.on('data', (chunk) => (body += String(chunk)));
      request.on('end', () => {
        const isGood = new URLSearchParams(body).get('response') === 'from-the-widget';
        response.end(
          JSON.stringify(isGood ? { success: true } : { success: false, 'error-codes': ['invalid-input-response'] }),
        );
      });
    });
    expect((await world.post('/example.test/captcha', sent, JSON_WANTED)).status).toBe(200);
    const wrong = { ...sent, 'h-captcha-response': 'made up' };
    expect(await codeOf(await world.post('/example.test/captcha', wrong, JSON_WANTED))).toBe('CHALLENGE_FAILED');
    expect(await codeOf(await world.post('/example.test/captcha', { message: 'Hi' }, JSON_WANTED))).toBe(
      'CHALLENGE_REQUIRED',
    );
    expect((await world.caught(1)).list()).toHaveLength(1);
  });

  test('loses no lead where its provider never answers', async () => {
    const world = await startWith(() => undefined);
    expect((await world.post('/example.test/captcha', sent, JSON_WANTED)).status).toBe(200);
    await world.caught(1);
  });
});
