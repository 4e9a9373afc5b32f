import type { Page } from 'playwright-core';
import { describe, expect, test } from 'vitest';
import { startSite, useBrowser, type Site, type Visitor } from '../harness/browser.ts';
import { startTestWorld, type TestWorld } from '../harness/daemon.ts';
import { readMail, type ReadMail } from '../../src/dev/read-mail.ts';

const openBrowser = useBrowser();

/** A project whose forms are used by pages of www.example.test, on any port. */
function project(site: Site): string {
  return `
project: { name: Site, slug: site, owner: owner@inbox.test }
settings: { rate_limit: 1000 }
domains:
  example.test:
    forms:
      contact:
        name: Contact form
        to: owner@inbox.test
        required: [name, email, message]
        fields:
          name: { label: Your name }
          topic: { label: Topic, options: [Order, Complaint, Praise] }
          days: { label: Days that suit you, type: list, options: [Mon, Tue, Wed] }
        uploads: { enabled: true }
      away:
        to: owner@inbox.test
        required: [name]
        redirect: http://www.example.test:${site.port}/thanks
      once: { to: owner@inbox.test, rateLimit: 1 }
`;
}

/** Nothing of it is checked by the browser, so that the server has something to say. */
function formPage(action: string, fields: string): string {
  return `<!doctype html><html lang="en"><title>Somebody’s site</title><h1>Write to us</h1>
<form action="${action}" method="post" enctype="multipart/form-data">${fields}<button>Send it</button></form>`;
}

const FIELDS = `
<input type="hidden" name="_subject" value="From the website &amp; signed">
<label>Name <input name="name"></label>
<label>E-mail <input name="email"></label>
<label>Topic <select name="topic"><option>Order</option><option>Complaint</option></select></label>
<label><input type="checkbox" name="days[]" value="Mon"> Monday</label>
<label><input type="checkbox" name="days[]" value="Tue"> Tuesday</label>
<label>Message <textarea name="message"></textarea></label>
<label>File <input type="file" name="file"></label>`;

interface Scene extends Visitor {
  readonly site: Site;
  readonly world: TestWorld;
  /** Opens a page of the site with a form that is sent to this address of the server. */
  readonly open: (path: string, fields?: string) => Promise<void>;
}

/** A visitor without JavaScript on somebody's site. */
async function scene(): Promise<Scene> {
  const site = await startSite();
  const world = await startTestWorld({ projects: { 'site.yml': project(site) } });
  const visitor = await openBrowser({ javaScriptEnabled: false });
  const open = async (path: string, fields = FIELDS) => {
    site.pages.set('/write', formPage(world.url + path, fields));
    await visitor.page.goto(`http://www.example.test:${site.port}/write`);
  };
  return { ...visitor, site, world, open };
}

async function send(page: Page, button = 'Send it'): Promise<number> {
  const [response] = await Promise.all([
    page.waitForResponse((response) => response.request().method() === 'POST'),
    page.getByRole('button', { name: button }).click(),
  ]);
  await page.waitForLoadState();
  return response.status();
}

function heading(page: Page): Promise<string> {
  return page.getByRole('heading', { level: 1 }).innerText();
}

/** The only mail that was caught. */
async function theMail(world: TestWorld): Promise<ReadMail> {
  const mails = await world.caught(1);
  const list = mails.list();
  expect(list).toHaveLength(1);
  const [mail] = list;
  return readMail(mail === undefined ? Buffer.alloc(0) : await mails.source(mail));
}

