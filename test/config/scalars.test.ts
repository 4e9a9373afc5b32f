import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { z } from 'zod';
import {
  address,
  dnsServer,
  domainName,
  duration,
  forwardingKey,
  ipAddress,
  listenAddress,
  mailbox,
  origin,
  retention,
  size,
} from '../../src/config/scalars.ts';

describe('durations and sizes', () => {
  test.each([
    [duration, '30s', 30_000],
    [duration, '5m', 300_000],
    [duration, '2h', 7_200_000],
    [duration, '7d', 604_800_000],
    [size, '1B', 1],
    [size, '256KiB', 262_144],
    [size, '25MiB', 26_214_400],
    [size, '2GiB', 2_147_483_648],
  ])('%s', (schema, written, value) => {
    expect(schema.parse(written)).toBe(value);
    expect(z.encode(schema, value)).toBe(written);
  });

  test.each(['', '5', '0s', '05m', '-5m', '1.5h', '5 m', '5w', '5ms', '1h30m', '9999999d'])(
    '%j is no duration',
    (text) => {
      expect(duration.safeParse(text).success).toBe(false);
    },
  );

  test.each(['', '5', '0B', '20MB', '1.5MiB', '5 MiB', '5mib'])('%j is no size', (text) => {
    expect(size.safeParse(text).success).toBe(false);
  });

  test.each([
    ['90d', 7_776_000_000],
    [0, 0],
    ['forever', 'forever'],
  ])('things are kept for %s', (written, value) => {
    expect(retention.parse(written)).toBe(value);
    expect(z.encode(retention, retention.parse(written))).toBe(written);
  });

  test.each(['0', '0d', 'never', -1, 1, null])('and not for %j', (value) => {
    expect(retention.safeParse(value).success).toBe(false);
  });

  test('mean the same after they were written again', () => {
    fc.assert(
      fc.property(fc.integer({ min: 1, max: 999_999 }), fc.constantFrom('s', 'm', 'h', 'd'), (number, unit) => {
        const value = duration.parse(`${number}${unit}`);
        expect(duration.parse(z.encode(duration, value))).toBe(value);
      }),
    );
  });
});

describe('addresses of machines', () => {
  test.each(['[::]:80', '127.0.0.1:0', 'localhost:8080', '[::1]:65535'])('%s can be listened on', (text) => {
    expect(listenAddress.parse(text)).toBe(text);
  });

  test.each(['80', ':80', '::1:80', '[::]', '127.0.0.1:65536', 'a b:80'])('%s cannot', (text) => {
    expect(listenAddress.safeParse(text).success).toBe(false);
  });

  test.each(['192.0.2.53', '127.0.0.1:5353', '2001:db8::53', '[2001:db8::53]:53', '[2001:db8::53]'])(
    '%s is a resolver',
    (text) => {
      expect(dnsServer.parse(text)).toBe(text);
    },
  );

  test.each([
    ['https://www.example.com', 'https://www.example.com'],
    ['https://WWW.Example.com:443/', 'https://www.example.com'],
    ['http://localhost:3000', 'http://localhost:3000'],
  ])('%s is the origin %s', (written, value) => {
    expect(origin.parse(written)).toBe(value);
  });

  test.each(['www.example.com', 'https://example.com/page', 'https://user@example.com', 'file:///x', 'https://'])(
    '%s is none',
    (text) => {
      expect(origin.safeParse(text).success).toBe(false);
    },
  );
});

describe('IP addresses', () => {
  test.each([
    ['192.0.2.10', '192.0.2.10'],
    ['2001:DB8:0:0::1', '2001:db8::1'],
    ['2001:0db8:0000:0001:0000:0000:0000:0001', '2001:db8:0:1::1'],
  ])('%s is %s, as in DNS', (written, value) => {
    expect(ipAddress.parse(written)).toBe(value);
    expect(ipAddress.parse(z.encode(ipAddress, value))).toBe(value);
  });

  test('every spelling of one is the same', () => {
    fc.assert(
      fc.property(fc.ipV6(), (text) => {
        const parsed = ipAddress.safeParse(text);
        if (parsed.success) expect(`[${parsed.data}]`).toBe(new URL(`http://[${text}]`).hostname);
      }),
    );
  });
});

test.each([
  [domainName, 'example.com.', 'expected a domain name such as example.com, without the dot at the end'],
  [domainName, 'localhost', 'expected a domain name such as example.com'],
  [address, 'ana@example.com.', 'expected an email address such as you@example.com, without the dot at the end'],
  [forwardingKey, '*@example.com.', expect.stringMatching(/, without the dot at the end$/)],
  [ipAddress, '192.0.2.10.', expect.stringMatching(/, without the dot at the end$/)],
  [ipAddress, 'fe80::1%eth0', 'expected an IP address such as 192.0.2.10 or 2001:db8::10'],
  [mailbox, 'Shop.', 'expected an email address such as shop@example.com or Shop <shop@example.com>'],
  [ipAddress, '::ffff:192.0.2.1', 'expected a plain IPv4 address such as 192.0.2.10'],
])('what is wrong is refused with words (%#)', (schema, text, message) => {
  expect(schema.safeParse(text).error?.issues).toMatchObject([{ message }]);
});

test.each([
  ['Sales@Example.COM', 'sales@example.com'],
  ['*@Example.com', '*@example.com'],
  ['*@bücher.example', '*@xn--bcher-kva.example'],
])('%s as a key of forwarding is %s', (written, value) => {
  expect(forwardingKey.parse(written)).toBe(value);
});
