import { expect, test } from 'vitest';
import { Webhook } from 'standardwebhooks';
import { newSecret, signatures } from '../../src/events/post.ts';

const body = '{"type":"domain.verified","data":{"text":"ä €"}}';
const now = () => Math.floor(Date.now() / 1000);
const headers = (timestamp: number, signature: string) => ({
  'webhook-id': 'whd_1',
  'webhook-timestamp': String(timestamp),
  'webhook-signature': signature,
});

test('the verifier that the specification publishes accepts it', () => {
  const secret = newSecret();
  expect(secret).toMatch(/^whsec_[A-Za-z0-9+/]{43}=$/);
  const timestamp = now();
  const signature = signatures([secret], { id: 'whd_1', timestamp, body });
  expect(new Webhook(secret).verify(body, headers(timestamp, signature))).toEqual(JSON.parse(body));
});

test('while a secret is replaced either one verifies, and no other', () => {
  const [before, after, other] = [newSecret(), newSecret(), newSecret()] as const;
  const timestamp = now();
  const signature = signatures([after, before], { id: 'whd_1', timestamp, body });
  for (const secret of [before, after])
    expect(new Webhook(secret).verify(body, headers(timestamp, signature))).toBeTruthy();
  expect(() => new Webhook(other).verify(body, headers(timestamp, signature))).toThrow('No matching signature');
  expect(() => new Webhook(after).verify(body.replace('ä', 'a'), headers(timestamp, signature))).toThrow('No matching');
  expect(() => new Webhook(after).verify(body, headers(timestamp + 1, signature))).toThrow('No matching');
});
