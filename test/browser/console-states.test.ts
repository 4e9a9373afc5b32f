/** What the console does while nobody looks, when the server fails, in another time zone, and without a mouse. */
import type { Page } from 'playwright-core';
import { expect, test } from 'vitest';
import { firstId } from '../../src/lib/ids.ts';
import { useBrowser } from '../harness/browser.ts';
import { consoleLink } from '../harness/console.ts';
import { startTestWorld } from '../harness/daemon.ts';
import { expectGoodPage, focused } from './page-rules.ts';

const openBrowser = useBrowser();
const TWO_FORMS = `
project: { name: Site, slug: site, owner: owner@inbox.test }
settings: { rate_limit: 100000 }
domains:
  example.test: { forms: { contact: { name: Contact, to: owner@inbox.test }, orders: { name: Orders, to: owner@inbox.test } } }
  other.test: { forms: { contact: { name: Other, to: owner@inbox.test } } }
`;

async function open(options: Parameters<typeof openBrowser>[0] = {}) {
  const world = await startTestWorld({ projects: { 'site.yml': TWO_FORMS } });
  async function post(form: string, name: string): Promise<void> {
    const message = `Hello, I am ${name}. Are you open on Sunday?`;
    const answer = await world.post(`/${form}`, { name, email: 'ann@inbox.test', message });
    expect(answer.status).toBe(200);
  }
  const visitor = await openBrowser({ viewport: { width: 1280, height: 900 }, ...options });
  await visitor.page.goto(await consoleLink(world));
  await visitor.page.getByRole('heading', { level: 1, name: 'Overview' }).waitFor();
  return { world, post, ...visitor };
}

/** Who sent what the list shows. */
function senders(page: Page): Promise<string[]> {
  return page
    .locator('.mails .sender')
    .evaluateAll((all) => all.map(({ textContent }) => (textContent ?? '').replace(' (unread)', '')));
}

function pagesOf(page: Page): Promise<string[]> {
  return page
    .getByRole('navigation', { name: 'Console' })
    .getByRole('link')
    .evaluateAll((links) => links.map((link) => link.getAttribute('href') ?? ''));
}

test('a list stays where it is while one of it is opened, and shows those of a domain and of days', async () => {
  const { world, page, post, problems } = await open({ timezoneId: 'Pacific/Auckland' });
  await post('example.test/contact', 'Ann');
  await post('example.test/orders', 'Bea');
  await post('other.test/contact', 'Cleo');
  await page.goto(`${world.url}/console/submissions`);
  await page.getByRole('link', { name: /Ann/ }).waitFor();
  await page.evaluate("document.querySelector('.mails').isTheSame = true");
  await page.getByRole('link', { name: /Bea/ }).click();
  await page.getByRole('heading', { level: 2, name: 'Bea' }).waitFor();
  expect(await page.evaluate("document.querySelector('.mails').isTheSame")).toBe(true);
  expect(await page.evaluate("document.activeElement.closest('.mails') !== null")).toBe(true);

  await page.getByLabel('Form or domain').selectOption({ label: 'All of example.test' });
  await expect.poll(() => senders(page)).toEqual(['Bea', 'Ann']);
  expect(new URL(page.url()).searchParams.get('domain')).toBe('example.test');
  await page.getByLabel('Form or domain').selectOption({ label: 'other.test/contact' });
  await expect.poll(() => senders(page)).toEqual(['Cleo']);
  await page.getByLabel('Form or domain').selectOption({ label: 'All forms' });

  // Days are those of whoever looks: in New Zealand they began half a day earlier than those of UTC.
  const asked = page.waitForRequest((request) => /\/api\/submissions\?.*from=/.test(request.url()));
  await page.getByRole('button', { name: 'Filter' }).click();
  await page.getByLabel('From', { exact: true }).fill('2026-02-03');
  expect(new URL((await asked).url()).searchParams.get('from')).toBe('2026-02-02T11:00:00.000Z');
  const until = page.waitForRequest((request) => /\/api\/submissions\?.*to=/.test(request.url()));
  await page.getByLabel('To', { exact: true }).fill('2026-02-03');
  expect(new URL((await until).url()).searchParams.get('to')).toBe('2026-02-03T11:00:00.000Z');
  expect(page.url()).toMatch(/from=2026-02-03&to=2026-02-03/);
  await page.getByRole('heading', { name: 'Nothing found' }).waitFor();
  await expectGoodPage(page);
  expect(problems).toEqual([]);
});

