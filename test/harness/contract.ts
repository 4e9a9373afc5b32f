/** Holds what a route really answers against what the contract says of it. */
import { expect } from 'vitest';
import { API } from '../../src/contract/contract.ts';
import { errorCodesOf, type Route } from '../../src/contract/route.ts';

const ROUTES = Object.values(API)
  .flatMap((routes): Route[] => Object.values(routes))
  .map((route) => {
    const pattern = route.path.replaceAll(/:\w+/g, '[^/]+').replaceAll(/\*\w+/g, '.+');
    return { route, path: new RegExp(`^(?:/api|/v1)?${pattern}$`) };
  });

/** Fails where a route of the API answered an error whose code its contract does not list. */
export function expectListedCode(method: string, target: string, answer: unknown): void {
  const path = target.split('?', 1)[0] ?? '';
  const found = ROUTES.find(({ route, path: pattern }) => route.method === method && pattern.test(path));
  if (found === undefined || typeof answer !== 'object' || answer === null || !('code' in answer)) return;
  if (typeof answer.code !== 'string') return;
  expect(errorCodesOf(found.route), `the error codes of ${method} ${found.route.path}`).toContain(answer.code);
}
