/** What the owner of a form gets by mail and does by its links, with the whole daemon and a real mail server. */
import { createSecretKey } from 'node:crypto';
import { simpleParser } from 'mailparser';
import { describe, expect, test } from 'vitest';
import { createDigests } from '../../src/forms/digest.ts';
import { OWNER_LINKS, ownerToken } from '../../src/forms/owner-links.ts';
import { systemClock } from '../../src/lib/clock.ts';
import { obtainSecret } from '../../src/store/secrets.ts';
import { OPERATOR } from '../../src/store/tenants.ts';
import { startTestWorld, type TestWorld } from '../harness/daemon.ts';
import { testKey } from '../harness/keys.ts';

const SITE = `
project: { name: Site, slug: site, owner: owner@inbox.test }
settings: { rate_limit: 100000, timezone: Europe/Berlin }
domains:
  example.test:
    forms:
      contact:
        name: Contact form
        to: [owner@inbox.test, team@inbox.test]
        uploads: { enabled: true }
        fields:
          phone: { type: tel }
          budget: { label: What can you spend?, owner_label: Budget }
      quotes: { name: Quotes, to: owner@inbox.test }
`;
const HEADERS = { Accept: 'application/json', Origin: 'https://example.test' };
const DAY = 86_400_000;

interface Read {
  readonly to: string;
  readonly from: string;
  readonly subject: string;
  readonly replyTo: string | undefined;
  readonly text: string;
  readonly html: string;
  readonly headers: ReadonlyMap<string, unknown>;
  /** The paths of its links, by their labels. */
  readonly links: Readonly<Record<string, string>>;
}

/** The mails to this address, newest first. */
async function mailsTo(world: TestWorld, address: string): Promise<Read[]> {
  const own = world.mx.mails.list().filter(({ envelope }) => envelope.to.includes(address));
  return Promise.all(
    own.map(async (mail) => {
      const {
        from,
        subject = '',
        replyTo,
        text = '',
        html,
        headers,
      } = await simpleParser(await world.mx.mails.source(mail));
      const found = [...text.matchAll(/^([^\n]+):\nhttps?:\/\/[^/\n]+(\/s\/[\w.-]+)$/gm)];
      return {
        to: address,
        from: from?.text ?? '',
        subject,
        replyTo: replyTo?.text,
        text,
        html: typeof html === 'string' ? html : '',
        headers,
        links: Object.fromEntries(found.map(([, label = '', path = '']) => [label, path])),
      };
    }),
  );
}

async function newestTo(world: TestWorld, address: string, count: number): Promise<Read> {
  await expect.poll(async () => (await mailsTo(world, address)).length).toBeGreaterThanOrEqual(count);
  const [newest] = (await mailsTo(world, address)).toSorted((a, b) => order(b) - order(a));
  if (newest === undefined) throw new Error('no mail');
  return newest;
}

function order({ headers }: Read): number {
  const date = headers.get('date');
  return date instanceof Date ? date.getTime() : 0;
}

async function page(world: TestWorld, path: string | undefined, method = 'GET') {
  const response = await fetch(`${world.url}${path}`, { method, headers: { 'Accept-Language': 'en' } });
  const html = await response.text();
  const heading = /<h1>(.*?)<\/h1>/s.exec(html)?.[1];
  return { status: response.status, headers: response.headers, html, heading };
}

async function api(world: TestWorld, method: string, path: string): Promise<Record<string, unknown>> {
  const { headers } = await testKey(world.daemon.store, { tenant: OPERATOR });
  const response = await fetch(world.url + path, { method, headers });
  return (await response.json()) as Record<string, unknown>;
}

async function statusOf(world: TestWorld, id: string): Promise<unknown> {
  return (await api(world, 'GET', `/submissions/${id}`))['status'];
}

async function submit(world: TestWorld, path: string, fields: Record<string, string> | FormData): Promise<string> {
  const response = await world.post(path, fields, HEADERS);
  const { id } = (await response.json()) as { id?: string };
  return id ?? '';
}