test('a tab that nobody sees has no stream, and is up to date when somebody does', async () => {
  const { world, page, post, problems } = await open();
  const streams: string[] = [];
  page.on('request', (request) => {
    if (request.url().includes('/events/stream')) streams.push('opened');
  });
  page.on('requestfailed', (request) => {
    if (request.url().includes('/events/stream')) streams.push('closed');
  });
  await page.goto(`${world.url}/console/submissions`);
  await page.getByRole('heading', { name: 'No submissions yet' }).waitFor();
  await expect.poll(() => streams.at(-1)).toBe('opened');
  await see(page, false);
  await expect.poll(() => streams.at(-1)).toBe('closed');
  await post('example.test/contact', 'Ann');
  expect(await senders(page)).toEqual([]);
  await see(page, true);
  await expect.poll(() => senders(page)).toEqual(['Ann']);
  expect(streams.at(-1)).toBe('opened');
  expect(problems).toEqual([]);
});

/** As a browser does when another tab covers this one, or no longer. */
async function see(page: Page, isSeen: boolean): Promise<void> {
  await page.evaluate(`
    Object.defineProperty(document, 'hidden', { configurable: true, get: () => ${!isSeen} });
    document.dispatchEvent(new Event('visibilitychange'));`);
}

test('a stream that the server refused is opened again, and what was missed is looked up', async () => {
  const { world, page, post } = await open();
  await page.route('**/api/events/stream*', (route) => route.fulfill({ status: 503, body: '' }), { times: 1 });
  await page.goto(`${world.url}/console/submissions`);
  await page.getByRole('heading', { name: 'No submissions yet' }).waitFor();
  await post('example.test/contact', 'Ann');
  await expect.poll(() => senders(page)).toEqual(['Ann']);
  await post('example.test/contact', 'Bea');
  await expect.poll(() => senders(page)).toEqual(['Bea', 'Ann']);
});

test('where more was missed than is sent again, the list is loaded anew', async () => {
  const { world, page, post } = await open();
  // A stream that ends is asked for again after a second; the second says that there is a gap.
  await page.route(
    '**/api/events/stream*',
    (route) =>
      route.fulfill({
        contentType: 'text/event-stream',
        body: `retry: 1000\nid: ${firstId('evt', Date.now())}\nevent: gap\ndata: {"since":"2026-01-01"}\n\n`,
      }),
    { times: 2 },
  );
  await page.goto(`${world.url}/console/submissions`);
  await page.getByRole('heading', { name: 'No submissions yet' }).waitFor();
  await post('example.test/contact', 'Ann');
  await expect.poll(() => senders(page)).toEqual(['Ann']);
});

test('every page says what failed, with the id of the request, and tries again', async () => {
  const { world, page, problems } = await open();
  const paths = await pagesOf(page);
  expect(paths.length).toBeGreaterThan(15);
  const code = { error: 'It broke.', code: 'INTERNAL', request_id: 'req_01m8gxrvy9xwg0tpzn4g79rgre', details: [] };
  const data = /\/api\/(?!auth\/session$|events\/stream)|\/openapi\.json$/;
  // Once the stream is open, all is loaded anew without anybody asking for it.
  await page.route('**/api/events/stream*', () => undefined);
  for (const path of paths) {
    await page.route(data, (route) => route.fulfill({ status: 500, json: code }));
    await page.goto(world.url + path);
    const failed = page.getByRole('alert').filter({ hasText: 'It broke.' }).first();
    await expect
      .poll(async () => [path, await failed.getByText('req_01m8gxrvy9xwg0tpzn4g79rgre').count()])
      .toEqual([path, 1]);
    if (path === paths[0]) await expectGoodPage(page);
    await page.unroute(data);
    await page.getByRole('button', { name: 'Try again' }).first().click();
    await failed.waitFor({ state: 'detached' });
  }
  // What does not exist is not there the next time either.
  await page.goto(`${world.url}/console/keys/key_none`);
  await page.getByRole('alert').getByText('There is no key key_none.').waitFor();
  expect(await page.getByRole('button', { name: 'Try again' }).count()).toBe(0);
  // Without a connection.
  await page.route(/\/api\/messages/, (route) => route.abort());
  await page.goto(`${world.url}/console/mail`);
  await page.getByRole('alert').getByText('The server is not responding.').waitFor();
  expect(problems.filter((text) => !text.includes('net::ERR_FAILED'))).toEqual([]);
});

