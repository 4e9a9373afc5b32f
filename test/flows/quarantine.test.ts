import { expect, test } from 'vitest';
import { OPERATOR } from '../../src/store/tenants.ts';
import { startTestWorld, type TestWorld } from '../harness/daemon.ts';
import { testKey } from '../harness/keys.ts';

const SITE = `
project: { name: Site, slug: site, owner: owner@inbox.test }
settings: { rate_limit: 100000 }
domains:
  example.test:
    forms:
      contact: { name: Contact form, to: owner@inbox.test, acknowledgment: { enabled: true } }
      quiet: { to: owner@inbox.test, spam_protection: { on_spam: silent } }
`;
/** Offers of many kinds: of one that is nearly spam what DNS says of the address decides. */
const OFFERS = [
  'We sell garden furniture and would like to send you our price list.',
  'We sell good solar panels at a low price.',
  'Cheap loans. Buy now.',
  'We have an offer for your shop, call us about it.',
  'Our workshop makes wooden toys. Would you sell them?',
  'We deliver fresh fruit to offices. Are you interested?',
  'See [url=x] please, it does not open.',
];

test('what looked like spam is kept with its reasons, and arrives once when it is released', async () => {
  const world = await startTestWorld({ projects: { 'site.yml': SITE } });
  const headers = { Accept: 'application/json', Origin: 'https://example.test' };
  const blocked = await world.post(
    '/example.test/contact',
    { name: 'Kevin', email: 'kevin@inbox.test', _gotcha: 'x' },
    headers,
  );
  expect([blocked.status, await blocked.json()]).toMatchObject([400, { errors: [{ code: 'BLOCKED' }] }]);
  const silent = await world.post('/example.test/quiet', { name: 'Kevin', _gotcha: 'x' }, headers);
  expect([silent.status, await silent.json()]).toMatchObject([200, { success: true }]);

  const listed = await ask(world, 'GET', '/v1/forms/example.test/contact/submissions?status=spam');
  const submissions = listed['submissions'] as { id: string; spam: { reasons: unknown } }[];
  expect(submissions).toMatchObject([
    {
      status: 'spam',
      spam: { score: 100, reasons: [{ name: 'honeypot', detail: 'the field _gotcha was filled in' }] },
    },
  ]);
  const [{ id } = { id: '' }] = submissions;
  for (let i = 0; i < 2; i++) {
    expect(await ask(world, 'POST', `/v1/submissions/${id}/ham`)).toMatchObject({ status: 'accepted' });
  }
  await world.caught(1);
  // Whatever had been sent twice would have come before this one.
  await world.post('/example.test/contact', { name: 'Ana', message: 'the last one' }, headers);
  const mails = (await world.caught(2)).list();
  expect(mails.map(({ envelope }) => envelope.to)).toEqual([['owner@inbox.test'], ['owner@inbox.test']]);
});

test('whether the address can be answered decides, and is asked for real', async () => {
  const world = await startTestWorld({
    projects: { 'site.yml': SITE },
    zone: [{ name: 'null.test', type: 'MX', value: '0 .' }],
  });
  const headers = { Accept: 'application/json', Origin: 'https://example.test' };
  const verdicts = new Set<string>();
  for (const message of OFFERS) {
    const statuses: number[] = [];
    for (const email of ['kevin@inbox.test', 'kevin@null.test', 'kevin@nowhere.test']) {
      const { status } = await world.post('/example.test/contact', { name: 'Kevin', message, email }, headers);
      statuses.push(status);
    }
    verdicts.add(statuses.join(' '));
  }
  expect(verdicts).toContain('200 400 400');
  // Where the text is clear DNS changes nothing, and the two addresses are never judged differently.
  expect([...verdicts].filter((each) => !['200 200 200', '400 400 400', '200 400 400'].includes(each))).toEqual([]);
});

/** As the operator's key may. */
async function ask({ daemon, url }: TestWorld, method: string, path: string): Promise<Record<string, unknown>> {
  const { headers } = await testKey(daemon.store, { tenant: OPERATOR });
  const response = await fetch(url + path, { method, headers });
  expect(response.status).toBe(200);
  return (await response.json()) as Record<string, unknown>;
}
