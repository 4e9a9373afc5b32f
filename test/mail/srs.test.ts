import { createSecretKey } from 'node:crypto';
import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { parseAddress } from '../../src/lib/addresses.ts';
import { forwardSender, openSrs, type Srs } from '../../src/mail/own-addresses.ts';

const DAY = 24 * 60 * 60e3;
const NOW = Date.UTC(2026, 10, 21, 12);
const hostname = 'mail.example.net';
const secret = createSecretKey(Buffer.alloc(32, 7));
const other = createSecretKey(Buffer.alloc(32, 8));
const srs: Srs = { secrets: [secret], hostname, now: NOW };
const RETURN_PATH = 'b+token@mail.example.net';

const atom = fc.stringMatching(/^[A-Za-z0-9!#$%&'*+/=?^_`{|}~-]{1,12}$/);
const local = fc.array(atom, { minLength: 1, maxLength: 3 }).map((parts) => parts.join('.'));
const label = fc.stringMatching(/^[a-z0-9]{1,8}$/).filter((text) => !/^\d+$/.test(text));
const domain = fc.array(label, { minLength: 2, maxLength: 3 }).map((labels) => labels.join('.'));
const sender = fc.tuple(local, domain).map(([user, host]) => `${user}@${host}`);

function forward(from: string, by: Srs = srs): string {
  return forwardSender(from, by, () => RETURN_PATH);
}

describe('an SRS0 address', () => {
  test('looks as everybody knows it', () => {
    expect(forward('Jane.Doe@example.com')).toMatch(
      /^SRS0=[a-z2-7]{8}=[a-z2-7]{2}=example\.com=Jane\.Doe@mail\.example\.net$/,
    );
  });

  test('is an address in our own grammar, and leads back to the sender whatever happens to its case', () => {
    fc.assert(
      fc.property(sender, fc.integer({ min: 0, max: 4e12 }), fc.integer({ min: -1, max: 21 }), (from, now, age) => {
        const rewritten = forward(from, { ...srs, now });
        fc.pre(rewritten !== RETURN_PATH && !/^srs/i.test(from));
        expect(parseAddress(rewritten)?.domain).toBe(hostname);
        const later = { ...srs, now: now + age * DAY };
        expect(openSrs(rewritten, later)).toBe(from);
        expect(openSrs(rewritten.toUpperCase(), later)?.toLowerCase()).toBe(from.toLowerCase());
        expect(openSrs(rewritten.toLowerCase(), later)).toBe(from.toLowerCase());
      }),
    );
  });

  test('holds for 21 days, and not again when TT comes round', () => {
    const rewritten = forward('jane@example.com');
    for (const [days, opens] of [
      [0, true],
      [21, true],
      [22, false],
      [500, false],
      [1023, false],
      [1024, false],
      [-1, true],
      [-2, false],
    ] as const) {
      expect(openSrs(rewritten, { ...srs, now: NOW + days * DAY }) !== undefined, `${days} days`).toBe(opens);
    }
  });

  test('is refused with any one character changed', () => {
    const rewritten = forward('jane@example.com');
    for (let i = 0; i < rewritten.length; i++) {
      const change = rewritten[i] === 'a' ? 'b' : 'a';
      const changed = rewritten.slice(0, i) + change + rewritten.slice(i + 1);
      if (changed.toLowerCase() === rewritten.toLowerCase()) continue;
      expect(openSrs(changed, srs), changed).toBeUndefined();
    }
  });

  test('opens nothing that was not made with one of our secrets', () => {
    fc.assert(
      fc.property(sender, fc.stringMatching(/^[a-z2-7]{8}$/), fc.stringMatching(/^[a-z2-7]{2}$/), (from, hash, tt) => {
        const { local, domain } = parseAddress(from) ?? { local: '', domain: '' };
        expect(openSrs(`SRS0=${hash}=${tt}=${domain}=${local}@${hostname}`, srs)).toBeUndefined();
        expect(openSrs(`SRS1=${hash}=${domain}==${local}@${hostname}`, srs)).toBeUndefined();
      }),
    );
  });
});

test('secrets rotate: the new one signs, the old one still opens until it goes', () => {
  const before = forward('jane@example.com');
  const rotated: Srs = { ...srs, secrets: [other, secret] };
  expect(openSrs(before, rotated)).toBe('jane@example.com');
  expect(forward('jane@example.com', rotated)).toBe(forward('jane@example.com', { ...srs, secrets: [other] }));
  expect(openSrs(forward('jane@example.com', rotated), srs)).toBeUndefined();
  expect(openSrs(before, { ...srs, secrets: [other] })).toBeUndefined();
});

describe('three hops', () => {
  const first: Srs = { secrets: [createSecretKey(Buffer.alloc(32, 1))], hostname: 'one.example.org', now: NOW };
  const third: Srs = { secrets: [createSecretKey(Buffer.alloc(32, 3))], hostname: 'three.example.com', now: NOW };

  test.each(['SRS0=', 'SRS0+', 'SRS0-', 'srs0='])(
    'a bounce goes to the first forwarder, and from there to the sender: %s',
    (prefix) => {
      const one = forward('jane@a.com', first).replace('SRS0=', prefix);
      const two = forward(one);
      expect(two).toMatch(/^SRS1=[a-z2-7]{8}=one\.example\.org=[=+-][a-z2-7]{8}=/);
      const three = forward(two, third);
      expect(three).toMatch(/^SRS1=[a-z2-7]{8}=one\.example\.org=[=+-][a-z2-7]{8}=[a-z2-7]{2}=a\.com=jane@three/);
      for (const at of [openSrs(three.toUpperCase(), third), openSrs(two, srs)]) {
        expect(at?.toLowerCase()).toBe(one.toLowerCase());
        expect(openSrs(at ?? '', first)?.toLowerCase()).toBe('jane@a.com');
      }
    },
  );

  test('mail that comes round to us leads to its sender at once', () => {
    const round = forward(forward(forward('jane@a.com'), third));
    expect(round).toMatch(/^SRS1=/);
    expect(openSrs(round, srs)).toBe('jane@a.com');
    expect(openSrs(round, { ...srs, now: NOW + 22 * DAY })).toBeUndefined();
  });

  test('what only begins like one is a sender like any other', () => {
    for (const from of ['SRS1=nonsense@b.com', 'SRS0@b.com', 'srs0x@b.com']) {
      expect(forward(from)).toContain(`=b.com=${from.split('@')[0]}@`);
      expect(openSrs(forward(from), srs)).toBe(from);
    }
  });
});

test('the null sender stays null, and what is at our own host stays as it is', () => {
  expect(forward('')).toBe('');
  expect(forward('b+abc@MAIL.example.net')).toBe('b+abc@mail.example.net');
});

test.each([
  ['too long for an SRS address', `0100018f2a6b8c9d-1a2b3c4d-5e6f-7a8b-9c0d-1e2f3a4b5c6d-000000@amazonses.com`],
  ['too long with a hop before', `SRS0=abcdefgh=xy=${'a'.repeat(20)}.example.com=jane@first.example.org`],
  ['not in our grammar', '"jane doe"@example.com'],
])('the return path of the message stands for a sender that is %s', (_, from) => {
  expect(forward(from)).toBe(RETURN_PATH);
});

test.each([
  '',
  'jane@example.com',
  `SRS0@${hostname}`,
  `SRS0=@${hostname}`,
  `SRS0=aaaaaaaa=aa=x@${hostname}`,
  `SRS0=aaaa=aa=example.com=jane@${hostname}`,
  `SRS1=aaaaaaaa=one.example.org=jane@${hostname}`,
  `"SRS0=aaaaaaaa=aa=example.com=jane"@${hostname}`,
])('what is no SRS address of ours opens nothing: %j', (address) => {
  expect(openSrs(address, srs)).toBeUndefined();
});

test('an address of another host opens nothing, whoever signed it', () => {
  const made = forward('jane@example.com', { ...srs, hostname: 'one.example.org' });
  expect(openSrs(made, srs)).toBeUndefined();
  expect(openSrs(made.replace('one.example.org', hostname), srs)).toBe('jane@example.com');
});
