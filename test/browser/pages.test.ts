/** Every page and mail that visitors and owners of forms meet, in four languages: each is judged by the rules of page-rules. */
import { simpleParser } from 'mailparser';
import type { Page } from 'playwright-core';
import { expect, test } from 'vitest';
import { entryOf, digestMail } from '../../src/forms/digest.ts';
import { translationOf } from '../../src/languages/languages.ts';
import { startSite, type Site, useBrowser, type Visitor } from '../harness/browser.ts';
import { startTestWorld, type TestWorld } from '../harness/daemon.ts';
import { expectGoodPage, expectReadable } from './page-rules.ts';

const openBrowser = useBrowser();

const LOGO = `data:image/svg+xml;base64,${Buffer.from(
  '<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 120 40"><rect width="120" height="40" rx="8" fill="#0a7d5a"/><circle cx="20" cy="20" r="10" fill="#ffcc00"/></svg>',
).toString('base64')}`;

interface Texts {
  readonly language: 'en' | 'de' | 'ar' | 'ja';
  readonly title: string;
  readonly foot: string;
  readonly labels: { readonly name: string; readonly topic: string; readonly days: string; readonly terms: string };
  readonly topics: readonly string[];
  readonly days: readonly string[];
  readonly visitor: string;
  readonly message: string;
}

const TEXTS: readonly Texts[] = [
  {
    language: 'en',
    title: 'Anna’s Bicycles',
    foot: 'Is it urgent? Call us: +49 30 1234567.',
    labels: { name: 'Your name', topic: 'Topic', days: 'Days that suit you', terms: 'I agree to the privacy policy' },
    topics: ['Repair', 'Complaint', 'Something else'],
    days: ['Monday', 'Tuesday', 'Wednesday'],
    visitor: 'Zoë Müller',
    message: 'Hello,\n\nthe rear wheel of my bicycle is bent. Could you have a look at it on Tuesday?\n\nZoë',
  },
  {
    language: 'de',
    title: 'Annas Fahrradwerkstatt',
    foot: 'Eilt es? Rufen Sie uns an: +49 30 1234567.',
    labels: {
      name: 'Ihr Name',
      topic: 'Thema',
      days: 'Passende Tage',
      terms: 'Ich stimme der Datenschutzerklärung zu',
    },
    topics: ['Reparatur', 'Beschwerde', 'Haftpflichtversicherungsangelegenheiten'],
    days: ['Montag', 'Dienstag', 'Mittwoch'],
    visitor: 'Zoë Müller',
    message: 'Guten Tag,\n\nmein Hinterrad ist verbogen. Könnten Sie es sich am Dienstag ansehen?\n\nZoë Müller',
  },
  {
    language: 'ar',
    title: 'ورشة آنا للدراجات',
    foot: 'هل الأمر عاجل؟ اتصل بنا: ‎+49 30 1234567',
    labels: { name: 'اسمك', topic: 'الموضوع', days: 'الأيام المناسبة', terms: 'أوافق على سياسة الخصوصية' },
    topics: ['تصليح', 'شكوى', 'شيء آخر'],
    days: ['الاثنين', 'الثلاثاء', 'الأربعاء'],
    visitor: 'فاطمة الزهراء',
    message: 'مرحبا،\n\nالعجلة الخلفية لدراجتي معوجة. هل يمكنكم فحصها يوم الثلاثاء؟\n\nشكرا',
  },
  {
    language: 'ja',
    title: 'アンナ自転車店',
    foot: 'お急ぎの方はお電話ください:+49 30 1234567',
    labels: { name: 'お名前', topic: '件名', days: 'ご都合のよい日', terms: 'プライバシーポリシーに同意します' },
    topics: ['修理', '苦情', 'その他'],
    days: ['月曜日', '火曜日', '水曜日'],
    visitor: '山田 花子',
    message: 'はじめまして。\n\n自転車の後輪が曲がってしまいました。火曜日に見ていただけますか。\n\n山田',
  },
];

