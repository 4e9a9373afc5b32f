import * as fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { addressInRanges, isHostAddress, isPublicAddress, reverseName } from '../../src/dns/networks.ts';

describe('isPublicAddress', () => {
  test.each([
    '8.8.8.8',
    '192.0.1.1',
    '100.63.255.255',
    '100.128.0.1',
    '172.15.255.255',
    '172.32.0.1',
    '2001:4860:4860::8888',
    '2a01:4f8::1',
    '::ffff:8.8.8.8',
    '64:ff9b::8.8.8.8',
  ])('%s is public', (ip) => expect(isPublicAddress(ip)).toBe(true));

  test.each([
    ['this network', '0.0.0.0'],
    ['this network', '0.1.2.3'],
    ['private', '10.0.0.1'],
    ['private', '172.16.0.1'],
    ['private', '172.31.255.255'],
    ['private', '192.168.1.1'],
    ['carrier-grade NAT', '100.64.0.1'],
    ['loopback', '127.0.0.1'],
    ['loopback', '127.255.255.254'],
    ['link-local (cloud metadata)', '169.254.169.254'],
    ['documentation', '192.0.2.1'],
    ['documentation', '198.51.100.1'],
    ['documentation', '203.0.113.1'],
    ['benchmarking', '198.18.0.1'],
    ['multicast', '224.0.0.1'],
    ['reserved', '240.0.0.1'],
    ['broadcast', '255.255.255.255'],
    ['unspecified', '::'],
    ['loopback', '::1'],
    ['unique local', 'fd00::1'],
    ['link-local', 'fe80::1'],
    ['link-local with a zone', 'fe80::1%eth0'],
    ['site-local', 'fec0::1'],
    ['multicast', 'ff02::1'],
    ['documentation', '2001:db8::1'],
    ['documentation', '3fff::1'],
    ['discard', '100::1'],
    ['mapped loopback', '::ffff:127.0.0.1'],
    ['mapped loopback in hexadecimal', '::ffff:7f00:1'],
    ['mapped private', '::ffff:10.0.0.1'],
    ['compatible loopback', '::127.0.0.1'],
    ['NAT64 of loopback', '64:ff9b::7f00:1'],
    ['NAT64 of private', '64:ff9b::10.0.0.1'],
    ['NAT64, local use', '64:ff9b:1::8.8.8.8'],
    ['6to4 of loopback', '2002:7f00:1::'],
    ['6to4', '2002:808:808::1'],
    ['Teredo', '2001:0:808:808::1'],
    ['not yet assigned', '4000::1'],
    ['decimal', '2130706433'],
    ['hexadecimal', '0x7f000001'],
    ['octal', '0177.0.0.1'],
    ['short', '127.1'],
    ['short public', '8.8'],
    ['empty', ''],
    ['a name', 'example.com'],
  ])('%s is not: %s', (_what, ip) => expect(isPublicAddress(ip)).toBe(false));

  test('an IPv4 address is judged the same in every way of writing it inside IPv6', () => {
    fc.assert(
      fc.property(fc.ipV4(), (ip) => {
        expect(isPublicAddress(`::ffff:${ip}`)).toBe(isPublicAddress(ip));
        expect(isPublicAddress(`64:ff9b::${ip}`)).toBe(isPublicAddress(ip));
      }),
    );
  });

  test('no text makes it throw', () => {
    fc.assert(
      fc.property(fc.oneof(fc.string(), fc.ipV6()), (text) => {
        expect(typeof isPublicAddress(text)).toBe('boolean');
      }),
    );
  });
});

test('isHostAddress leaves out what no machine can have', () => {
  const hosts = ['127.0.0.1', '10.0.0.1', '::1', 'fd00::1', '192.0.2.1', '::ffff:10.0.0.1', '8.8.8.8'];
  const none = ['0.0.0.0', '::', '224.0.0.1', 'ff02::1', '255.255.255.255', '::ffff:0.0.0.0', 'localhost', ''];
  expect(hosts.filter((ip) => !isHostAddress(ip))).toEqual([]);
  expect(none.filter(isHostAddress)).toEqual([]);
});

describe('addressInRanges', () => {
  test.each([
    ['10.1.2.3', '10.0.0.0/8', true],
    ['11.1.2.3', '10.0.0.0/8', false],
    ['10.1.2.3', '10.1.2.3', true],
    ['10.1.2.3', '10.1.2.4', false],
    ['10.1.2.3', '0.0.0.0/0', true],
    ['::ffff:10.1.2.3', '10.0.0.0/8', true],
    ['10.1.2.3', '::ffff:10.0.0.0/104', true],
    ['11.1.2.3', '::ffff:10.0.0.0/104', false],
    ['10.1.2.3', '::ffff:10.1.2.3', true],
    ['10.1.2.3', '::ffff:0:0/90', false],
    ['10.1.2.3', '::/0', false],
    ['2001:db8::1', '2001:db8::/32', true],
    ['2001:db9::1', '2001:db8::/32', false],
    ['2001:db8::1', '0.0.0.0/0', false],
    ['2001:DB8:0:0::1', '2001:db8::1', true],
    ['10.1.2.3', '10.0.0.0/33', false],
    ['10.1.2.3', '10.0.0.0/', false],
    ['10.1.2.3', '10.0.0.0/8/8', false],
    ['10.1.2.3', 'nonsense/8', false],
    ['10.1.2.3', '', false],
    ['nonsense', '0.0.0.0/0', false],
    ['167838211', '10.0.0.0/8', false],
  ])('%s in %s: %s', (ip, range, inside) => expect(addressInRanges(ip, [range])).toBe(inside));

  test('one match among many is enough, none among none', () => {
    expect(addressInRanges('10.1.2.3', ['nonsense', '192.168.0.0/16', '10.0.0.0/8'])).toBe(true);
    expect(addressInRanges('10.1.2.3', [])).toBe(false);
  });
});

test.each([
  ['192.0.2.10', '10.2.0.192.in-addr.arpa'],
  ['::ffff:192.0.2.10', '10.2.0.192.in-addr.arpa'],
  // The example of RFC 3596 §2.5.
  ['4321:0:1:2:3:4:567:89ab', 'b.a.9.8.7.6.5.0.4.0.0.0.3.0.0.0.2.0.0.0.1.0.0.0.0.0.0.0.1.2.3.4.ip6.arpa'],
])('the name of the reverse record of %s', (ip, name) => expect(reverseName(ip)).toBe(name));