test('a notification names the visitor, and each recipient has links of its own', async () => {
  const world = await startTestWorld({ projects: { 'site.yml': SITE } });
  const form = new FormData();
  for (const [name, value] of Object.entries({
    first_name: 'Zoë',
    last_name: 'Müller',
    email: 'zoe@inbox.test',
    phone: '+49 (0)30 123 456',
    company: '',
    budget: '100',
    subject: 'A new roof',
    message: 'Hello',
  }))
    form.append(name, value);
  form.append('plan', new Blob(['<script>alert(1)</script>'], { type: 'text/html' }), 'plan "1".html');
  const id = await submit(world, '/example.test/contact', form);
  const mail = await newestTo(world, 'owner@inbox.test', 1);
  expect(mail).toMatchObject({
    from: '"Zoë Müller via Contact form" <forms@example.test>',
    subject: 'Contact form: Zoë Müller – A new roof',
    replyTo: '"Zoë Müller" <zoe@inbox.test>',
  });
  expect(mail.text).toContain('Budget\n  100\n');
  expect(mail.text).not.toMatch(/What can you spend|Company/);
  expect(mail.text).toMatch(/Contact form on example\.test, \d+ \w+ \d{4} at \d\d:\d\d (?:CET|CEST|GMT\+[12])\n/);
  expect(mail.html).toContain('href="tel:+4930123456"');
  expect(mail.html).toContain('href="mailto:zoe@inbox.test"');
  expect([mail.headers.has('in-reply-to'), mail.headers.has('references')]).toEqual([false, false]);
  expect(Object.keys(mail.links)).toEqual(['View this submission', 'Mark as spam', 'Stop these emails']);
  const other = await newestTo(world, 'team@inbox.test', 1);
  expect(other.links['Stop these emails']).not.toBe(mail.links['Stop these emails']);
  expect(other.headers.get('message-id')).not.toBe(mail.headers.get('message-id'));

  // View: the submission and its files, and nothing of the visitor's is markup.
  const view = await page(world, mail.links['View this submission']);
  expect([view.status, view.heading]).toEqual([200, 'Zoë Müller']);
  expect(view.html).toContain('<dt>Budget</dt><dd><bdi>100</bdi></dd>');
  expect(view.headers.get('x-robots-tag')).toBe('noindex');
  expect(view.headers.get('cache-control')).toBe('no-store');
  expect(view.headers.get('content-security-policy')).toContain("default-src 'none'");
  const [, href = ''] = /href="([^"]+\/files\/[^"]+)"/.exec(view.html) ?? [];
  const file = await fetch(`${world.url}/s/${href}`);
  expect(await file.text()).toBe('<script>alert(1)</script>');
  expect(file.headers.get('content-type')).toBe('application/octet-stream');
  expect(file.headers.get('content-disposition')).toMatch(/^attachment; /);
  expect(file.headers.get('x-content-type-options')).toBe('nosniff');
  // Only the link that shows the submission leads to its files.
  const spamFile = href.replace(/^[^/]+/, (mail.links['Mark as spam'] ?? '').slice('/s/'.length));
  expect((await page(world, `/s/${spamFile}`)).status).toBe(404);

  // Mark as spam: a look does nothing, a POST does it once, and it can be taken back.
  const spam = mail.links['Mark as spam'];
  expect((await page(world, spam)).heading).toBe('Mark the submission from Zoë Müller as spam?');
  expect((await page(world, spam, 'HEAD')).status).not.toBe(500);
  expect(await statusOf(world, id)).toBe('accepted');
  const marked = await page(world, spam, 'POST');
  expect([marked.status, marked.heading]).toEqual([200, 'Marked as spam']);
  expect(await statusOf(world, id)).toBe('spam');
  const [, back = ''] = /<p><a href="([^"]+)">Not spam<\/a>/.exec(marked.html) ?? [];
  expect((await page(world, `/s/${back}`, 'POST')).heading).toBe('Released');
  expect(await statusOf(world, id)).toBe('accepted');
  expect((await page(world, spam, 'POST')).heading).toBe('This link has already been used');
  expect(await statusOf(world, id)).toBe('accepted');
});

test('a recipient stops the mails of one form, and the owner starts them again', async () => {
  const world = await startTestWorld({ projects: { 'site.yml': SITE } });
  await submit(world, '/example.test/contact', { name: 'Ana', message: 'one' });
  const { links } = await newestTo(world, 'owner@inbox.test', 1);
  await newestTo(world, 'team@inbox.test', 1);
  const stop = links['Stop these emails'];
  expect((await page(world, stop)).html).toContain('owner@inbox.test');
  expect((await page(world, stop, 'POST')).heading).toBe('Emails stopped');
  const id = await submit(world, '/example.test/contact', { name: 'Ben', message: 'two' });
  await submit(world, '/example.test/quotes', { name: 'Cid', message: 'three' });
  // The other recipient, and the other form, go on.
  await newestTo(world, 'team@inbox.test', 2);
  await expect
    .poll(async () => (await mailsTo(world, 'owner@inbox.test')).map(({ subject }) => subject))
    .toEqual(['Quotes: Cid', 'Contact form: Ana']);
  await expect
    .poll(async () => (await api(world, 'GET', `/submissions/${id}`))['deliveries'])
    .toMatchObject([
      { recipient: 'owner@inbox.test', state: 'suppressed' },
      { recipient: 'team@inbox.test', state: 'delivered' },
    ]);
  expect((await api(world, 'GET', '/suppressions'))['suppressions']).toMatchObject([
    { address: 'owner@inbox.test', form: 'example.test/contact', reason: 'unsubscribe' },
  ]);
  await api(world, 'DELETE', '/suppressions/owner@inbox.test?form=example.test/contact');
  await submit(world, '/example.test/contact', { name: 'Dan', message: 'four' });
  await expect
    .poll(async () => (await mailsTo(world, 'owner@inbox.test')).map(({ subject }) => subject))
    .toContain('Contact form: Dan');
  // The link was used: it does not stop them again.
  expect((await page(world, stop, 'POST')).heading).toBe('This link has already been used');
  expect((await api(world, 'GET', '/suppressions'))['count']).toBe(0);
});

