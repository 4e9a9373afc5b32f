/** Forms of every kind, from the post to the mail that arrives. */
import { simpleParser } from 'mailparser';
import { expect, test } from 'vitest';
import { z } from 'zod';
import { OPERATOR } from '../../src/store/tenants.ts';
import { startTestWorld, type TestWorld } from '../harness/daemon.ts';
import { testKey, type TestKey } from '../harness/keys.ts';

const JSON_ANSWER = { Accept: 'application/json' };
const HOST = 'mail.postern.test';

const PROJECT = `
project: { name: Site, slug: site, owner: owner@inbox.test }
settings: { rate_limit: 100000 }
domains:
  example.test:
    default_form: contact
    forms:
      contact: { name: Contact form, to: owner@inbox.test }
      jobs: { to: jobs@inbox.test }
collections:
  partners:
    name: Partner forms
    forms:
      signup: { email: partners@inbox.test, name: Partner sign-up, template: partner }
templates:
  partner: { subject: 'Partner {{ form.company }}', text: 'From {{ form_name }}: {{ form.company }}' }
`;

async function api(world: TestWorld, key: TestKey, [method, path, body]: [string, string, object?]) {
  const response = await fetch(world.url + path, {
    method,
    headers: { ...key.headers, ...(body === undefined ? {} : { 'Content-Type': 'application/json' }) },
    ...(body === undefined ? {} : { body: JSON.stringify(body) }),
  });
  const json = (await response.json()) as Record<string, unknown>;
  return { status: response.status, json, path: new URL(z.string().catch(world.url).parse(json['endpoint'])).pathname };
}

/** The mail number `index`, in the order caught: who it is from and to, what signed it, what it says. */
async function arrived(world: TestWorld, to: string) {
  for (let i = 0; i < 1000; i++) {
    const mail = world.mx.mails.list().find(({ envelope }) => envelope.to.includes(to));
    if (mail?.verdicts !== undefined) {
      const { from, subject, text } = await simpleParser(await world.mx.mails.source(mail));
      const { dkim, dmarc } = mail.verdicts;
      return { from: from?.text, subject, text, dkim: dkim.map(({ result, domain }) => `${result} ${domain}`), dmarc };
    }
    await new Promise((wait) => setTimeout(wait, 10));
  }
  throw new Error(`no mail to ${to} was caught`);
}

test('each of the six routes brings its submission to the recipient, signed by the domain or by the server', async () => {
  const world = await startTestWorld({ projects: { 'site.yml': PROJECT } });
  const key = await testKey(world.daemon.store, { tenant: OPERATOR });
  const made = await api(world, key, [
    'POST',
    '/api/forms',
    { name: 'By API', to: 'api@inbox.test', subject: 'Hi {{ form.name }}' },
  ]);
  const instant = await api(world, key, ['POST', '/instant/forms', { name: 'Instant', email: 'instant@inbox.test' }]);
  const posts: [path: string, headers: Record<string, string>, who: string][] = [
    ['/example.test/contact', {}, 'One'],
    ['/v1/example.test/jobs', {}, 'Two'],
    ['/v1/example.test/send', {}, 'Three'],
    ['/c/partners/signup', {}, 'Four'],
    [made.path, {}, 'Five'],
    [instant.path, {}, 'Six'],
    ['/submit/jobs', { Origin: 'https://www.example.test' }, 'Seven'],
    [`/submit/${String(made.json['id'])}`, {}, 'Eight'],
  ];
  for (const [path, headers, name] of posts) {
    const answer = await world.post(path, { name, company: name, message: 'Hello' }, { ...JSON_ANSWER, ...headers });
    expect([path, answer.status]).toEqual([path, 200]);
    expect(await answer.json()).toMatchObject({
      success: true,
      message: 'Your message has been sent.',
      id: expect.stringMatching(/^sub_/),
    });
  }
  await world.caught(posts.length);
  const signed = { dkim: [`pass ${HOST}`], dmarc: { result: 'none' } };
  expect(await arrived(world, 'jobs@inbox.test')).toMatchObject({
    dkim: ['pass example.test'],
    from: '"Seven via jobs" <forms@example.test>',
  });
  expect(await arrived(world, 'partners@inbox.test')).toMatchObject({
    ...signed,
    from: `"Four via Partner sign-up" <forms@${HOST}>`,
    subject: 'Partner Four',
    text: expect.stringContaining('From Partner sign-up: Four'),
  });
  expect(await arrived(world, 'api@inbox.test')).toMatchObject({
    ...signed,
    from: expect.stringMatching(/^"(?:Five|Eight) via By API" </),
    subject: expect.stringMatching(/^Hi (Five|Eight)$/),
  });
  expect(await arrived(world, 'instant@inbox.test')).toMatchObject({
    ...signed,
    from: expect.stringMatching(/^"\w+ via Instant" </),
    subject: expect.stringMatching(/^Instant: \w+$/),
  });
  const { json } = await api(world, key, ['GET', '/v1/forms']);
  expect(json['forms']).toMatchObject([
    { id: 'c/partners/signup', submissions: 1, source: 'file', endpoint: `${world.url}/c/partners/signup` },
    { id: 'example.test/contact', submissions: 2 },
    { id: 'example.test/jobs', submissions: 2, to: 'jobs@inbox.test' },
    { id: made.json['id'], submissions: 2, source: 'api', subject: 'Hi {{ form.name }}' },
  ]);
});