function project({ language, title, foot, labels, topics, days }: Texts): string {
  const list = (values: readonly string[]) => JSON.stringify(values);
  return `
project: { name: Site, slug: site, owner: owner@inbox.test }
settings: { rate_limit: 1000 }
domains:
  example.test:
    forms:
      contact:
        name: ${JSON.stringify(title)}
        to: owner@inbox.test
        required: [name, email, message, terms]
        fields:
          name: { label: ${JSON.stringify(labels.name)} }
          email: { type: email }
          topic: { label: ${JSON.stringify(labels.topic)}, options: ${list(topics)} }
          days: { label: ${JSON.stringify(labels.days)}, type: list, options: ${list(days)} }
          terms: { label: ${JSON.stringify(labels.terms)}, type: checkbox }
          message: { type: textarea, max: 5000 }
          page: { type: hidden }
        uploads: { enabled: true, types: [application/pdf, text/plain] }
        theme:
          title: ${JSON.stringify(title)}
          logo: '${LOGO}'
          color: '#0a7d5a'
          message: ${JSON.stringify(foot)}
          language: ${language}
        acknowledgment: { enabled: true }
      bare: { to: owner@inbox.test, required: [name], rateLimit: 1 }
      proved: { to: owner@inbox.test, required: [name], spam_protection: { challenge: pow } }
      join: { to: owner@inbox.test, double_opt_in: true, theme: { language: ${language}, title: ${JSON.stringify(title)} } }
  pending.test:
    forms: { contact: { to: owner@inbox.test } }
`;
}

interface Scene extends Visitor {
  readonly site: Site;
  readonly world: TestWorld;
  /** Sends a form of these controls from a page at the host, and waits for the answer with this status. */
  readonly send: (path: string, fields: string, more?: SendOptions) => Promise<void>;
}

interface SendOptions {
  readonly status?: number;
  readonly host?: string;
  readonly file?: string;
}

async function scene(texts: Texts): Promise<Scene> {
  const site = await startSite();
  const world = await startTestWorld({
    projects: { 'site.yml': project(texts) },
    unverified: ['pending.test'],
    server: { limits: { body: '64KiB' } },
  });
  const visitor = await openBrowser({ locale: texts.language });
  const { page } = visitor;
  return {
    ...visitor,
    site,
    world,
    async send(path, fields, { status = 303, host = 'www.example.test', file } = {}) {
      site.pages.set(
        '/',
        `<!doctype html><form action="${world.url}${path}" method="post" enctype="multipart/form-data" novalidate>${fields}<button>Go</button></form>`,
      );
      await page.goto(`http://${host}:${site.port}/`);
      if (file !== undefined)
        await page
          .locator('[type=file]')
          .setInputFiles({ name: file, mimeType: 'text/plain', buffer: Buffer.from('Some lines\n') });
      const [answer] = await Promise.all([
        page.waitForResponse((response) => response.request().method() === 'POST'),
        page.getByRole('button', { name: 'Go', exact: true }).click(),
      ]);
      await page.waitForLoadState();
      expect(answer.status()).toBe(status);
    },
  };
}

function input(name: string, value: string): string {
  return `<input name="${name}" value="${value}">`;
}

function textarea(name: string, value: string): string {
  return `<textarea name="${name}">\n${value}</textarea>`;
}

test.each(TEXTS)('what visitors meet can be read by everybody: $language', async (texts) => {
  const { page, world, problems, send } = await scene(texts);
  const { language, topics, days, visitor, message } = texts;
  const check = () => expectGoodPage(page, language);
  const FILE = '<input type="file" name="plan">';

  // Several faults at once, and everything that is given back.
  const faulty = [
    input('name', ''),
    input('email', 'zoe at inbox'),
    `<select name="topic"><option>${topics[1]}</option></select>`,
    `<input type="checkbox" name="days[]" value="${days[1]}" checked>`,
    '<input type="hidden" name="page" value="roofs"><input type="checkbox" name="newsletter" checked>',
    textarea('message', message),
    input('phone', '+49 30 1234567'),
    FILE,
  ];
  await send('/example.test/contact', faulty.join(''), { status: 400, file: 'Schaden an der Felge.txt' });
  await check();
  // One alone.
  const good = [input('name', visitor), input('email', 'zoe@inbox.test'), textarea('message', message)];
  await send('/example.test/contact', good.join(''), { status: 400 });
  await check();
  const terms = '<input type="checkbox" name="terms" checked>';
  await send('/example.test/contact', [...good, terms, FILE].join(''), { file: 'Schaden.txt' });
  await check();
  await page.goto(`${world.url}/example.test/contact`);
  await check();

  await send('/example.test/bare', [input('name', visitor), textarea('message', message)].join(''));
  await check();
  await send('/example.test/bare', [input('name', visitor), textarea('message', `${message}!`)].join(''), {
    status: 429,
  });
  await check();
  await send('/example.test/contact', [input('name', visitor), textarea('message', 'x '.repeat(40_000))].join(''), {
    status: 413,
  });
  await check();
  await send('/example.test/contact', good.join('') + terms + input('_gotcha', 'x'), { status: 400 });
  await check();
  await send('/example.test/contact', good.join(''), { status: 403, host: 'elsewhere.test' });
  // In English there are no details: what helps the owner is said to everybody.
  if (language !== 'en') await page.locator('details summary').click();
  await check();
  await send('/pending.test/contact', good.join(''), { status: 403 });
  await page.locator('details summary').click();
  await check();
  await send('/example.test/nothing', good.join(''), { status: 404 });
  await check();
  await send('/example.test/proved', good.join(''), { status: 400 });
  await check();
  expect(problems).toEqual([]);
});

