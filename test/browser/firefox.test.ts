/** What visitors and developers meet, once more in a browser that is not Chromium. */
import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import type { Page } from 'puppeteer-core';
import { describe, expect, test } from 'vitest';
import { startSite, type Site } from '../harness/browser.ts';
import { startTestWorld, type TestWorld } from '../harness/daemon.ts';
import { type FirefoxVisitor, useFirefox } from '../harness/firefox.ts';
import { testKey } from '../harness/keys.ts';
import { OPERATOR } from '../../src/store/tenants.ts';
import { temporaryFolder } from '../harness/store.ts';
import { startTcpProxy } from '../harness/tcp-proxy.ts';
import { axeFaults } from './page-rules.ts';

const openFirefox = useFirefox();

const PROJECT = `
project: { name: Site, slug: site, owner: owner@inbox.test }
settings: { rate_limit: 1000 }
domains:
  example.test:
    forms:
      contact: { name: Contact form, to: owner@inbox.test, spam_protection: { level: strict } }
      order:
        name: Order
        to: owner@inbox.test
        required: [name, email, terms, message]
        fields:
          name: { label: Your name }
          topic: { label: Topic, options: [Order, Complaint, Praise] }
          terms: { type: checkbox, label: I agree to the terms }
          page: { type: hidden }
          message: { type: textarea, label: Message }
        uploads: { enabled: true }
      local: { to: owner@inbox.test, allow_localhost: true }
      proved: { to: owner@inbox.test, required: [name, email], spam_protection: { challenge: pow } }
`;

const MESSAGE = '<label>Message <textarea name="message"></textarea></label>';
const SEND = '[name="Send it"][role="button"]';

interface Scene extends FirefoxVisitor {
  readonly site: Site;
  readonly world: TestWorld;
  /** Opens a page at this host with a form that is sent to this address of the server. */
  readonly open: (
    path: string,
    fields: string,
    more?: { head?: string; host?: string; attributes?: string },
  ) => Promise<void>;
  /** How many submissions there are. */
  readonly leads: () => Promise<number>;
}

interface SceneOptions {
  readonly languages?: string;
  /** The port that pages send to, from the server's own. */
  readonly through?: (port: number) => Promise<number>;
  /** Whether pages have the script tag. */
  readonly script?: boolean;
}

/** A visitor on a page that tells nobody its address, as Helmet has it by default. */
async function scene({ languages, through, script = false }: SceneOptions = {}): Promise<Scene> {
  const site = await startSite();
  const world = await startTestWorld({ projects: { 'site.yml': PROJECT } });
  const server = new URL(world.url);
  if (through !== undefined) server.port = String(await through(Number(server.port)));
  const visitor = await openFirefox(languages);
  return {
    ...visitor,
    site,
    world,
    async open(path, fields, { head = '', host = 'www.example.test', attributes = '' } = {}) {
      site.pages.set(
        '/write',
        `<!doctype html><html lang="en"><title>Somebody’s site</title>${head}${script ? `<script src="${server.origin}/postern.js" defer></script>` : ''}<h1>Write to us</h1>
<form action="${server.origin}${path}" method="post" enctype="multipart/form-data" novalidate ${attributes}>${fields}<button>Send it</button></form>`,
      );
      await visitor.page.goto(`http://${host}:${site.port}/write`);
    },
    leads: async () => (await world.daemon.store.read.selectFrom('submissions').selectAll().execute()).length,
  };
}

const NO_REFERRER = { head: '<meta name="referrer" content="no-referrer">' };

/** What has this role and name for a screen reader: `[name="…"][role="…"]`. */
function named(page: Page, name: string) {
  return page.locator(`::-p-aria(${name})`);
}

/** As the visitor does: Puppeteer would wait for a load, and Firefox has kept the page. */
async function goBack(page: Page): Promise<void> {
  await page.evaluate('setTimeout(() => history.back())');
}

/** Waits for the page with this heading. */
async function heading(page: Page, text: string): Promise<void> {
  await page.waitForFunction(
    `document.readyState === 'complete' && document.querySelector('h1')?.textContent === ${JSON.stringify(text)}`,
  );
}

function read<Value>(page: Page, expression: string): Promise<Value> {
  return page.evaluate(expression) as Promise<Value>;
}

