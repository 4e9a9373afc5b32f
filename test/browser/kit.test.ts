/** Forms that `/postern.js` sends from a page of somebody else's, in Chromium. */
import type { Page } from 'playwright-core';
import { describe, expect, test } from 'vitest';
import { startSite, useBrowser, type Visitor } from '../harness/browser.ts';
import { startTestWorld, type TestWorld } from '../harness/daemon.ts';
import { axeFaults } from './page-rules.ts';

const openBrowser = useBrowser();

const PROJECT = `
project: { name: Site, slug: site, owner: owner@inbox.test }
settings: { rate_limit: 1000 }
domains:
  example.test:
    forms:
      contact: { to: owner@inbox.test, required: [name, email], fields: { topic: { options: [Sales, Help] } }, uploads: { enabled: true } }
      proved: { to: owner@inbox.test, required: [name], spam_protection: { challenge: pow } }
      once: { to: owner@inbox.test, rateLimit: 1 }
`;

const FIELDS = `
<label>Name <input name="name"></label>
<label>Email <input name="email" aria-describedby="hint"></label><small id="hint">We answer there.</small>
<fieldset><legend>Topic</legend>
<label><input type="radio" name="topic" value="Sales"> Sales</label>
<label><input type="radio" name="topic" value="Other" id="other"> Other</label></fieldset>
<label>File <input type="file" name="file"></label>
<progress></progress>`;

interface Scene extends Visitor {
  readonly world: TestWorld;
  readonly requests: string[];
}

interface SceneOptions {
  readonly fields?: string;
  /** Of the page. */
  readonly policy?: string;
  readonly lang?: string;
  readonly attributes?: string;
  readonly javaScriptEnabled?: boolean;
  /** In place of the script tag. */
  readonly script?: (url: string) => string;
}

/** A visitor on a page with a form and one script tag. */
async function scene(form: string, options: SceneOptions = {}): Promise<Scene> {
  const { fields = FIELDS, policy = '', lang = 'en', attributes = '', javaScriptEnabled = true } = options;
  const site = await startSite();
  const world = await startTestWorld({ projects: { 'site.yml': PROJECT } });
  const script = options.script ?? ((url: string) => `<script src="${url}/postern.js" defer></script>`);
  const meta =
    policy && `<meta http-equiv="Content-Security-Policy" content="${policy.replaceAll('SERVER', world.url)}">`;
  site.pages.set(
    '/',
    `<!doctype html><html lang="${lang}"><title>Somebody’s site</title>${meta}${script(world.url)}
<h1>Write to us</h1><form data-postern ${attributes} action="${world.url}/example.test/${form}" method="post">${fields}
<button>Send it</button></form></html>`,
  );
  const visitor = await openBrowser({ javaScriptEnabled, locale: 'en' });
  const requests: string[] = [];
  visitor.page.on('request', (request) => {
    const url = new URL(request.url());
    if (url.origin === world.url) requests.push(`${request.method()} ${url.pathname}`);
  });
  await visitor.page.goto(`http://www.example.test:${site.port}/`);
  return { ...visitor, world, requests };
}

async function send(page: Page): Promise<void> {
  await page.getByRole('button', { name: 'Send it' }).click();
}

function stateOf(page: Page, state: 'sent' | 'failed'): Promise<unknown> {
  return page.waitForSelector(`form[data-postern=${state}]`, { timeout: 30_000 });
}