test.each(TEXTS)('what is mailed, and the pages behind its links: $language', async (texts) => {
  const { page, world, problems, send } = await scene(texts);
  const { language, visitor, message, days, topics } = texts;
  const check = () => expectGoodPage(page, language);
  await send(
    '/example.test/contact',
    [
      input('name', visitor),
      input('email', 'zoe@inbox.test'),
      input('phone', '+49 30 1234567'),
      input('topic', topics[0] ?? ''),
      input('days[]', days[0] ?? ''),
      input('days[]', days[2] ?? ''),
      '<input type="checkbox" name="terms" checked><input type="file" name="plan">',
      textarea('message', message),
    ].join(''),
    { file: 'Schaden an der Felge.txt' },
  );
  const mails = (await world.caught(2)).list();
  const paths = new Map<string, string>();
  for (const mail of mails) {
    const { html, text = '' } = await simpleParser(await world.mx.mails.source(mail));
    await showMail(page, html);
    [...text.matchAll(/\/s\/[\w.-]+/g)].forEach(([path], i) => paths.set(['view', 'spam', 'stop'][i] ?? '', path));
  }
  const open = (name: string) => page.goto(world.url + (paths.get(name) ?? 'missing'));
  await open('view');
  await check();
  await open('spam');
  await check();
  await page.getByRole('button').click();
  await check();
  await open('spam');
  await check();
  await open('view');
  await check();
  await page.locator('main .actions a').click();
  await check();
  await page.getByRole('button').click();
  await check();
  await open('stop');
  await check();
  await page.getByRole('button').click();
  await check();
  await page.goto(`${world.url}/s/nothing`);
  await check();

  await send('/example.test/join', input('email', 'ana@inbox.test') + textarea('message', message));
  await check();
  const join = (await world.caught(3)).list().find((mail) => !mails.includes(mail));
  if (join === undefined) throw new Error('nothing was caught');
  const { html, text = '' } = await simpleParser(await world.mx.mails.source(join));
  await showMail(page, html);
  const [path = ''] = /\/confirm\/[\w-]+/.exec(text) ?? [];
  await page.goto(world.url + path);
  await check();
  await page.getByRole('button').first().click();
  await check();
  await page.goto(`${world.url}/confirm/nothing`);
  await check();

  const [row] = await world.daemon.store.read.selectFrom('submissions').selectAll().execute();
  if (row === undefined) throw new Error('nothing was stored');
  const reasons = ['the text is one that many forms were sent', 'a short link', 'xyz.example is a free host'];
  const links = { view: `${world.url}/s/1`, release: `${world.url}/s/2`, confirm: `${world.url}/s/3` };
  const entry = { ...entryOf(row, undefined), ...links, reasons };
  const digest = digestMail({
    project: texts.title,
    weekly: false,
    timezone: 'Europe/Berlin',
    translation: translationOf(language),
    entries: [entry, { ...entry, sender: 'Kevin <kevin@evil.test>', words: 'Buy '.repeat(40) }],
    count: 5,
    releaseAll: `${world.url}/s/4`,
    confirmAll: `${world.url}/s/5`,
    failed: [{ form: 'example.test/contact', recipient: 'a@example.test', count: 2, reply: '550 5.1.1 no such user' }],
  });
  await showMail(page, digest.html);
  expect(problems).toEqual([]);
});

/** Judges the HTML part of a mail as a mail program shows it. */
async function showMail(page: Page, source: string | false | undefined): Promise<void> {
  if (typeof source !== 'string') throw new Error('the mail has no HTML part');
  await page.goto('about:blank');
  await page.setContent(source);
  await expectReadable(page, 'part');
}
