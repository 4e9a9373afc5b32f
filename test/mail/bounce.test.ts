import { createSecretKey } from 'node:crypto';
import fc from 'fast-check';
import { expect, test } from 'vitest';
import { parseAddress } from '../../src/lib/addresses.ts';
import { newId } from '../../src/lib/ids.ts';
import { openReturnPath, returnPath } from '../../src/mail/own-addresses.ts';

const secret = createSecretKey(Buffer.alloc(32, 7));
const hostname = 'mail.example.net';

test('a return path is a plain address at the host that leads back to its message', () => {
  fc.assert(
    fc.property(fc.nat({ max: 2 ** 47 }), fc.uint8Array({ minLength: 32, maxLength: 32 }), (time, bytes) => {
      const key = createSecretKey(bytes);
      const id = newId('msg', time);
      const address = returnPath(id, { secret: key, hostname });
      expect(parseAddress(address)).toMatchObject({ domain: hostname });
      expect(openReturnPath(address, key)).toBe(id);
      expect(openReturnPath(address.toUpperCase(), key)).toBe(id);
    }),
  );
});

test('no character of it can be changed, and another secret opens nothing', () => {
  const id = newId('msg', 1_700_000_000_000);
  const address = returnPath(id, { secret, hostname });
  const local = address.indexOf('@');
  for (let i = 2; i < local; i++) {
    const other = address[i] === 'a' ? 'b' : 'a';
    expect(openReturnPath(address.slice(0, i) + other + address.slice(i + 1), secret)).toBeUndefined();
  }
  expect(openReturnPath(address, createSecretKey(Buffer.alloc(32, 8)))).toBeUndefined();
});

test.each(['', 'b+@mail.example.net', 'someone@example.com', 'b+0123456789abcdefghjkmnpqrs@mail.example.net', '<>'])(
  'what is no return path of ours opens nothing: %j',
  (address) => {
    expect(openReturnPath(address, secret)).toBeUndefined();
  },
);