describe('a form with data-postern', () => {
  test('is sent without leaving the page, which says so', async () => {
    const { page, world, problems } = await scene('contact');
    await page.evaluate(`document.addEventListener('postern:success', (event) => { window.heard = event.detail; })`);
    await page.getByLabel('Name').fill('Jürgen Groß');
    await page.getByLabel('Email').fill('juergen@inbox.test');
    const address = page.url();
    const button = page.getByRole('button', { name: 'Send it' });
    await button.click();
    expect(await button.isDisabled()).toBe(true);
    await stateOf(page, 'sent');
    expect(await page.getByRole('status').innerText()).toBe('Your message has been sent.');
    expect(await axeFaults(page, 'part')).toEqual([]);
    expect(await page.evaluate('document.activeElement.getAttribute("role")')).toBe('status');
    expect(page.url()).toBe(address);
    expect(await page.getByLabel('Name').inputValue()).toBe('');
    expect(await button.isDisabled()).toBe(false);
    expect(await page.evaluate('heard.id')).toMatch(/^sub_/);
    const mails = await world.caught(1);
    expect(mails.list()).toHaveLength(1);
    expect(problems).toEqual([]);
  });

  test('says what is wrong at the fields, focuses the first, and takes it back where it is corrected', async () => {
    const { page, world, problems } = await scene('contact');
    await page.getByLabel('Email').fill('nobody');
    await page.getByLabel('Other').check();
    await send(page);
    await stateOf(page, 'failed');
    expect(await axeFaults(page, 'part')).toEqual([]);
    expect(await page.evaluate(`document.querySelector('progress').value`)).toBe(0);
    const name = page.getByLabel('Name');
    const email = page.getByLabel('Email');
    expect(await page.evaluate('document.activeElement.name')).toBe('name');
    for (const field of [name, email, page.getByLabel('Sales')]) {
      expect(await field.getAttribute('aria-invalid')).toBe('true');
      expect(await wordsAt(page, await field.getAttribute('aria-describedby'))).toMatch(/\w/);
    }
    expect(await wordsAt(page, await email.getAttribute('aria-describedby'))).toMatch(/We answer there\. .*email/);
    await name.fill('Ann');
    expect(await name.getAttribute('aria-invalid')).toBe(null);
    expect(await name.getAttribute('aria-describedby')).toBe(null);
    await email.fill('ann@inbox.test');
    expect(await email.getAttribute('aria-describedby')).toBe('hint');
    await page.getByLabel('Sales').check();
    await send(page);
    await stateOf(page, 'sent');
    expect(await page.locator('.postern-note').count()).toBe(1);
    await world.caught(1);
    expect(problems).toEqual([]);
  });

  test('what is wrong with the form as a whole is said at its end, in an element of the page’s own where it has one', async () => {
    const { page } = await scene('once', { fields: '<p data-postern-status id="own"></p><input name="a" value="1">' });
    await send(page);
    await stateOf(page, 'sent');
    await page.locator('[name=a]').fill('2');
    await send(page);
    await stateOf(page, 'failed');
    expect(await page.getByRole('alert').getAttribute('id')).toBe('own');
    expect(await page.getByRole('alert').innerText()).toMatch(/too many/i);
  });

  test('is one submission however often the button is pressed, and after the network dropped the answer', async () => {
    const { page, world, requests } = await scene('contact');
    await page.getByLabel('Name').fill('Ann');
    await page.getByLabel('Email').fill('ann@inbox.test');
    let dropped = 0;
    await page.route('**/example.test/contact', async (route) => {
      if (route.request().method() !== 'POST' || dropped++ > 0) return route.continue();
      await route.fetch();
      return route.abort('connectionreset');
    });
    await page.evaluate(`{ const button = document.querySelector('button'); button.click(); button.click(); }`);
    await stateOf(page, 'failed');
    expect(await page.getByRole('alert').innerText()).toMatch(/connection/);
    expect(await page.getByLabel('Name').inputValue()).toBe('Ann');
    await send(page);
    await stateOf(page, 'sent');
    expect(requests.filter((line) => line === 'POST /example.test/contact')).toHaveLength(2);
    expect((await world.caught(1)).list()).toHaveLength(1);
    expect(await submissions(world)).toBe(1);
  });

  test('shows how much of a file is sent', async () => {
    const { page, world } = await scene('contact');
    await page.getByLabel('Name').fill('Ann');
    await page.getByLabel('Email').fill('ann@inbox.test');
    const file = { name: 'a.bin', mimeType: 'application/octet-stream', buffer: Buffer.alloc(1_000_000, 1) };
    await page.getByLabel('File').setInputFiles(file);
    await send(page);
    await stateOf(page, 'sent');
    expect(await page.evaluate(`document.querySelector('progress').value`)).toBeGreaterThan(1_000_000);
    await world.caught(1);
  });

  test('leaves what the page shows to the page where it wants that', async () => {
    const { page } = await scene('once', { fields: '<input name="a" value="1">' });
    await page.evaluate(`document.addEventListener('postern:success', (event) => event.preventDefault())`);
    await send(page);
    await stateOf(page, 'sent');
    expect(await page.locator('.postern-note').count()).toBe(0);
  });

  test('goes to the next page where the form says so', async () => {
    const { page } = await scene('once', { fields: '<input name="a" value="1">', attributes: 'data-postern-redirect' });
    await send(page);
    await page.waitForURL('**/example.test/once?thanks', { timeout: 30_000 });
    expect(await page.getByRole('heading', { level: 1 }).innerText()).toBe('Thank you');
  });

  test('works as a module, for forms that come later', async () => {
    const script = (url: string) =>
      `<script type="module">import { start } from '${url}/postern.mjs'; start(); window.ready = true;</script>`;
    const { page, world } = await scene('once', { fields: '<input name="a" value="1">', script });
    await page.waitForFunction('window.ready');
    await page.evaluate(
      `document.body.append(document.querySelector('form').cloneNode(true)); document.querySelector('form').remove()`,
    );
    await send(page);
    await stateOf(page, 'sent');
    expect((await world.caught(1)).list()).toHaveLength(1);
  });

  test('without JavaScript is a form like any other', async () => {
    const { page, world, problems } = await scene('contact', { javaScriptEnabled: false });
    await page.getByLabel('Name').fill('Ann');
    await page.getByLabel('Email').fill('ann@inbox.test');
    await send(page);
    await page.waitForURL('**/example.test/contact*');
    expect(await page.getByRole('heading', { level: 1 }).innerText()).toBe('Thank you');
    await world.caught(1);
    expect(problems).toEqual([]);
  });
});