test('links that were cut off, changed, made by others or have expired do nothing', async () => {
  const world = await startTestWorld({ projects: { 'site.yml': SITE } });
  const id = await submit(world, '/example.test/quotes', { name: 'Ana', message: 'one' });
  const { links } = await newestTo(world, 'owner@inbox.test', 1);
  const spam = links['Mark as spam'] ?? '';
  const key = createSecretKey(await obtainSecret(world.daemon.store, OWNER_LINKS, 0));
  const foreign = createSecretKey(Buffer.alloc(32, 1));
  const link = { action: 'spam', submission: id } as const;
  const later = systemClock.now() + DAY;
  const wrong = [
    spam.slice(0, -1),
    `${spam.slice(0, -1)}${spam.endsWith('A') ? 'B' : 'A'}`,
    spam.replace('/s/', '/s/A'),
    `/s/${ownerToken(link, later, foreign)}`,
    `/s/${ownerToken(link, systemClock.now() - 1, key)}`,
    `/s/${ownerToken({ ...link, submission: 'sub_none' }, later, key)}`,
    '/s/x.y',
  ];
  for (const path of wrong) {
    const { status, heading } = await page(world, path, 'POST');
    expect([path, status, heading]).toEqual([path, 404, 'This link does not work']);
  }
  expect(await statusOf(world, id)).toBe('accepted');
});

const PAYLOADS = [
  '<script>alert(1)</script>',
  '"><img src=x onerror=alert(1)>',
  "' onmouseover='alert(1)",
  'x\r\nBcc: victim@inbox.test\r\n\r\n<b>body</b>',
  'x\nSubject: forged',
  '{{ form | json }}{% assign a = 1 %}',
  'javascript:alert(1)',
  '\u202Egnp.exe',
  '=?utf-8?Q?=0ABcc:_victim@inbox.test?=',
];

describe.each(PAYLOADS)('%j in every field', (payload) => {
  test('adds no header, no recipient and no markup to mail and page', async () => {
    const world = await startTestWorld({
      projects: { 'site.yml': SITE.replace('[owner@inbox.test, team@inbox.test]', 'owner@inbox.test') },
    });
    const form = new FormData();
    for (const name of ['name', 'first_name', 'subject', '_subject', 'mobile', 'message', 'budget', payload])
      form.append(name, payload);
    form.append('file', new Blob(['x']), payload);
    const response = await world.post('/example.test/contact', form, {
      ...HEADERS,
      Referer: 'https://example.test/<b>',
    });
    const { id = '' } = (await response.json()) as { id?: string };
    if (id === '') {
      const { submissions } = await api(world, 'GET', '/forms/example.test/contact/submissions?status=spam');
      const [{ id: blocked }] = submissions as [{ id: string }];
      await api(world, 'POST', `/submissions/${blocked}/ham`);
    }
    const mail = await newestTo(world, 'owner@inbox.test', 1);
    expect(mail.headers.has('bcc')).toBe(false);
    expect(mail.from).toMatch(/<forms@example\.test>$/);
    expect(mail.from.replace(/<forms@example\.test>$/, '')).not.toMatch(/[@<>]|\u202e/);
    for (const html of [mail.html, (await page(world, mail.links['View this submission'])).html]) {
      expect(html).not.toMatch(/<script|<img|<b>|<[a-z][^>]*\son\w+=/i);
      expect(html).not.toMatch(/href="(?!https?:|mailto:|tel:|data:,"|[\w-]+\.[\w-]+)/);
    }
    expect(world.mx.mails.list().flatMap(({ envelope }) => envelope.to)).toEqual(['owner@inbox.test']);
  });
});