test('the keyboard alone is enough, and each thing that has the focus shows it', async () => {
  const { world, page, post, problems } = await open();
  await post('example.test/contact', 'Ann');
  await page.reload();
  await page.getByRole('heading', { level: 1, name: 'Overview' }).waitFor();

  /** Tabs until something of this name has the focus; everything on the way shows that it has it. */
  async function to(name: RegExp): Promise<void> {
    const way: string[] = [];
    for (let i = 0; i < 80; i++) {
      await page.keyboard.press('Tab');
      const { element, outlined } = await focused(page);
      way.push(element);
      expect([element, outlined]).toEqual([element, true]);
      if (name.test(element)) return;
    }
    throw new Error(`${String(name)} is not on the way: ${way.join(', ')}`);
  }

  await to(/^a Skip to content/);
  await page.keyboard.press('Enter');
  await to(/24 hours/);
  await page.keyboard.press('Enter');
  await expect.poll(() => page.url()).toContain('range=24h');
  await page.reload();
  await page.getByRole('heading', { level: 1, name: 'Overview' }).waitFor();
  await to(/^a API keys/);
  await page.keyboard.press('Enter');
  await page.getByRole('heading', { level: 1, name: 'API keys' }).waitFor();
  // On in the page, not once more through the list at the side.
  await to(/^button Create key/);
  await page.keyboard.press('Enter');
  await to(/^input Name/);
  await page.keyboard.type('Script');
  await to(/^button Send mail/);
  await page.keyboard.press('Space');
  await to(/^button Create key/);
  await page.keyboard.press('Enter');
  await page.getByText('The key Script was created').waitFor();
  await to(/^a Done/);
  await page.keyboard.press('Enter');
  await page.getByRole('heading', { level: 1, name: 'Script' }).waitFor();
  await to(/^button Revoke/);
  await page.keyboard.press('Enter');
  const dialog = page.getByRole('dialog', { name: 'Revoke Script?' });
  await dialog.waitFor();
  // The question keeps the focus; Escape leaves it, and nothing is done.
  for (let i = 0; i < 4; i++) {
    await page.keyboard.press('Tab');
    expect(
      await page.evaluate(
        "document.activeElement === document.body || document.activeElement.closest('dialog') !== null",
      ),
    ).toBe(true);
  }
  await page.keyboard.press('Escape');
  // The dialog has no name as soon as it is hidden: it is answered when its element is gone.
  await page.locator('dialog').waitFor({ state: 'detached' });
  expect((await focused(page)).element).toContain('Revoke');
  await page.keyboard.press('Enter');
  await dialog.waitFor();
  await to(/^button Revoke key/);
  await page.keyboard.press('Enter');
  await page.getByText('The key Script was revoked.').waitFor();

  await page.goto(`${world.url}/console/forms/example.test/contact`);
  await page.getByRole('tab', { name: 'Use' }).focus();
  await page.keyboard.press('ArrowRight');
  await expect.poll(() => page.url()).toContain('tab=activity');
  expect((await focused(page)).element).toBe('tab Activity');
  expect(problems).toEqual([]);
});

test('whoever leaves a page while a button works stays where they went', async () => {
  const { world, page, problems } = await open();
  const asked = Promise.withResolvers<void>();
  const answered = Promise.withResolvers<void>();
  await page.route(/\/projects$/, async (route) => {
    if (route.request().method() !== 'POST') return route.continue();
    asked.resolve();
    await answered.promise;
    return route.continue();
  });
  await page.goto(`${world.url}/console/projects?new=true`);
  await page.getByLabel('Name', { exact: true }).fill('Shop');
  await page.getByRole('button', { name: 'Create project' }).click();
  await asked.promise;
  await page.getByRole('link', { name: 'Domains' }).click();
  await page.getByRole('heading', { level: 1, name: 'Domains' }).waitFor();
  const made = page.waitForResponse(/\/projects$/);
  answered.resolve();
  expect((await made).ok()).toBe(true);
  // Time for what the page does with the answer.
  await page.evaluate('new Promise((resolve) => setTimeout(resolve, 200))');
  expect(new URL(page.url()).pathname).toBe('/console/domains');
  expect(problems).toEqual([]);
});

test('a page that comes late, or cannot be loaded, hides no other', async () => {
  const { page } = await open();
  const late = Promise.withResolvers<void>();
  await page.route('**/pages/webhooks.js', async (route) => {
    await late.promise;
    return route.continue();
  });
  await page.route('**/pages/suppressions.js', (route) => route.abort());

  async function go(name: string): Promise<void> {
    await page.getByRole('navigation').getByRole('link', { name }).click();
  }
  await go('Suppressions');
  await page.getByRole('alert').getByText('This page could not be loaded').waitFor();
  await go('Webhooks');
  await go('Domains');
  await page.getByRole('heading', { level: 1, name: 'Domains' }).waitFor();
  const loaded = page.waitForResponse('**/pages/webhooks.js');
  late.resolve();
  await (await loaded).finished();
  // Time for what the page does with it.
  await page.evaluate('new Promise((resolve) => setTimeout(resolve, 200))');
  expect(await page.getByRole('heading', { level: 1, name: 'Domains' }).isVisible()).toBe(true);
});

test('nothing moves for those who prefer that', async () => {
  const { world, page } = await open({ reducedMotion: 'reduce' });
  await page.route(/\/api\/messages/, () => undefined);
  await page.goto(`${world.url}/console/mail`);
  await page.locator('.loading .bone').first().waitFor();
  const moving = '[...document.querySelectorAll("*")].filter((one) => one.getAnimations().length > 0).length';
  expect(await page.evaluate(moving)).toBe(0);
  await page.emulateMedia({ reducedMotion: 'no-preference' });
  expect(await page.evaluate(moving)).toBeGreaterThan(0);
});