describe('proof of work', () => {
  const ONE = '<label>Name <input name="name"></label>';

  test('is done while the visitor writes, once for each submission', async () => {
    const { page, world, problems, requests } = await scene('proved', { fields: ONE });
    for (const name of ['Ann', 'Ben']) {
      await page.getByLabel('Name').fill(name);
      await send(page);
      await page.waitForFunction(
        `document.querySelector('form').dataset.postern === 'sent' && !document.querySelector('[name=name]').value`,
        undefined,
        { timeout: 60_000 },
      );
    }
    expect(requests.filter((line) => line === 'GET /challenge')).toHaveLength(2);
    expect((await world.caught(2)).list()).toHaveLength(2);
    expect(problems).toEqual([]);
  });

  test('does not stop the page, also where its policy allows no worker', async () => {
    const policy = "default-src 'none'; script-src SERVER 'unsafe-inline'; connect-src SERVER; worker-src 'none'";
    const { page, world } = await scene('proved', { fields: ONE, policy });
    await page.evaluate(`{
      let last = performance.now();
      window.longest = 0;
      setInterval(() => { const now = performance.now(); window.longest = Math.max(window.longest, now - last); window.ticks = (window.ticks ?? 0) + 1; last = now; }, 1);
    }`);
    await page.getByLabel('Name').fill('Ann');
    await send(page);
    await page.waitForSelector('form[data-postern=sent]', { timeout: 120_000 });
    expect(await page.evaluate('ticks')).toBeGreaterThan(20);
    await world.caught(1);
  });

  test('a page that stood open for days gets a new challenge, and the visitor notices nothing', async () => {
    const { page, world, requests } = await scene('proved', { fields: ONE });
    // As an answer that has expired: it is of no use.
    await page.route('**/challenge*', async (route) => {
      const response = await route.fetch();
      const body = (await response.json()) as Record<string, unknown>;
      const first = requests.filter((line) => line === 'GET /challenge').length === 1;
      await route.fulfill({ response, json: first ? { ...body, signature: '0'.repeat(64) } : body });
    });
    await page.getByLabel('Name').fill('Ann');
    await send(page);
    await page.waitForSelector('form[data-postern=sent]', { timeout: 120_000 });
    expect(requests.filter((line) => line === 'POST /example.test/proved')).toHaveLength(2);
    expect((await world.caught(1)).list()).toHaveLength(1);
  });

  test('is done by our own page where the visitor’s lacks the script', async () => {
    const { page, world, problems } = await scene('proved', { fields: ONE, script: () => '' });
    await page.getByLabel('Name').fill('Ann');
    await send(page);
    await page.waitForURL('**/example.test/proved');
    expect(await page.getByLabel('Name').inputValue()).toBe('Ann');
    await page.getByRole('button', { name: 'Send' }).click();
    await page.waitForURL('**/example.test/proved?thanks', { timeout: 60_000 });
    expect((await world.caught(1)).list()).toHaveLength(1);
    expect(problems).toEqual([]);
  });

  test('an answer that is sent again is refused', async () => {
    const { page, world } = await scene('proved', { fields: ONE });
    const sent: { body: Buffer | null; type: string }[] = [];
    page.on('request', (request) => {
      if (request.method() !== 'POST') return;
      sent.push({ body: request.postDataBuffer(), type: request.headers()['content-type'] ?? '' });
    });
    await page.getByLabel('Name').fill('Ann');
    await send(page);
    await page.waitForSelector('form[data-postern=sent]', { timeout: 60_000 });
    const [first] = sent;
    const answer = await fetch(`${world.url}/example.test/proved`, {
      method: 'POST',
      headers: { 'Content-Type': first?.type ?? '', Accept: 'application/json' },
      body: new Uint8Array(first?.body ?? []),
    });
    expect(answer.status).toBe(400);
    expect(await answer.json()).toMatchObject({ errors: [{ code: 'CHALLENGE_FAILED' }] });
    expect(await submissions(world)).toBe(1);
  });
});

/** The words that a screen reader adds to a field with these ids. */
async function wordsAt(page: Page, ids: string | null): Promise<string> {
  const texts = (ids ?? '').split(' ').map((id) => page.locator(`[id="${id}"]`).innerText());
  return (await Promise.all(texts)).join(' ');
}

async function submissions({ daemon }: TestWorld): Promise<number> {
  return (await daemon.store.read.selectFrom('submissions').selectAll().execute()).length;
}
