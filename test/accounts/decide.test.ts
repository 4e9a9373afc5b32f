import { describe, expect, test } from 'vitest';
import { decide, expandPermissions, type Need, type Restrictions } from '../../src/accounts/principal.ts';
import { FULL } from '../../src/accounts/api-keys.ts';
import type { PermissionName } from '../../src/lib/permission-names.ts';
import { networkWithin, normalNetwork } from '../../src/dns/networks.ts';
import { testPrincipal } from '../harness/keys.ts';

/** Who asks with such a key. */
function principal({ permissions, restrictions }: { permissions?: PermissionName[]; restrictions?: Restrictions }) {
  const held = permissions === undefined ? FULL : expandPermissions(permissions);
  return testPrincipal({ permissions: held, ...(restrictions && { restrictions }) });
}

const NEED: Need = { permission: 'any', domain: 'narrowed', ip: '192.0.2.1' };

describe('a permission', () => {
  const cases: [held: PermissionName[], needed: Need['permission'], may: boolean][] = [
    [['forms.read'], 'forms.read', true],
    [['forms.read'], 'forms.write', false],
    [['forms'], 'forms.write', true],
    [['forms'], 'domains.read', false],
    [['keys'], 'keys.write', true],
    [['admin'], 'admin', true],
    [['admin'], 'forms.read', false],
    [[], 'any', true],
    [[], 'email.send', false],
  ];
  test.each(cases)('%j for %s: %s', (permissions, permission, may) => {
    const denial = decide(principal({ permissions }), { ...NEED, permission });
    expect(denial).toBe(may ? undefined : 'AUTH_FORBIDDEN');
  });

  test('a full key holds every one but admin', () => {
    const full = principal({});
    expect(decide(full, { ...NEED, permission: 'projects.write' })).toBeUndefined();
    expect(decide(full, { ...NEED, permission: 'admin' })).toBe('AUTH_FORBIDDEN');
  });
});

describe('an address', () => {
  const cases: [list: string[], ip: string, may: boolean][] = [
    [['192.0.2.1'], '192.0.2.1', true],
    [['192.0.2.1'], '192.0.2.2', false],
    [['192.0.2.0/24'], '192.0.2.200', true],
    [['192.0.2.0/24'], '192.0.3.1', false],
    [['198.51.100.1', '192.0.2.0/24'], '192.0.2.9', true],
    [['192.0.2.0/24'], '::ffff:192.0.2.7', true],
    [['::ffff:192.0.2.0/120'], '192.0.2.7', true],
    [['::ffff:192.0.2.0/120'], '::ffff:192.0.3.7', false],
    [['::ffff:192.0.2.1'], '192.0.2.1', true],
    [['::/0'], '192.0.2.1', false],
    [['0.0.0.0/0'], '2001:db8::1', false],
    [['0.0.0.0/0'], '203.0.113.99', true],
    [['2001:db8::/32'], '2001:db8:1::5', true],
    [['2001:db8::/32'], '2001:db9::5', false],
    [['2001:DB8:0:0::1'], '2001:db8::1', true],
    // Over the Unix socket a key is still a key.
    [['192.0.2.1'], 'local', false],
  ];
  test.each(cases)('%j used from %s: %s', (ip_whitelist, ip, may) => {
    const denial = decide(principal({ restrictions: { ip_whitelist } }), { ...NEED, ip });
    expect(denial).toBe(may ? undefined : 'AUTH_IP_NOT_ALLOWED');
  });
});

describe('a domain', () => {
  const only: Restrictions = { domain_restrictions: ['example.com'] };
  const cases: [restrictions: Restrictions, domain: Need['domain'], may: boolean][] = [
    [{}, { name: 'example.com' }, true],
    [{}, 'none', true],
    [only, { name: 'example.com' }, true],
    [only, { name: 'sub.example.com' }, false],
    [only, { name: 'example.org' }, false],
    [only, 'none', false],
    [only, 'narrowed', true],
  ];
  test.each(cases)('%j for %j: %s', (restrictions, domain, may) => {
    const denial = decide(principal({ restrictions }), { ...NEED, domain });
    expect(denial).toBe(may ? undefined : 'AUTH_DOMAIN_NOT_ALLOWED');
  });
});

test('where all is wrong, the address is told first, and nothing of what the key may do', () => {
  const nobody = principal({ permissions: [], restrictions: { ip_whitelist: ['198.51.100.1'] } });
  expect(decide(nobody, { permission: 'admin', domain: 'none', ip: '192.0.2.1' })).toBe('AUTH_IP_NOT_ALLOWED');
});

describe('networks', () => {
  const within: [inner: string, outer: string[], expected: boolean][] = [
    ['10.1.0.0/16', ['10.0.0.0/8'], true],
    ['10.0.0.0/8', ['10.1.0.0/16'], false],
    ['10.1.2.3', ['10.0.0.0/8'], true],
    ['10.1.2.3', ['10.1.2.3'], true],
    ['11.0.0.0/8', ['10.0.0.0/8'], false],
    ['10.0.0.0/7', ['10.0.0.0/8', '11.0.0.0/8'], false],
    ['::ffff:10.1.0.0/112', ['10.0.0.0/8'], true],
    ['10.1.0.0/16', ['::ffff:10.0.0.0/104'], true],
    ['2001:db8:1::/48', ['2001:db8::/32'], true],
    ['2001:db8::/32', ['0.0.0.0/0'], false],
    ['0.0.0.0/0', ['::/0'], false],
    ['nonsense', ['0.0.0.0/0'], false],
  ];
  test.each(within)('%s lies in %j: %s', (inner, outer, expected) => {
    expect(networkWithin(inner, outer)).toBe(expected);
  });

  const normal: [written: string, kept: string | undefined][] = [
    ['192.0.2.1', '192.0.2.1'],
    ['192.0.2.1/32', '192.0.2.1'],
    ['192.0.2.77/24', '192.0.2.0/24'],
    ['192.0.2.77/27', '192.0.2.64/27'],
    ['0.0.0.0/0', '0.0.0.0/0'],
    ['::ffff:192.0.2.1', '192.0.2.1'],
    ['::ffff:192.0.2.77/120', '192.0.2.0/24'],
    ['2001:DB8::1', '2001:db8::1'],
    ['2001:db8:ffff::/33', '2001:db8:8000::/33'],
    ['192.0.2', undefined],
    ['192.0.2.1/33', undefined],
    ['192.0.2.1/-1', undefined],
    ['::1/129', undefined],
    ['::ffff:1.2.3.4/90', undefined],
    ['fe80::1%eth0', undefined],
    ['example.com', undefined],
    ['', undefined],
  ];
  test.each(normal)('%s is kept as %s', (written, kept) => {
    expect(normalNetwork(written)).toBe(kept);
  });
});