describe('a plain form on a page that tells nobody its address, at level strict', () => {
  test('leads to a page that thanks; a reload sends nothing', async () => {
    const { page, problems, world, open, leads } = await scene();
    await open('/example.test/contact', MESSAGE, NO_REFERRER);
    await page.locator('textarea').fill('Grüße aus 東京');
    const answer = page.waitForResponse((response) => response.request().method() === 'POST');
    await named(page, SEND).click();
    await heading(page, 'Thank you');
    expect((await answer).status()).toBe(303);
    expect(new URL(page.url()).search).toBe('?thanks');
    expect(await axeFaults(page)).toEqual([]);
    await page.reload();
    await heading(page, 'Thank you');
    expect(await leads()).toBe(1);
    const mails = await world.caught(1);
    expect(mails.list()).toHaveLength(1);
    expect(problems).toEqual([]);
  });

  test('Back and the same again is one lead, something else is another', async () => {
    const { page, open, leads } = await scene();
    await open('/example.test/contact', MESSAGE, NO_REFERRER);
    for (const [text, count] of [
      ['Hello', 1],
      ['Hello', 1],
      ['Hello again', 2],
    ] as const) {
      await page.locator('textarea').fill(text);
      await named(page, SEND).click();
      await heading(page, 'Thank you');
      expect(await leads()).toBe(count);
      await goBack(page);
      await heading(page, 'Write to us');
    }
  });

  test('a double click is one lead', async () => {
    const { page, world, open, leads } = await scene();
    await open('/example.test/contact', MESSAGE, NO_REFERRER);
    await page.locator('textarea').fill('Hello');
    await named(page, SEND).click({ count: 2 });
    await heading(page, 'Thank you');
    expect(await leads()).toBe(1);
    expect((await world.caught(1)).list()).toHaveLength(1);
  });

  test('a network that drops the answer makes no second lead', async () => {
    let repair = () => {};
    const { page, world, open, leads } = await scene({
      async through(port) {
        const proxy = await startTcpProxy(port);
        proxy.cutAt('POST /example.test/contact', 'server has them');
        repair = () => proxy.cutAt(undefined);
        return proxy.port;
      },
    });
    await open('/example.test/contact', MESSAGE, NO_REFERRER);
    await page.locator('textarea').fill('Hello');
    await named(page, SEND).click();
    await world.caught(1);
    await expect.poll(() => page.url()).toMatch(/^about:neterror/);
    expect(await leads()).toBe(1);
    repair();
    await goBack(page);
    await heading(page, 'Write to us');
    await page.locator('textarea').fill('Hello');
    await named(page, SEND).click();
    await heading(page, 'Thank you');
    expect(await leads()).toBe(1);
    expect(world.mx.mails.list()).toHaveLength(1);
  });
});

test('the error page gives everything back in the right controls, and its links lead to them', async () => {
  const { page, problems, world, open } = await scene();
  const file = join(await temporaryFolder(), '写真 1.txt');
  await writeFile(file, 'A picture');
  await open(
    '/example.test/order',
    `<input type="hidden" name="page" value="roofs"><input type="hidden" name="_subject" value="From the site">
<label>Name <input name="name"></label><label>E-mail <input name="email"></label>
<label>Topic <select name="topic"><option>Order</option><option>Complaint</option></select></label>
<label><input type="checkbox" name="terms"> Terms</label>
<label>Message <textarea name="message"></textarea></label><label>File <input type="file" name="file"></label>`,
  );
  const message = '\n  Second line, indented.\n<b>&amp;</b>\n';
  await named(page, '[name="E-mail"][role="textbox"]').fill('juergen at inbox');
  await page.select('select', 'Complaint');
  await page.locator('textarea').fill(message);
  await (await page.waitForSelector('input[type=file]'))?.uploadFile(file);
  await named(page, SEND).click();
  await heading(page, 'Please check the form');

  expect(await read(page, 'document.activeElement.getAttribute("role")')).toBe('alert');
  expect(await axeFaults(page)).toEqual([]);
  expect(
    await read(
      page,
      `[...document.querySelectorAll('main form [name]')].map((control) => [control.name, control.type, control.checked || control.value])`,
    ),
  ).toEqual([
    ['_subject', 'hidden', 'From the site'],
    ['_challenge', 'hidden', expect.any(String)],
    ['page', 'hidden', 'roofs'],
    ['name', 'text', ''],
    ['email', 'email', 'juergen at inbox'],
    ['topic', 'select-one', 'Complaint'],
    ['message', 'textarea', message],
    ['file', 'file', ''],
    ['terms', 'checkbox', 'on'],
  ]);
  expect(await read(page, `[...document.querySelectorAll('select option')].map(({ text }) => text)`)).toEqual([
    'Order',
    'Complaint',
    'Praise',
  ]);
  expect(await read(page, 'document.querySelector("main").innerText')).toContain('写真 1.txt');
  const targets = await read<string[]>(
    page,
    `[...document.querySelectorAll('[role=alert] a')].map(({ hash }) => hash)`,
  );
  expect(targets).toHaveLength(3);
  await page.locator('[role=alert] li:last-child a').click();
  await page.waitForFunction("document.activeElement.name === 'terms'");

  await named(page, '[name="Your name"][role="textbox"]').fill('Jürgen');
  await page.locator('input[name=email]').fill('juergen@inbox.test');
  await page.locator('input[name=terms]').click();
  await (await page.waitForSelector('input[type=file]'))?.uploadFile(file);
  await named(page, '[name="Send"][role="button"]').click();
  await heading(page, 'Thank you');
  const mails = await world.caught(1);
  expect(mails.list().map(({ subject, attachments }) => [subject, attachments])).toEqual([
    [expect.stringContaining('From the site'), 1],
  ]);
  expect(problems).toEqual([]);
});

