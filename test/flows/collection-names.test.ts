/** To choose the name of a collection tells nothing of who has it, and not of many whether somebody has. */
import { expect, test } from 'vitest';
import { OPERATOR } from '../../src/store/tenants.ts';
import { startTestWorld } from '../harness/daemon.ts';
import { testKey } from '../harness/keys.ts';

const SITE = `
project: { name: Site, slug: site, owner: owner@inbox.test }
collections: { of-a-file: { forms: { contact: { email: owner@inbox.test } } } }
`;
const WORDS = 'is not available; choose another one';

async function start() {
  const world = await startTestWorld({
    projects: { 'site.yml': SITE },
    server: { plans: { free: { requests_per_hour: null, requests_per_minute: null } } },
  });
  const { store } = world.daemon;
  const [mine, theirs, operator] = [
    await testKey(store),
    await testKey(store),
    await testKey(store, { tenant: OPERATOR }),
  ];

  function askWith({ headers }: { readonly headers: Readonly<Record<string, string>> }) {
    return async (method: string, path: string, body?: object) => {
      const response = await fetch(world.url + path, {
        method,
        headers: { ...headers, 'Content-Type': 'application/json' },
        ...(body === undefined ? {} : { body: JSON.stringify(body) }),
      });
      return { status: response.status, text: await response.text(), retry: response.headers.get('retry-after') };
    };
  }
  return { world, theirs, mine: askWith(mine), other: askWith(theirs), operator: askWith(operator) };
}

function made(name: string) {
  return { name, title: 'X', settings: {}, forms: {} };
}

function pushed(...names: string[]) {
  const collections = names.map((name) => `${name}: { forms: { contact: { email: x@inbox.test } } }`).join(', ');
  return { config: `project: { name: X, slug: shop }\ncollections: { ${collections} }\n` };
}

test('whoever has a name, and however it is asked for, the words are the same', async () => {
  const { theirs, mine, other } = await start();
  expect((await other('POST', '/collections', made('by-api'))).status).toBe(200);
  expect((await other('PUT', '/projects/shop/config', pushed('by-push'))).status).toBe(200);
  expect((await mine('POST', '/collections', made('my-own'))).status).toBe(200);
  for (const name of ['by-api', 'by-push', 'of-a-file', 'my-own']) {
    const refused = await mine('POST', '/collections', made(name));
    expect([refused.status, JSON.parse(refused.text)]).toEqual([
      409,
      { error: `The name ${name} ${WORDS}.`, code: 'CONFLICT', request_id: expect.any(String) },
    ]);
    for (const query of ['', '?dry_run=true']) {
      const push = await mine(
        'PUT',
        `/projects/shop/config${query}`,
        pushed('free', name, ...(name === 'by-push' ? ['by-api'] : ['by-push'])),
      );
      expect([push.status, JSON.parse(push.text)]).toMatchObject([
        409,
        { details: [{ path: `collections.${name}`, message: `the name ${name} ${WORDS}` }] },
      ]);
      expect(JSON.parse(push.text)).not.toHaveProperty('details.1');
      expect(push.text).not.toContain(theirs.tenant);
    }
    expect((await mine('GET', `/collections/${name === 'my-own' ? 'x' : name}`)).status).toBe(404);
  }
});

test('an account that finds many names taken has to wait; the operator has not, and what is its own can be pushed again', async () => {
  const { mine, other, operator } = await start();
  await other('POST', '/collections', made('by-api'));
  expect((await mine('PUT', '/projects/shop/config', pushed('kept'))).status).toBe(200);
  const statuses: number[] = [];
  for (let i = 0; i < 11; i++) {
    statuses.push((await mine('POST', '/collections', made('by-api'))).status);
    statuses.push((await mine('PUT', '/projects/shop/config?dry_run=true', pushed('by-api'))).status);
  }
  expect(statuses).toEqual([...Array<number>(20).fill(409), 429, 429]);
  const free = await mine('POST', '/collections', made('surely-free'));
  expect([free.status, Number(free.retry) > 3000]).toEqual([429, true]);
  const again = { config: `${pushed('kept').config}settings: { rate_limit: 7 }\n` };
  expect((await mine('PUT', '/projects/shop/config', again)).status).toBe(200);
  for (let i = 0; i < 22; i++) expect((await operator('POST', '/collections', made('by-api'))).status).toBe(409);
});

test('a form that is not there says nothing of its collection', async () => {
  const { world, other } = await start();
  await other('POST', '/collections', { ...made('by-api'), forms: { contact: { email: 'x@inbox.test' } } });
  const answers = [];
  for (const collection of ['by-api', 'of-a-file', 'nobodys']) {
    for (const method of ['GET', 'POST', 'OPTIONS', 'PUT']) {
      const response = await fetch(`${world.url}/c/${collection}/nothing`, {
        method,
        headers: {
          Accept: 'application/json',
          Origin: 'https://a.test',
          'Content-Type': 'application/x-www-form-urlencoded',
        },
        ...(method === 'POST' && { body: 'name=Ann' }),
      });
      const text = (await response.text()).replaceAll(/req_\w+/g, '').replaceAll(collection, '');
      const headers = [...response.headers.keys()].filter((name) => !name.startsWith('x-ratelimit')).sort();
      answers.push([method, response.status, text, headers]);
    }
  }
  const [first, second, third] = [answers.slice(0, 4), answers.slice(4, 8), answers.slice(8)];
  expect(second).toEqual(first);
  expect(third).toEqual(first);
  expect(first?.[1]?.[1]).toBe(404);
});
