/** Acknowledgments are useless to somebody who wants to annoy a third person. */
import { expect, test } from 'vitest';
import { startTestWorld } from '../harness/daemon.ts';

const SITE = `
project: { name: Site, slug: site, owner: owner@inbox.test }
settings: { rate_limit: 100000 }
domains:
  example.test:
    forms:
      contact: { to: leads@inbox.test, max_per_hour: 5000, acknowledgment: { enabled: true } }
      other: { to: leads@inbox.test, max_per_hour: 5000, acknowledgment: { enabled: true } }
`;
const PROXIED = { server: { http: { listen: ['127.0.0.1:0'], trusted_proxies: ['127.0.0.1'] } } };
const POSTS = 1000;
const AT_ONCE = 100;
const SPELLINGS = ['victim@inbox.test', 'Victim@INBOX.test', 'victim+a@inbox.test', 'victim+b@inbox.test'];

test('a thousand posts of a thousand clients with one address cause one mail to it', async () => {
  const world = await startTestWorld({ server: PROXIED, projects: { 'site.yml': SITE } });

  async function post(i: number): Promise<number> {
    const form = i % 2 === 0 ? 'contact' : 'other';
    const email = SPELLINGS[i % SPELLINGS.length] ?? '';
    const fields = { name: `Client ${i}`, email, message: `Are you open on day ${i} of the year?` };
    const headers = { Accept: 'application/json', Origin: 'https://example.test' };
    const ip = `198.${18 + (i >> 16)}.${(i >> 8) & 255}.${i & 255}`;
    return (await world.post(`/example.test/${form}`, fields, { ...headers, 'X-Forwarded-For': ip })).status;
  }

  // The mailbox keeps the last thousand.
  const seen = new Map<string, string>();
  function caughtFor(local: string): number {
    for (const { id, envelope } of world.mx.mails.list()) seen.set(id, envelope.to.join().toLowerCase());
    return [...seen.values()].filter((address) => address.startsWith(local)).length;
  }

  for (let i = 0; i < POSTS; i += AT_ONCE) {
    const statuses = await Promise.all(Array.from({ length: AT_ONCE }, (_, j) => post(i + j)));
    expect(new Set(statuses)).toEqual(new Set([200]));
    await expect.poll(() => caughtFor('leads@'), { timeout: 60_000 }).toBe(i + AT_ONCE);
  }
  expect(caughtFor('victim')).toBe(1);
});