/** Runs the job of one daemon, so much later. */
async function digestAt(world: TestWorld, days: number): Promise<void> {
  const { store, snapshot } = world.daemon;
  const clock = { ...systemClock, now: () => systemClock.now() + days * DAY };
  const ownerKey = createSecretKey(await obtainSecret(store, OWNER_LINKS, 0));
  await createDigests({ store, clock, snapshot, ownerKey, wake: () => undefined })();
}

const SPAM = { name: 'Kevin <b>', email: 'kevin@inbox.test', message: 'See https://evil.example/x now', _gotcha: 'x' };

describe('the digest', () => {
  test('tells once what was kept as spam, and its links release and confirm', async () => {
    const world = await startTestWorld({ projects: { 'site.yml': SITE } });
    const begun = () => world.daemon.store.read.selectFrom('digests').selectAll().execute();
    await expect.poll(async () => (await begun()).length).toBe(1);
    for (const name of ['Kevin', 'Mallory', 'Trudy']) await submit(world, '/example.test/quotes', { ...SPAM, name });
    // Of several daemons, and after a crash between two looks.
    await Promise.all([digestAt(world, 1), digestAt(world, 1)]);
    await digestAt(world, 1);
    await world.tryNow();
    const mail = await newestTo(world, 'owner@inbox.test', 1);
    expect(mail.subject).toBe('Site: 3 submissions were kept as spam');
    expect(mail.text).toContain(
      'Kevin <kevin@inbox.test>\nSee https: //evil[.]example/x now\nthe field _gotcha was filled in',
    );
    expect(mail.html).not.toMatch(/href="https?:\/\/evil|<b>/);
    expect(mail.html).toContain('evil[.]example');
    const entries = mail.text.split('----').slice(1);
    const linkIn = (name: string, label: string) => {
      const entry = entries.find((text) => text.includes(name)) ?? '';
      return new RegExp(`${label}:\n\\S+(/s/\\S+)`).exec(entry)?.[1];
    };
    expect((await page(world, linkIn('Mallory', 'Not spam: release'))).heading).toBe(
      'Release the submission from Mallory?',
    );
    expect((await page(world, linkIn('Mallory', 'Not spam: release'), 'POST')).heading).toBe('Released');
    await expect
      .poll(async () => (await mailsTo(world, 'owner@inbox.test')).map(({ subject }) => subject))
      .toContain('Quotes: Mallory');
    expect((await page(world, linkIn('Trudy', 'It is spam'))).heading).toBe('Is the submission from Trudy spam?');
    expect((await page(world, linkIn('Trudy', 'It is spam'), 'POST')).heading).toBe('Marked as spam');
    const all = mail.links['None of them is spam: release all'];
    expect((await page(world, all)).heading).toBe('Release 2 submissions?');
    expect((await page(world, all, 'POST')).heading).toBe('2 submissions released');
    expect((await page(world, all, 'POST')).heading).toBe('There is nothing left to decide');
    const listed = await api(world, 'GET', '/forms/example.test/quotes/submissions?status=spam');
    expect(listed['count']).toBe(0);
    // Nothing more happened: nothing more is told.
    const before = world.mx.mails.list().length;
    await digestAt(world, 2);
    await world.tryNow();
    expect(await world.queue()).not.toContainEqual(expect.objectContaining({ kind: 'system', state: 'queued' }));
    expect(world.mx.mails.list().length).toBeGreaterThanOrEqual(before);
    expect(
      (await mailsTo(world, 'owner@inbox.test')).filter(({ subject }) => subject.startsWith('Site:')),
    ).toHaveLength(1);
  });

  test('is not sent where it is off, or weekly on other days', async () => {
    const site = (digest: string) =>
      SITE.replace('owner: owner@inbox.test', `owner: owner@inbox.test, digest: ${digest}`);
    const off = await startTestWorld({ projects: { 'site.yml': site('off') } });
    await submit(off, '/example.test/quotes', SPAM);
    await digestAt(off, 1);
    await digestAt(off, 8);
    const weekly = await startTestWorld({ projects: { 'site.yml': site('weekly') } });
    const begun = () => weekly.daemon.store.read.selectFrom('digests').selectAll().execute();
    await expect.poll(async () => (await begun()).length).toBe(1);
    await submit(weekly, '/example.test/quotes', SPAM);
    for (let days = 1; days <= 7; days++) await digestAt(weekly, days);
    await weekly.tryNow();
    expect((await newestTo(weekly, 'owner@inbox.test', 1)).subject).toBe('Site: one submission was kept as spam');
    expect(await mailsTo(weekly, 'owner@inbox.test')).toHaveLength(1);
    expect(await mailsTo(off, 'owner@inbox.test')).toEqual([]);
  });
});