describe('a page on localhost', () => {
  test('may use a form that allows it', async () => {
    const { page, problems, open, leads } = await scene();
    await open('/example.test/local', MESSAGE, { host: 'localhost' });
    await page.locator('textarea').fill('Hello from my laptop');
    await named(page, SEND).click();
    await heading(page, 'Thank you');
    expect(await leads()).toBe(1);
    expect(problems).toEqual([]);
  });

  test('may use any form with a test key', async () => {
    const { page, world, open } = await scene();
    const { headers } = await testKey(world.daemon.store, { tenant: OPERATOR, environment: 'test' });
    await open('/example.test/contact', MESSAGE, { host: 'localhost' });
    const answer = await read(
      page,
      `fetch('${world.url}/example.test/contact', {
        method: 'POST',
        headers: ${JSON.stringify({ ...headers, 'Content-Type': 'application/json' })},
        body: JSON.stringify({ message: 'Hello' }),
      }).then((response) => response.json())`,
    );
    expect(answer).toMatchObject({ success: true });
  });

  test('otherwise reads why not: on the page, and by script', async () => {
    const { page, world, site, open, leads } = await scene();
    await open('/example.test/contact', MESSAGE, { host: 'localhost' });
    await page.locator('textarea').fill('Hello from my laptop');
    const said = `Pages on http://localhost:${site.port} may not use the form example.test/contact.`;
    const answer = await read(
      page,
      `fetch('${world.url}/example.test/contact', { method: 'POST', headers: { Accept: 'application/json' }, body: new FormData(document.forms[0]) })
        .then(async (response) => ({ status: response.status, ...(await response.json()) }))`,
    );
    expect(answer).toMatchObject({ status: 403, errors: [{ code: 'ORIGIN_NOT_ALLOWED' }] });
    expect(JSON.stringify(answer)).toContain(said);
    await named(page, SEND).click();
    await heading(page, 'Form not available from this page');
    expect(await axeFaults(page)).toEqual([]);
    const words = await read<string>(page, 'document.querySelector("main").textContent');
    expect(words).toContain(said);
    expect(words).toContain('allow_localhost: true');
    // What was typed is not lost.
    expect(words).toContain('Hello from my laptop');
    expect(await leads()).toBe(0);
  });
});

describe('a form with data-postern', () => {
  test('says what is wrong at the fields, does the proof of work, and thanks without leaving the page', async () => {
    const { page, problems, world, open, leads } = await scene({
      script: true,
    });
    await open(
      '/example.test/proved',
      '<label>Name <input name="name"></label><label>E-mail <input name="email"></label>',
      { attributes: 'data-postern' },
    );
    const address = page.url();
    await page.locator('input[name=email]').fill('nobody');
    await named(page, SEND).click();
    await page.waitForSelector('form[data-postern=failed]');
    expect(await read(page, 'document.activeElement.name')).toBe('name');
    expect(
      await read(
        page,
        `[...document.querySelectorAll('[aria-invalid]')].map((field) => [field.name, document.getElementById(field.getAttribute('aria-describedby')).textContent])`,
      ),
    ).toEqual([
      ['name', expect.stringMatching(/\w/)],
      ['email', expect.stringMatching(/email/i)],
    ]);
    await page.locator('input[name=name]').fill('Ann');
    await page.locator('input[name=email]').fill('ann@inbox.test');
    await named(page, SEND).click();
    await page.waitForSelector('form[data-postern=sent]');
    expect(await read(page, 'document.querySelector("[role=status]").textContent')).toBe('Your message has been sent.');
    expect(page.url()).toBe(address);
    expect(await leads()).toBe(1);
    await world.caught(1);
    expect(problems).toEqual([]);
  });

  test('is answered by a page that does the proof of work where the visitor’s page lacks the script', async () => {
    const { page, problems, open, leads } = await scene();
    await open('/example.test/proved', '<input name="name" value="Ann"><input name="email" value="ann@inbox.test">');
    await named(page, SEND).click();
    await page.waitForFunction("location.pathname === '/example.test/proved' && document.querySelector('main form')");
    await named(page, '[name="Send"][role="button"]').click();
    await heading(page, 'Thank you');
    expect(await leads()).toBe(1);
    expect(problems).toEqual([]);
  });
});

test('for a browser in Arabic the pages are in Arabic, from right to left', async () => {
  const { page, problems, open } = await scene({ languages: 'ar' });
  await open('/example.test/order', '<label>Name <input name="name"></label>');
  await named(page, SEND).click();
  await page.waitForSelector('html[lang=ar][dir=rtl] [role=alert]');
  expect(await axeFaults(page)).toEqual([]);
  // The strong edge of the summary is on the side where reading begins, and nothing sticks out.
  const widths = `(() => {
    const { borderLeftWidth, borderRightWidth } = getComputedStyle(document.querySelector('[role=alert]'));
    return parseFloat(borderRightWidth) - parseFloat(borderLeftWidth);
  })()`;
  expect(await read(page, widths)).toBeGreaterThan(0);
  expect(await read(page, 'document.documentElement.scrollWidth <= window.innerWidth')).toBe(true);
  expect(problems).toEqual([]);
});
