/** `postern console` and `postern auth totp`, against the HTTP server and its Unix socket. */
import { expect, test } from 'vitest';
import { codeAt } from '../../src/accounts/totp.ts';
import { testBrowser } from '../harness/browser-session.ts';
import { startHttp } from '../harness/http.ts';
import { testKey } from '../harness/keys.ts';
import { person } from './cli-world.ts';

const STEP_MS = 30_000;
const codeNow = (secret: string, steps = 0) => codeAt(secret, Math.floor(Date.now() / STEP_MS) + steps);

test('console prints a link that signs in as the operator, and says how to reach a server without HTTPS', async () => {
  const http = await startHttp();
  const root = await person({ POSTERN_URL: `unix:${http.socket}` });
  const said = await root.say(['console']);
  expect(said).toMatchObject({
    code: 0,
    out: expect.stringMatching(/^http:\/\/localhost:\d+\/console\/sign-in#[\w-]{43}\n$/),
    err: expect.stringMatching(/^The link signs you in as the operator\. .*\n.*ssh -L /s),
  });
  const [, token = ''] = /#([\w-]{43})/.exec(said.out) ?? [];
  const browser = testBrowser(http);
  const signedIn = await browser.request('/auth/session', { body: { token } });
  expect(signedIn.json()).toEqual({ state: 'signed_in' });
});

test('console needs no more words where there is HTTPS, and no key gets a link', async () => {
  const http = await startHttp({ server: { http: { listen: ['127.0.0.1:0'], base_url: 'https://mail.example.net' } } });
  const root = await person({ POSTERN_URL: `unix:${http.socket}` });
  const said = await root.say(['console']);
  expect(said.out).toMatch(/^https:\/\/mail\.example\.net\/console\/sign-in#/);
  expect(said.err).not.toContain('ssh');
  const { value } = await testKey(http.store, { permissions: ['admin'] });
  const other = await person({ POSTERN_URL: http.base, POSTERN_API_KEY: value });
  expect(await other.say(['console'])).toMatchObject({ code: 1, out: '', err: expect.stringContaining('Unix socket') });
});

test('auth totp shows a secret, takes a code, and ends with one', async () => {
  const http = await startHttp();
  const { value } = await testKey(http.store);
  const ana = await person({ POSTERN_URL: http.base, POSTERN_API_KEY: value });
  const begun = await ana.say(['auth', 'totp']);
  expect(begun).toMatchObject({ code: 0, err: expect.stringContaining('postern auth totp --code CODE') });
  const [, secret = ''] = /^secret +([A-Z2-7]{32})$/m.exec(begun.out) ?? [];
  expect(begun.out).toMatch(/^uri +otpauth:\/\/totp\//m);
  expect(await ana.say(['auth', 'totp', '--code', '000000'])).toMatchObject({
    code: 1,
    err: expect.stringContaining('The code is not correct'),
  });
  const confirmed = await ana.say(['auth', 'totp', '--code', codeNow(secret)]);
  expect(confirmed).toMatchObject({ code: 0, err: expect.stringContaining('Save these recovery codes now') });
  const recovery = confirmed.out.trim().split('\n');
  expect(recovery).toHaveLength(10);
  expect(await ana.say(['auth', 'totp'])).toMatchObject({ code: 1, err: expect.stringContaining('already set up') });
  expect(await ana.say(['auth', 'totp', '--remove'])).toMatchObject({ code: 1, err: expect.stringContaining('code') });
  expect(await ana.say(['auth', 'totp', '--remove', '--code', recovery[0] ?? ''])).toMatchObject({
    code: 0,
    out: 'Signing in no longer requires a code.\n',
  });
});

test('auth totp asks a person at a terminal for the code', async () => {
  const http = await startHttp();
  const { value } = await testKey(http.store);
  const ana = await person({ POSTERN_URL: http.base, POSTERN_API_KEY: value });
  const said = await ana.say(['auth', 'totp'], { answers: ['not a code'] });
  expect(said).toMatchObject({ code: 1, err: expect.stringContaining('The code is not correct') });
});
