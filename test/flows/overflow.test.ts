/** A form that gets more than it takes in an hour: no lead is lost, nobody is flooded, and its owner hears of it. */
import { simpleParser } from 'mailparser';
import { expect, test } from 'vitest';
import { mailOverflows } from '../../src/forms/overflow.ts';
import { systemClock } from '../../src/lib/clock.ts';
import { OPERATOR } from '../../src/store/tenants.ts';
import { startTestWorld, type TestWorld } from '../harness/daemon.ts';
import { testKey, type TestKey } from '../harness/keys.ts';

const SITE = `
project: { name: Site, slug: site, owner: owner@inbox.test }
settings: { rate_limit: 100000 }
domains: { example.test: { forms: { contact: { to: leads@inbox.test, max_per_hour: 2 }, other: { to: leads@inbox.test } } } }
collections: { site: { forms: { contact: { email: leads@inbox.test, max_per_hour: 2 } } } }
`;
const MINUTE = 60_000;

async function start() {
  const world = await startTestWorld({ projects: { 'site.yml': SITE } });
  const { store } = world.daemon;
  return {
    world,
    operator: await testKey(store, { tenant: OPERATOR }),
    tenant: await testKey(store, { account: { email: 'tenant@inbox.test' } }),
  };
}

async function ask(world: TestWorld, key: TestKey, [method, path, body]: readonly [string, string, object?]) {
  const headers = { ...key.headers, 'Content-Type': 'application/json' };
  const response = await fetch(world.url + path, { method, headers, ...(body && { body: JSON.stringify(body) }) });
  expect(response.status).toBe(200);
  return (await response.json()) as Record<string, unknown>;
}

/** What the owner would be mailed so much later. */
async function later(world: TestWorld, minutes: number): Promise<void> {
  const { store, snapshot } = world.daemon;
  const clock = { ...systemClock, now: () => systemClock.now() + minutes * MINUTE };
  await mailOverflows({ store, clock, snapshot, wake: () => undefined });
  await world.tryNow();
}

async function overflowMails(world: TestWorld, count: number) {
  await expect
    .poll(() => world.mx.mails.list().filter(({ subject }) => subject.includes('not mailed')).length)
    .toBe(count);
  const mails = world.mx.mails.list().filter(({ subject }) => subject.includes('not mailed'));
  return Promise.all(
    mails.map(async (mail) => {
      const { text = '' } = await simpleParser(await world.mx.mails.source(mail));
      return { to: mail.envelope.to, subject: mail.subject, text };
    }),
  );
}

test('forms of every kind keep what is too much, tell the visitor of success and the owner how many, once an hour', async () => {
  const { world, operator, tenant } = await start();
  const own = await ask(world, tenant, ['POST', '/forms', { name: 'Own', to: 'tenant@inbox.test', max_per_hour: 2 }]);
  const forms = [
    ['example.test/contact', '/example.test/contact', operator, 'owner@inbox.test'],
    ['c/site/contact', '/c/site/contact', operator, 'owner@inbox.test'],
    [String(own['id']), `/f/${String(own['id'])}`, tenant, 'tenant@inbox.test'],
  ] as const;
  for (const [id, path, key] of forms) {
    for (let i = 0; i < 5; i++) {
      const answer = await world.post(path, { message: `Hello ${i}` }, { Accept: 'application/json' });
      expect([id, i, answer.status]).toEqual([id, i, 200]);
    }
    const { submissions } = await ask(world, key, ['GET', `/forms/${id}/submissions?status=spam`]);
    expect(submissions).toHaveLength(3);
    const kept = {
      spam: { score: 100, reasons: expect.arrayContaining([expect.objectContaining({ name: 'max_per_hour' })]) },
    };
    expect(submissions).toMatchObject([kept, kept, kept]);
    expect(await ask(world, key, ['GET', `/forms/${id}`])).toMatchObject({ submissions: 2 });
  }
  expect((await world.post('/example.test/other', { message: 'Hello' })).status).toBe(200);
  await world.caught(7);

  await later(world, 4);
  await later(world, 6);
  await later(world, 7);
  const mails = await overflowMails(world, 3);
  expect(mails.map(({ to, subject }) => [to, subject]).sort()).toEqual(
    forms.map(([id, , , owner]) => [[owner], `3 submissions to the form ${id} not mailed`]).sort(),
  );
  expect(mails[0]?.text).toContain('--status spam');

  await world.post('/example.test/contact', { message: 'One more' });
  await later(world, 20);
  await later(world, 67);
  const more = await overflowMails(world, 4);
  expect(more.map(({ subject }) => subject)).toContain('1 submission to the form example.test/contact not mailed');
});