test('an instant form of another account mails nobody until its recipient agrees, and then what was kept', async () => {
  const world = await startTestWorld();
  const key = await testKey(world.daemon.store, { account: { trusted: 0, name: 'Stranger' } });
  const instant = await api(world, key, ['POST', '/v1/instant/forms', { name: 'Guests', email: 'host@inbox.test' }]);
  expect(instant.json).toMatchObject({ name: 'Guests', email: 'host@inbox.test', submissions: 0, confirmed: false });
  const letter = await arrived(world, 'host@inbox.test');
  expect(letter).toMatchObject({ from: `"Postern" <postern@${HOST}>`, dkim: [`pass ${HOST}`] });
  for (const name of ['Ann', 'Bea', 'Cid']) {
    expect((await world.post(instant.path, { name }, JSON_ANSWER)).status).toBe(200);
  }
  const spam = await world.post(instant.path, { name: 'Robot', _gotcha: 'x' }, JSON_ANSWER);
  expect(spam.status).toBe(400);
  expect(world.mx.mails.list()).toHaveLength(1);

  const [, token = ''] = /\/confirm\/(\S+)/.exec(letter.text ?? '') ?? [];
  const link = `${world.url}/confirm/${token}`;
  expect(await (await fetch(link)).text()).toContain('Stranger');
  expect(world.mx.mails.list()).toHaveLength(1);
  expect((await fetch(link, { method: 'POST' })).status).toBe(200);
  expect((await fetch(link, { method: 'POST' })).status).toBe(200);
  await world.post(instant.path, { name: 'Dora' }, JSON_ANSWER);
  const mails = await world.caught(5);
  const texts = await Promise.all(
    mails.list().map(async (mail) => (await simpleParser(await mails.source(mail))).text ?? ''),
  );
  for (const name of ['Ann', 'Bea', 'Cid', 'Dora']) {
    expect(texts.filter((text) => text.includes(name))).toHaveLength(1);
  }
  expect(texts.some((text) => text.includes('Robot'))).toBe(false);
  const listed = await api(world, key, ['GET', '/instant/forms']);
  expect(listed.json).toMatchObject({ count: 1, forms: [{ confirmed: true, submissions: 4 }] });
});

test('mail that a test key causes is captured, and never leaves', async () => {
  const world = await startTestWorld({ projects: { 'site.yml': PROJECT } });
  const { store } = world.daemon;
  const key = await testKey(store, { tenant: OPERATOR, environment: 'test' });
  const answer = await world.post('/c/partners/signup', { company: 'Acme' }, { ...JSON_ANSWER, ...key.headers });
  expect(answer.status).toBe(200);
  await world.post('/example.test/jobs', { name: 'Live' }, JSON_ANSWER);
  expect(await arrived(world, 'jobs@inbox.test')).toMatchObject({ text: expect.stringContaining('Live') });
  const theirs = async () => (await world.queue()).filter(({ recipient }) => recipient === 'partners@inbox.test');
  await expect.poll(theirs).toMatchObject([{ state: 'captured' }]);
  expect(world.mx.mails.list()).toHaveLength(1);
});

test('what was accepted before a form by API was deleted still arrives', async () => {
  const world = await startTestWorld();
  const key = await testKey(world.daemon.store, { tenant: OPERATOR });
  const collection = { name: 'events', title: 'Events', settings: {}, forms: { rsvp: { email: 'events@inbox.test' } } };
  expect((await api(world, key, ['POST', '/collections', collection])).status).toBe(200);
  expect((await world.post('/c/events/rsvp', { name: 'Ann' }, JSON_ANSWER)).status).toBe(200);
  expect((await api(world, key, ['DELETE', '/collections/events'])).status).toBe(200);
  expect((await world.post('/c/events/rsvp', { name: 'Bob' }, JSON_ANSWER)).status).toBe(404);
  expect(await arrived(world, 'events@inbox.test')).toMatchObject({ text: expect.stringContaining('Ann') });
});