describe('a plain form, without JavaScript', () => {
  test('ends at a page that says thank you and leads back', async () => {
    const { page, problems, world, site, open } = await scene();
    await open('/example.test/contact');
    await page.getByLabel('Name').fill('Jürgen Groß');
    await page.getByLabel('E-mail').fill('juergen@inbox.test');
    await page.getByLabel('Message').fill('Grüße');
    expect(await send(page)).toBe(303);
    expect(await heading(page)).toBe('Thank you');
    expect(await page.title()).toBe('Thank you – example.test');
    const back = page.getByRole('link', { name: 'Back to example.test' });
    // A page elsewhere tells its origin and no more.
    expect(await back.getAttribute('href')).toBe(`http://www.example.test:${site.port}/`);
    const mail = await theMail(world);
    expect(mail.subject).toBe('From the website & signed');
    expect(mail.text).toContain('Jürgen Groß');
    expect(problems).toEqual([]);
  });

  test('ends at the page that the form names, by 303, and going back does not send it again', async () => {
    const { page, problems, world, site, open } = await scene();
    site.pages.set('/thanks', '<!doctype html><title>Ours</title><h1>Thanks from us</h1>');
    await open('/example.test/away');
    await page.getByLabel('Name').fill('Ann');
    expect(await send(page)).toBe(303);
    expect(await heading(page)).toBe('Thanks from us');
    expect(page.url()).toBe(`http://www.example.test:${site.port}/thanks`);
    await page.reload();
    await page.goBack();
    expect(await heading(page)).toBe('Write to us');
    expect((await theMail(world)).text).toContain('Ann');
    expect(site.requests.filter((line) => line.endsWith('/thanks'))).toEqual(['GET /thanks', 'GET /thanks']);
    expect(problems).toEqual([]);
  });

  test('what is wrong is said at its field, what was typed is given back, and sending again works', async () => {
    const { page, problems, world, open } = await scene();
    const message = '\n  Second line, indented.\n\n<b>&amp; "quoted"</b>\n';
    await open('/example.test/contact');
    await page.getByLabel('E-mail').fill('juergen at inbox');
    await page.getByLabel('Topic').selectOption('Complaint');
    await page.getByLabel('Tuesday').check();
    await page.getByLabel('Message').fill(message);
    await page.getByLabel('File').setInputFiles({ name: 'plan.txt', mimeType: 'text/plain', buffer: Buffer.from('1') });
    expect(await send(page)).toBe(400);

    const summary = page.getByRole('alert');
    expect(await summary.getByRole('link').count()).toBe(2);
    expect(await page.title()).toMatch(/^Error: /);
    const name = page.getByLabel('Your name');
    expect(await name.getAttribute('aria-invalid')).toBe('true');
    await summary.getByRole('link').filter({ hasText: /email/i }).click();
    expect(await page.locator(':target').getAttribute('name')).toBe('email');
    expect(await describedBy(page, 'Email')).toMatch(/address/i);
    expect(await page.getByLabel('Email').inputValue()).toBe('juergen at inbox');
    expect(await page.getByLabel('Topic').inputValue()).toBe('Complaint');
    expect(await page.getByLabel('Mon').isChecked()).toBe(false);
    expect(await page.getByLabel('Tue').isChecked()).toBe(true);
    expect(await page.getByLabel('Message').inputValue()).toBe(message);
    expect(await page.getByText('Please choose the file again: plan.txt').isVisible()).toBe(true);

    // One of two corrected: the other is still said, and nothing is lost on the way.
    await page.getByLabel('Email').fill('juergen@inbox.test');
    expect(await send(page, 'Send')).toBe(400);
    expect(await page.getByRole('alert').getByRole('link').count()).toBe(1);
    expect(await page.getByLabel('Message').inputValue()).toBe(message);
    await page.getByLabel('Your name').fill('Jürgen Groß');
    await page.getByLabel('File').setInputFiles({ name: 'plan.txt', mimeType: 'text/plain', buffer: Buffer.from('2') });
    expect(await send(page, 'Send')).toBe(303);
    expect(await heading(page)).toBe('Thank you');

    const mail = await theMail(world);
    expect(mail.subject).toBe('From the website & signed');
    expect(mail.replyTo).toContain('juergen@inbox.test');
    for (const part of ['Jürgen Groß', 'Complaint', 'Tue', '<b>&amp; "quoted"</b>']) expect(mail.text).toContain(part);
    expect(mail.attachments.map(({ filename, content }) => [filename, content.toString()])).toEqual([
      ['plan.txt', '2'],
    ]);
    expect(problems).toEqual([]);
  });

  test('after an error the way on and back is the one of the page where it began', async () => {
    const { page, problems, site, open } = await scene();
    site.pages.set('/danke', '<!doctype html><title>Ours</title><h1>Danke</h1>');
    await open('/example.test/contact');
    expect(await send(page)).toBe(400);
    await page.getByLabel('Your name').fill('Ann');
    await page.getByLabel('Email').fill('ann@inbox.test');
    await page.getByLabel('Message').fill('Hello');
    expect(await send(page, 'Send')).toBe(303);
    const back = await page.getByRole('link', { name: 'Back to example.test' }).getAttribute('href');
    expect(new URL(back ?? '').host).toMatch(/^(?:www\.)?example\.test(?::\d+)?$/);

    await open('/example.test/away', `${FIELDS}<input type="hidden" name="_next" value="/danke">`);
    expect(await send(page)).toBe(400);
    await page.getByLabel('Name').fill('Ann');
    expect(await send(page, 'Send')).toBe(303);
    expect(page.url()).toBe(`http://www.example.test:${site.port}/danke`);
    expect(await heading(page)).toBe('Danke');
    expect(problems).toEqual([]);
  });

  test('too many are told to wait, and keep what they typed', async () => {
    const { page, problems, open } = await scene();
    const statuses: number[] = [];
    for (let i = 0; i < 2; i++) {
      await open('/example.test/once', '<label>Message <textarea name="message"></textarea></label>');
      await page.getByLabel('Message').fill('Buy now!');
      statuses.push(await send(page));
    }
    expect(statuses).toEqual([303, 429]);
    expect(await heading(page)).toBe('Too many requests');
    expect(await page.getByRole('main').innerText()).toMatch(/try again in about \d+ (?:minutes|hours)|about a minute/);
    await page.goBack();
    expect(await page.getByLabel('Message').inputValue()).toBe('Buy now!');
    expect(problems).toEqual([]);
  });

  test('a form on a page that may not use it is refused with a page that says so', async () => {
    const { page, problems, world, site } = await scene();
    site.pages.set('/theirs', formPage(`${world.url}/example.test/contact`, FIELDS));
    await page.goto(`http://evil.test:${site.port}/theirs`);
    expect(await send(page)).toBe(403);
    const words = await page.getByRole('alert').innerText();
    expect(words).toContain(`Pages on http://evil.test:${site.port} may not use the form example.test/contact.`);
    expect(words).toContain('allowed_origins');
    expect(world.mx.mails.list()).toEqual([]);
    expect(problems).toEqual([]);
  });
});

/** The words that a screen reader adds to the field of this label. */
async function describedBy(page: Page, label: string): Promise<string> {
  const id = await page.getByLabel(label).getAttribute('aria-describedby');
  return page.locator(`[id="${id}"]`).innerText();
}
