import { simpleParser } from 'mailparser';
import { expect, test } from 'vitest';
import type { AdjustableLog, Fields } from '../../src/lib/log.ts';
import { startTestWorld } from '../harness/daemon.ts';

/** A log that keeps what it is told, whatever the configuration says. */
function keptLog(): AdjustableLog & { readonly text: () => string } {
  const lines: string[] = [];
  const keep = (event: string, fields: Fields = {}) => void lines.push(JSON.stringify({ event, ...fields }));
  return { debug: keep, info: keep, warn: keep, error: keep, adjust: () => undefined, text: () => lines.join('\n') };
}

test('a stranger signs up, follows the link that was mailed, and works with the key; no secret is logged', async () => {
  const log = keptLog();
  const world = await startTestWorld({
    server: { server: { signup: 'open', http: { listen: ['127.0.0.1:0'], base_url: 'https://mail.postern.test' } } },
    parts: { log },
  });
  const signed = await fetch(`${world.url}/signup`, {
    method: 'POST',
    headers: { 'Content-Type': 'application/json' },
    body: JSON.stringify({ name: 'Nina', email: 'nina@inbox.test' }),
  });
  const { key } = (await signed.json()) as { key: string };
  const status = () => fetch(`${world.url}/v1/auth/status`, { headers: { Authorization: `Bearer ${key}` } });
  expect((await status()).status).toBe(403);

  const mails = await world.caught(1);
  const [caught] = mails.list();
  if (caught === undefined) throw new Error('nothing was caught');
  expect(caught).toMatchObject({
    envelope: { to: ['nina@inbox.test'] },
    verdicts: { dkim: [{ domain: 'mail.postern.test' }] },
  });
  const mail = await simpleParser(await mails.source(caught));
  expect(mail.subject).toBe('Confirm your account on mail.postern.test');
  expect(mail.headers.get('auto-submitted')).toBe('auto-generated');
  const token = /https:\/\/mail\.postern\.test\/confirm\/(\S+)/.exec(mail.text ?? '')?.[1] ?? '';
  const link = `${world.url}/confirm/${token}`;
  expect(await (await fetch(link)).text()).toContain('<button>Confirm the account</button>');
  expect((await fetch(link, { method: 'DELETE' })).status).toBe(405);
  expect((await status()).status).toBe(403);
  expect(await (await fetch(link, { method: 'POST' })).text()).toContain('Your account is confirmed');
  expect(await (await status()).json()).toMatchObject({ tenant: { name: 'Nina', plan: 'free' } });

  await world.daemon.close();
  expect(log.text()).toContain('daemon.ready');
  expect(log.text()).toContain('http.refused');
  expect(log.text()).not.toContain(key.slice('svc_sk_live_'.length, -4));
  expect(log.text()).not.toContain(token);
});
