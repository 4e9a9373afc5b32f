/** The filter learns from what owners decide, and sees what is posted to several forms. */
import { describe, expect, test } from 'vitest';
import { createSpamProtection } from '../../src/forms/spam/filter.ts';
import { createSpamServices } from '../../src/forms/spam/services.ts';
import { readText } from '../../src/forms/spam/text.ts';
import { createRepetition, visitReasons } from '../../src/forms/spam/signs.ts';
import { extract, readModel } from '../../src/forms/spam/model.ts';
import type { HttpReply, HttpRequest } from '../../src/dns/guarded-fetch.ts';
import { silentLog } from '../../src/lib/log.ts';
import { findLearned } from '../../src/store/spam.ts';
import { OPERATOR } from '../../src/store/tenants.ts';
import { testClock } from '../harness/clock.ts';
import { startHttp } from '../harness/http.ts';
import { formOf, snapshotOf } from './world.ts';

const OFFER =
  'Our orchard has plenty of quinces this autumn, and whoever orders a crate before Friday gets jars of jelly on top. Greetings from the hills above the river.';
const SIMILAR =
  'Our orchard has plenty of apples this autumn, and whoever orders a crate before Sunday gets jars of jelly on top. Greetings from the hills above the river.';
const OTHER =
  'Good morning, my bicycle makes a strange noise since the repair last week. Can I bring it back on Tuesday?';

describe('what owners decide', () => {
  async function open() {
    const http = await startHttp({
      clock: testClock(),
      forms: { contact: { to: 'owner@example.com', spam_protection: { on_spam: 'silent' } } },
    });
    return {
      ...http,
      async post(message: string, more: Record<string, string> = {}) {
        const body = new URLSearchParams({ name: 'Ana', email: 'ana@example.org', message, ...more });
        const headers = { Accept: 'application/json' };
        return String((await http.request('/example.com/contact', { method: 'POST', body, headers })).json()['id']);
      },
      async decide(id: string, verb: 'spam' | 'ham') {
        const answer = await http.request(`/v1/submissions/${id}/${verb}`, { method: 'POST', local: true });
        expect(answer.status).toBe(200);
      },
      async statusOf(id: string) {
        return (await http.request(`/v1/submissions/${id}`, { local: true })).json()['status'];
      },
    };
  }

  test('is learned for texts like it, and taken back', async () => {
    const { post, decide, statusOf } = await open();
    const earlier = await post(OTHER);
    const first = await post(OFFER);
    expect([await statusOf(earlier), await statusOf(first)]).toEqual(['accepted', 'accepted']);
    await decide(first, 'spam');
    // A decision is learned once: repeating it changes nothing.
    await decide(first, 'spam');
    const second = await post(SIMILAR);
    expect(await statusOf(second)).toBe('spam');
    expect(await statusOf(await post(OTHER))).toBe('accepted');
    await decide(second, 'ham');
    expect(await statusOf(await post(SIMILAR))).toBe('accepted');
  });

  test('is learned of what was caught anyway, once', async () => {
    const { post, decide, statusOf, store } = await open();
    const caught = await post(OFFER, { _gotcha: 'x' });
    expect(await statusOf(caught)).toBe('spam');
    await decide(caught, 'spam');
    const learned = await findLearned(store, OPERATOR, 'example');
    expect(learned).toMatchObject({ decisions: 1 });
    await decide(caught, 'spam');
    expect(await findLearned(store, OPERATOR, 'example')).toEqual(learned);
    expect(await statusOf(await post(SIMILAR))).toBe('spam');
  });

  test('is in the database, where the next daemon finds it', async () => {
    const { post, decide, store } = await open();
    await decide(await post(OFFER), 'spam');
    const clock = testClock();
    const parts = { store, clock, log: silentLog, snapshot: snapshotOf, refusesMail: () => Promise.resolve(false) };
    const { filter } = createSpamProtection({
      ...parts,
      http: { request: () => Promise.reject(new Error('not asked')) },
    });
    const { project, ...rest } = formOf();
    if (project === undefined) throw new Error('the form is of no project');
    const form = { ...rest, project: { ...project, slug: 'example' } };
    const input = { fields: [['message', SIMILAR]] as const, control: { trapped: [] }, ip: '192.0.2.7' };
    expect(await filter(form, input)).toMatchObject({ verdict: 'spam' });
    expect(await filter({ ...form, tenant: 'ten_other' }, input)).toMatchObject({ verdict: 'accept' });
  });
});

