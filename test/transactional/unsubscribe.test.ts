import { createSecretKey } from 'node:crypto';
import fc from 'fast-check';
import { expect, test } from 'vitest';
import { openUnsubscribeToken, unsubscribeToken } from '../../src/transactional/unsubscribe.ts';

const key = createSecretKey(Buffer.alloc(32, 1));

test('a token gives back whose mail and to whom; a token with any other character is none', () => {
  const address = fc.stringMatching(/^[a-zä+]{1,60}@[a-z]{1,60}\.example$/u);
  fc.assert(
    fc.property(address, fc.nat(), (to, at) => {
      const token = unsubscribeToken({ tenant: 'ten_01', address: to }, key);
      expect(openUnsubscribeToken(token, key)).toEqual({ tenant: 'ten_01', address: to });
      const place = at % token.length;
      const other = token.at(place) === 'A' ? 'B' : 'A';
      expect(openUnsubscribeToken(token.slice(0, place) + other + token.slice(place + 1), key)).toBeUndefined();
    }),
  );
});

test.each(['', '.', 'x', 'x.y', `${'A'.repeat(10_000)}.${'A'.repeat(22)}`])('%j is none', (token) => {
  expect(openUnsubscribeToken(token, key)).toBeUndefined();
});
