/** What is shown of a form post and of a mail while they are kept, and afterwards: the whole daemon, on the test's clock. */
import { expect, onTestFinished, test } from 'vitest';
import { retentionJobs } from '../../src/daemon/jobs.ts';
import { OPERATOR } from '../../src/store/tenants.ts';
import { testClock } from '../harness/clock.ts';
import { startTestWorld } from '../harness/daemon.ts';
import { testKey } from '../harness/keys.ts';

const DAY = 86_400_000;
const HOUR = 3_600_000;

const SITE = `
project: { name: Site, slug: site, owner: owner@inbox.test }
settings: { rate_limit: 100000, from: shop@example.test }
domains:
  example.test:
    forms:
      contact: { to: owner@inbox.test, uploads: { enabled: true } }
      brief: { to: owner@inbox.test, retention: 0 }
`;

async function start() {
  const clock = testClock();
  let passing: NodeJS.Timeout | undefined;
  onTestFinished(() => clearInterval(passing));
  const world = await startTestWorld({ projects: { 'site.yml': SITE }, parts: { clock } });
  // Before the daemon ends: its stop takes time.
  onTestFinished(() => void (passing = setInterval(() => clock.advance(100), 1)));
  const { daemon, url } = world;
  const { headers } = await testKey(daemon.store, { tenant: OPERATOR });
  const jobs = Object.values(
    retentionJobs({
      store: daemon.store,
      clock,
      config: () => daemon.snapshot().server,
      snapshot: daemon.snapshot,
    }),
  );

  async function ask(path: string, init: RequestInit = {}) {
    const response = await fetch(url + path, { ...init, headers: { ...headers, 'Content-Type': 'application/json' } });
    const text = await response.text();
    return { status: response.status, text, json: JSON.parse(text.startsWith('{') ? text : '{}') as never };
  }

  return {
    ...world,
    clock,
    ask,
    async pass(ms: number) {
      clock.advance(ms);
      for (const job of jobs) await job();
    },
    async settled(count: number) {
      const delivered = async () => (await world.queue()).filter(({ state }) => state === 'delivered');
      await expect.poll(async () => (await delivered()).length).toBe(count);
    },
  };
}

test('a form post is there for 90 days, and exported; its count stays', async () => {
  const { post, ask, pass, settled } = await start();
  const form = new FormData();
  form.set('message', 'Are you open on Friday?');
  form.set('plan', new Blob(['%PDF']), 'plan.pdf');
  expect((await post('/example.test/contact', form)).status).toBe(200);
  await settled(1);
  await pass(89 * DAY);
  const listed = await ask('/forms/example.test%2Fcontact/submissions');
  expect(listed.json).toMatchObject({ count: 1, submissions: [{ fields: { message: 'Are you open on Friday?' } }] });
  const [{ id, files }] = (listed.json as { submissions: [{ id: string; files: [{ id: string }] }] }).submissions;
  expect((await ask('/forms/example.test%2Fcontact/submissions/export')).text).toContain('Are you open on Friday?');
  await pass(DAY + HOUR);
  expect((await ask(`/submissions/${id}`)).status).toBe(404);
  expect((await ask(`/submissions/${id}/files/${files[0].id}`)).status).toBe(404);
  expect((await ask('/forms/example.test%2Fcontact/submissions')).json).toMatchObject({ count: 0, submissions: [] });
  expect((await ask('/forms/example.test%2Fcontact')).json).toMatchObject({ submissions: 1 });
});

test('a form with retention 0 keeps nothing that has arrived', async () => {
  const { post, mx, ask, pass, settled, daemon } = await start();
  mx.behave(({ stage }) => (stage === 'data' ? { code: 451, text: '4.7.1 try again later' } : undefined));
  expect((await post('/example.test/brief', { message: 'Psst' })).status).toBe(200);
  const attempts = daemon.store.read.selectFrom('attempts').select('outcome');
  await expect.poll(async () => (await attempts.execute()).length).toBe(1);
  await pass(4 * 60_000);
  expect((await ask('/forms/example.test%2Fbrief/submissions')).json).toMatchObject({ count: 1 });
  mx.behave(() => undefined);
  await pass(HOUR);
  await settled(1);
  await pass(HOUR);
  expect((await ask('/forms/example.test%2Fbrief/submissions')).json).toMatchObject({ count: 0 });
  expect(mx.mails.list()).toHaveLength(1);
});

test('what a mail said is kept for a week, who got it for a month', async () => {
  const { ask, pass, settled } = await start();
  const attachments = [{ filename: 'a.txt', content: Buffer.from('A').toString('base64') }];
  const mail = { to: 'ana@inbox.test', subject: 'Order 7', text: 'Thank you', html: '<p>Thank you', attachments };
  const sent = await ask('/email/send', { method: 'POST', body: JSON.stringify(mail) });
  expect(sent.status).toBe(200);
  const { id } = sent.json as { id: string };
  await settled(1);
  expect((await ask(`/email/${id}`)).json).toMatchObject({ text: 'Thank you', html: '<p>Thank you' });
  await pass(7 * DAY + HOUR);
  const recipients = [{ address: 'ana@inbox.test', state: 'delivered', attempts: [{ outcome: 'delivered' }] }];
  const shown = (await ask(`/email/${id}`)).json;
  expect(shown).toMatchObject({ subject: 'Order 7', text: null, html: null, recipients, status: 'delivered' });
  expect(shown).toMatchObject({ attachments: [{ filename: 'a.txt', size: 1 }] });
  await pass(23 * DAY);
  expect((await ask(`/email/${id}`)).status).toBe(404);
});

test('the daemon does it by itself', async () => {
  const { post, clock, settled, daemon } = await start();
  expect((await post('/example.test/contact', { message: 'Hello' })).status).toBe(200);
  await settled(1);
  clock.advance(91 * DAY);
  const left = daemon.store.read.selectFrom('submissions').select('id');
  await expect.poll(async () => (await left.execute()).length).toBe(0);
});