describe('what was posted to other forms', () => {
  const model = readModel();

  function start() {
    const repetition = createRepetition(testClock());
    return (message: string, form: string, domain: string) => {
      const text = readText({ fields: [['message', message]], control: {} }, domain);
      const { words } = extract(text);
      return repetition.note({ words, links: text.links, email: undefined, form, domain });
    };
  }

  function sum(reasons: ReturnType<ReturnType<typeof start>>): number {
    return reasons.reduce((points, { score }) => points + score, 0);
  }

  test('the same text scores more with each form, another greeting or not; one form alone never', () => {
    const note = start();
    for (let i = 0; i < 20; i++) expect(sum(note(OFFER, 'a.example/contact', 'a.example'))).toBe(0);
    const scores = ['b', 'c', 'd', 'e', 'f'].map((name) =>
      sum(note(`Dear ${name}, ${OFFER}`, `${name}.example/contact`, `${name}.example`)),
    );
    expect(scores).toEqual([4, 12, 20, 26, 30]);
  });

  test('a link to one domain counts, but not alone, and neither the form’s own nor one that everybody has', () => {
    const note = start();
    const posts = (link: string) =>
      ['a', 'b', 'c', 'd', 'e', 'f', 'g', 'h'].map((name) =>
        sum(note(`See ${link}`, `${link}${name}/contact`, `${name}.example`)),
      );
    expect(posts('https://pills-now.com/x').at(-1)).toBe(12);
    expect(posts('https://www.youtube.com/watch').at(-1)).toBe(0);
    expect(sum(note('See https://h.example/page', 'h.example/contact', 'h.example'))).toBe(0);
  });

  test('short texts are alike by chance', () => {
    const note = start();
    const scores = ['a', 'b', 'c', 'd'].map((name) => sum(note('Please call me back', name, `${name}.example`)));
    expect(scores).toEqual([0, 0, 0, 0]);
  });

  test('is known after a restart, from the submissions that are stored', async () => {
    const http = await startHttp({ forms: { contact: {}, other: {}, third: {} } });
    for (const form of ['contact', 'other', 'third']) {
      const body = new URLSearchParams({ message: OFFER });
      await http.request(`/example.com/${form}`, { method: 'POST', body, headers: { Accept: 'application/json' } });
    }
    const { filter, catchUp } = createSpamProtection({
      store: http.store,
      clock: testClock(),
      log: silentLog,
      snapshot: snapshotOf,
      refusesMail: () => Promise.resolve(false),
      http: { request: () => Promise.reject(new Error('not asked')) },
    });
    await catchUp();
    const form = { ...formOf(), id: 'fourth.example/contact', domain: 'fourth.example' };
    const { reasons } = await filter(form, { fields: [['message', OFFER]], control: { trapped: [] }, ip: '' });
    expect(reasons).toContainEqual(expect.objectContaining({ name: 'repeated_text', score: 20 }));
    expect(model.words.length).toBe(2 ** 20);
  });
});

describe('services', () => {
  const spam_protection = {
    akismet: { key: 'k', url: 'https://akismet.example' },
    rspamd: { url: 'http://rspamd.example:11334', password: 'p' },
  };
  const form = formOf({ form: { spam_protection } });
  const input = {
    fields: [
      ['name', 'Ana'],
      ['email', 'ana@example.org'],
      ['message', 'Hello'],
    ] as const,
    control: { trapped: [] },
    ip: '192.0.2.7',
  };

  function start(answer: (request: HttpRequest) => HttpReply) {
    const asked: HttpRequest[] = [];
    const http = {
      request(request: HttpRequest) {
        asked.push(request);
        return Promise.resolve(answer(request));
      },
    };
    return { asked, services: createSpamServices({ http, log: silentLog }) };
  }

  function answered(text: string, status = 200): HttpReply {
    return { kind: 'answered', status, retryAfter: undefined, text };
  }

  test('are asked as their interfaces want it, and say why', async () => {
    const { asked, services } = start(({ url }) =>
      url.includes('akismet') ? answered('true') : answered('{"score":17.5,"required_score":15,"action":"reject"}'),
    );
    expect(await services.ask(form, input)).toEqual([
      { name: 'akismet', score: 20, detail: 'akismet.example' },
      { name: 'rspamd', score: 20, detail: 'reject, 17.5 of 15' },
    ]);
    expect(asked.map(({ url }) => url)).toEqual([
      'https://akismet.example/1.1/comment-check',
      'http://rspamd.example:11334/checkv2',
    ]);
    expect(Object.fromEntries(new URLSearchParams(asked[0]?.body))).toMatchObject({
      api_key: 'k',
      user_ip: '192.0.2.7',
      comment_author: 'Ana',
      comment_author_email: 'ana@example.org',
    });
    expect(asked[1]).toMatchObject({ headers: { ip: '192.0.2.7', password: 'p' } });
    expect(asked[1]?.body).toContain('From: <ana@example.org>\r\n');
  });

  test.each([
    ['fails', () => ({ kind: 'failed', reason: 'no answer' }) as const],
    ['is refused', () => ({ kind: 'refused', reason: 'leads to a private network' }) as const],
    ['answers nonsense', () => answered('<html>')],
    ['answers 500', () => answered('true', 500)],
    [
      'calls it honest',
      ({ url }: HttpRequest) =>
        answered(url.includes('akismet') ? 'false' : '{"score":1,"required_score":15,"action":"greylist?"}'),
    ],
  ])('say nothing where one %s', async (_, answer) => {
    expect(await start(answer).services.ask(form, input)).toEqual([]);
  });
});

describe('the request', () => {
  const chrome =
    'Mozilla/5.0 (X11; Linux x86_64) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/141.0.0.0 Safari/537.36';

  test.each([
    ['a browser', { headers: { 'user-agent': chrome, 'accept-language': 'de', 'sec-fetch-site': 'same-origin' } }, 0],
    ['a browser without TLS', { headers: { 'user-agent': chrome, 'accept-language': 'de' } }, 0],
    [
      'a browser over TLS that sends no Sec-Fetch',
      { isSecure: true, headers: { 'user-agent': chrome, 'accept-language': 'de' } },
      4,
    ],
    ['neither header', { isSecure: true, headers: { 'user-agent': chrome } }, 8],
    ['a program', { headers: { 'user-agent': 'python-requests/2.32' } }, 2],
    ['a program with a key', { hasKey: true, headers: { 'user-agent': 'python-requests/2.32' } }, 0],
    ['nothing known', {}, 0],
    ['a valid token', { token: 'valid' }, 0],
    ['a missing token', { token: 'missing' }, 0],
    ['a form filled in sooner than people write', { token: 'too fast' }, 12],
    ['a challenge that was passed', { challenge: 'passed' }, -4],
  ] as const)('%s', (_, visit, points) => {
    expect(visitReasons(visit).reduce((all, { score }) => all + score, 0)).toBe(points);
  });
});
