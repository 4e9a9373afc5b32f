import { describe, expect, test } from 'vitest';
import type { HttpReply, HttpRequest } from '../../src/dns/guarded-fetch.ts';
import { type Provider, verifyCaptcha } from '../../src/forms/challenges.ts';

function answered(body: unknown, status = 200): HttpReply {
  const text = typeof body === 'string' ? body : JSON.stringify(body);
  return { kind: 'answered', status, retryAfter: undefined, text };
}

async function verify(provider: Provider, reply: HttpReply, fields: Readonly<Record<string, string>>) {
  const requests: HttpRequest[] = [];
  const request = (sent: HttpRequest) => {
    requests.push(sent);
    return Promise.resolve(reply);
  };
  const visitor = { captchas: new Map(Object.entries(fields)), ip: '192.0.2.7' };
  const verdict = await verifyCaptcha({ provider, secret: 'shh & co' }, visitor, { request });
  return { verdict, requests };
}

const FIELDS = {
  turnstile: 'cf-turnstile-response',
  hcaptcha: 'h-captcha-response',
  recaptcha: 'g-recaptcha-response',
} as const;

describe.each(['turnstile', 'hcaptcha', 'recaptcha'] as const)('%s', (provider) => {
  const fields = { [FIELDS[provider]]: ' token ' };

  test('is asked over TLS, with the secret, the answer and the visitor’s address', async () => {
    const { verdict, requests } = await verify(provider, answered({ success: true }), fields);
    expect(verdict).toEqual({ kind: 'passed' });
    expect(requests).toHaveLength(1);
    expect(requests[0]).toMatchObject({ method: 'POST', url: expect.stringMatching(/^https:.*siteverify$/) });
    const body = Object.fromEntries(new URLSearchParams(requests[0]?.body));
    expect(body).toEqual({ secret: 'shh & co', response: 'token', remoteip: '192.0.2.7' });
  });

  test('without an answer, or with one that is no answer, nobody is asked', async () => {
    const others = Object.fromEntries(
      Object.values(FIELDS)
        .filter((name) => !(name in fields))
        .map((name) => [name, 'x']),
    );
    for (const sent of [{}, { [FIELDS[provider]]: ' ' }, others]) {
      const { verdict, requests } = await verify(provider, answered({ success: true }), sent);
      expect(verdict).toEqual({ kind: 'missing' });
      expect(requests).toEqual([]);
    }
    const { verdict, requests } = await verify(provider, answered({ success: true }), {
      [FIELDS[provider]]: 'x'.repeat(5000),
    });
    expect([verdict.kind, requests]).toEqual(['failed', []]);
  });

  test.each(['invalid-input-response', 'missing-input-response', 'timeout-or-duplicate', 'expired-input-response'])(
    '%s is the visitor’s: it fails',
    async (code) => {
      const { verdict } = await verify(provider, answered({ success: false, 'error-codes': [code] }), fields);
      expect(verdict).toEqual({ kind: 'failed', reason: code });
    },
  );

  test.each([
    ['no answer', { kind: 'failed', reason: 'no answer within 5 s' } as const],
    ['an address that may not be asked', { kind: 'refused', reason: 'leads to a private network' } as const],
    ['an error page', answered('<h1>502</h1>', 502)],
    ['other JSON', answered({ ok: 1 })],
    ['a wrong secret', answered({ success: false, 'error-codes': ['invalid-input-secret'] })],
    ['a fault of its own', answered({ success: false, 'error-codes': ['internal-error'] })],
    ['no code at all', answered({ success: false })],
  ])('%s is no fault of the visitor’s', async (_, reply) => {
    expect((await verify(provider, reply, fields)).verdict.kind).toBe('unverified');
  });
});

test('a score below a half, which reCAPTCHA v3 gives robots, fails', async () => {
  const fields = { 'g-recaptcha-response': 'x' };
  expect((await verify('recaptcha', answered({ success: true, score: 0.4 }), fields)).verdict.kind).toBe('failed');
  expect((await verify('recaptcha', answered({ success: true, score: 0.5 }), fields)).verdict.kind).toBe('passed');
});
