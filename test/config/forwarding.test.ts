import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { forwardingLoops, routeOf } from '../../src/config/forwarding.ts';

describe('the route of an address', () => {
  const forwarding = {
    'sales@example.com': ['anna@example.org'],
    'sales+spring@example.com': ['ben@example.org'],
    'spam@example.com': 'discard' as const,
    '*@example.com': ['all@example.org'],
  };

  test.each([
    ['sales', ['anna@example.org']],
    ['SALES', ['anna@example.org']],
    ['sales+spring', ['ben@example.org']],
    ['sales+autumn', ['anna@example.org']],
    ['sales+a+b', ['anna@example.org']],
    ['spam+x', 'discard'],
    ['anybody', ['all@example.org']],
    ['constructor', ['all@example.org']],
  ])('%s', (local, route) => {
    expect(routeOf(forwarding, 'example.com', local)).toEqual(route);
  });

  test('is none where nothing is said', () => {
    expect(routeOf({}, 'example.com', 'toString')).toBeUndefined();
  });
});

type Forwarding = Record<string, string[] | 'reject'>;

/** The slow and obvious way: follow each address for more steps than there are keys. */
function hasLoop(forwarding: Forwarding): boolean {
  const follow = (address: string, left: number): boolean => {
    const [local = '', domain = ''] = address.split('@');
    if (domain !== 'e.com') return false;
    if (left === 0) return true;
    const route = forwarding[address] ?? forwarding[`${local.replace(/\+.*/, '')}@e.com`] ?? forwarding['*@e.com'];
    return typeof route === 'object' && route.some((target) => follow(target, left - 1));
  };
  return Object.keys(forwarding).some((key) => follow(key, 8));
}

describe('loops', () => {
  test('are found exactly where following an address does not end', () => {
    const local = fc.constantFrom('a', 'b', 'c', 'a+x', 'b+x');
    const target = fc.oneof(
      local.map((name) => `${name}@e.com`),
      fc.constant('out@example.org'),
    );
    const route = fc.oneof(fc.constant('reject' as const), fc.array(target, { minLength: 1, maxLength: 2 }));
    const key = fc.oneof(
      local.map((name) => `${name}@e.com`),
      fc.constant('*@e.com'),
    );
    fc.assert(
      fc.property(fc.dictionary(key, route, { maxKeys: 6, noNullPrototype: true }), (forwarding) => {
        // The catch-all is also an address that nobody has, so its own key stands for that one.
        const loops = forwardingLoops(new Map([['e.com', forwarding]]));
        expect(loops.length > 0).toBe(hasLoop(forwarding));
      }),
      { numRuns: 2000 },
    );
  });

  test('show the way round', () => {
    const domains = new Map([
      ['a.com', { 'x@a.com': ['y@b.com', 'out@example.org'] }],
      ['b.com', { '*@b.com': ['x@a.com'] }],
    ]);
    expect(forwardingLoops(domains)).toEqual([
      { domain: 'a.com', key: 'x@a.com', way: ['x@a.com', '*@b.com', 'x@a.com'] },
    ]);
  });
});
