/** Signing in to the console in a browser, and what other sites can do with its cookie, which is nothing. */
import type { Page } from 'playwright-core';
import { expect, test } from 'vitest';
import { codeAt } from '../../src/accounts/totp.ts';
import { insertTenant, OPERATOR } from '../../src/store/tenants.ts';
import { startDevWorld, startSite, useBrowser } from '../harness/browser.ts';
import { ask } from '../harness/binary.ts';
import { startTestWorld, type TestWorld } from '../harness/daemon.ts';
import { tenantRow, testKey } from '../harness/keys.ts';
import { expectGoodPage } from './page-rules.ts';

const openBrowser = useBrowser();
const STEP_MS = 30_000;

function account(page: Page) {
  return page.getByRole('heading', { level: 1, name: 'Sign-in and sessions' });
}

function code(page: Page) {
  return page.getByRole('textbox', { name: 'Code' });
}

/** The link in the newest mail, as a reader of mail shows it. */
async function mailedLink(world: TestWorld, count: number): Promise<string> {
  const mails = await world.caught(count);
  const [newest] = mails.list();
  const source = newest === undefined ? undefined : await mails.source(newest);
  const text = String(source).replaceAll(/=\r?\n/g, '');
  return /http:\/\/\S+\/console\/sign-in#[\w-]{43}/.exec(text)?.[0] ?? '';
}

test('by a mailed link, in the browser that asked for it; then with a key and a one-time code', async () => {
  const world = await startTestWorld();
  await world.daemon.store.write([insertTenant(tenantRow({ id: 'ten_anna', email: 'anna@inbox.test' }))]);
  const { value } = await testKey(world.daemon.store, { tenant: 'ten_anna' });
  const { page, problems } = await openBrowser();
  await page.goto(`${world.url}/console/account`);
  await page.getByRole('heading', { name: 'Sign in' }).waitFor();
  await expectGoodPage(page);
  await page.getByLabel('Email address').fill('anna@inbox.test');
  await page.keyboard.press('Enter');
  await page.getByRole('heading', { name: 'Check your email' }).waitFor();
  await expectGoodPage(page);
  const link = await mailedLink(world, 1);

  const other = await openBrowser();
  await other.page.goto(link);
  await other.page.getByRole('alert').getByText('works only in the browser in which you requested').waitFor();
  await page.goto(link);
  await page.getByRole('link', { name: 'Sign-in and sessions' }).waitFor();
  expect(page.url()).not.toContain('#');

  await page.goto(`${world.url}/console/account`);
  await account(page).waitFor();
  await page.getByText('This browser').waitFor();
  await expectGoodPage(page);
  await page.getByRole('button', { name: 'Set up one-time codes' }).click();
  const secret = (await page.locator('.setup code').innerText()).replaceAll(' ', '');
  await page.getByRole('img', { name: 'QR code of the secret' }).waitFor();
  await expectGoodPage(page);
  await code(page).fill('000000');
  await page.keyboard.press('Enter');
  await page.getByText('The code is not correct').waitFor();
  await code(page).fill(codeAt(secret, Math.floor(Date.now() / STEP_MS)));
  await page.keyboard.press('Enter');
  await page.getByText('Save these recovery codes now').waitFor();
  await expectGoodPage(page);
  const [recovery = ''] = await page.locator('.recovery code').allInnerTexts();

  await page.getByRole('button', { name: 'Sign out' }).click();
  await page.getByRole('textbox', { name: 'API key' }).fill(value);
  await page.keyboard.press('Enter');
  await page.getByRole('heading', { name: 'Enter a code' }).waitFor();
  await expectGoodPage(page);
  await code(page).fill('000000');
  await page.keyboard.press('Enter');
  await page.getByRole('alert').getByText('The code is not correct').waitFor();
  await code(page).fill(recovery);
  await page.keyboard.press('Enter');
  await account(page).waitFor();
  expect(problems).toEqual([]);
});

test('where one-time codes are required, nothing else can be done first', async () => {
  const world = await startTestWorld({ server: { server: { console: { require_totp: true } } } });
  const { value } = await testKey(world.daemon.store, { tenant: OPERATOR });
  const { page, problems } = await openBrowser();
  await page.goto(`${world.url}/console/reference`);
  await page.getByRole('textbox', { name: 'API key' }).fill(value);
  await page.keyboard.press('Enter');
  await page.getByText('Set up one-time codes first').waitFor();
  await page.getByRole('button', { name: 'Set up one-time codes' }).click();
  const secret = (await page.locator('.setup code').innerText()).replaceAll(' ', '');
  await code(page).fill(codeAt(secret, Math.floor(Date.now() / STEP_MS)));
  await page.keyboard.press('Enter');
  // They stay until they are saved, although everything else is open now.
  await page.getByRole('button', { name: 'I have saved them' }).click();
  await page.getByText('Signing in requires a code').waitFor();
  expect(problems).toEqual([]);
});

test('a page of another origin can neither use the session nor show the console in a frame', async () => {
  const world = await startTestWorld();
  const { value, headers } = await testKey(world.daemon.store, { tenant: OPERATOR });
  const { page, context } = await openBrowser();
  await page.goto(`${world.url}/console`);
  await page.getByRole('textbox', { name: 'API key' }).fill(value);
  await page.keyboard.press('Enter');
  await page.getByRole('button', { name: 'Sign out' }).waitFor();
  expect((await context.cookies()).map(({ name, httpOnly, sameSite }) => [name, httpOnly, sameSite])).toEqual([
    ['postern', true, 'Strict'],
  ]);

  // The same host on another port is the same site: the browser sends it the cookie.
  const site = await startSite();
  const here = `http://127.0.0.1:${site.port}`;
  site.pages.set(
    '/',
    `<!doctype html><title>Elsewhere</title><iframe src="${world.url}/console"></iframe>
    <form method="post" enctype="text/plain" action="${world.url}/api/forms"><input name='{"name":"F","to":"a@inbox.test","x":"' value='"}'></form>`,
  );
  await page.goto(`${here}/`);
  const answers = await page.evaluate(`Promise.all(['no-cors', 'cors'].flatMap((mode) => ['GET', 'POST'].map((method) =>
    fetch('${world.url}/api/forms', { mode, method, credentials: 'include', headers: { 'Content-Type': mode === 'cors' ? 'application/json' : 'text/plain' },
      ...(method === 'GET' ? {} : { body: '{"name":"Theirs","to":"a@inbox.test"}' }) }).then((answer) => answer.type, () => 'refused'))))`);
  expect(answers).toEqual(['opaque', 'opaque', 'refused', 'refused']);
  await page.evaluate('document.forms[0].submit()');
  await page.waitForURL(`${world.url}/api/forms`);
  expect(await page.locator('body').innerText()).toContain('API key is required');
  const forms = await fetch(`${world.url}/forms?limit=200`, { headers });
  expect(JSON.stringify(await forms.json())).not.toContain('Theirs');
  await page.goto(`${here}/`);
  const [, frame] = page.frames();
  expect(await frame?.locator('body').innerText()).not.toContain('Overview');
});

test('the operator acts for an account, visibly, also after a reload, until they stop', async () => {
  const world = await startTestWorld();
  await world.daemon.store.write([insertTenant(tenantRow({ id: 'ten_anna', name: 'Anna’s bakery' }))]);
  const { page, problems } = await openBrowser();
  const link = await ask({ socketPath: world.daemon.addresses?.socket, path: '/admin/console-link', method: 'POST' });
  const { hash } = new URL((link.body as { url: string }).url);
  await page.goto(`${world.url}/console/sign-in${hash}`);
  await page.getByRole('link', { name: 'Accounts' }).click();
  await page.goto(`${world.url}/console/server/accounts/ten_anna`);
  await page.getByRole('button', { name: 'Act for this account' }).click();
  const banner = page.locator('.views').filter({ hasText: 'You are acting for Anna’s bakery' });
  await banner.waitFor();
  await page.goto(`${world.url}/console/account`);
  await banner.waitFor();
  await page.getByText('ten_anna').waitFor();
  await expectGoodPage(page);
  await page.getByRole('button', { name: 'Show test data' }).click();
  await page.getByText('Test view: data created with test keys.').waitFor();
  await page.getByRole('button', { name: 'Sign out' }).click();
  // Whoever signs in next in this tab acts for nobody.
  const { value } = await testKey(world.daemon.store, { tenant: 'ten_anna' });
  await page.getByRole('textbox', { name: 'API key' }).fill(value);
  await page.keyboard.press('Enter');
  await account(page).waitFor();
  expect(await banner.count()).toBe(0);
  expect(problems).toEqual([]);
});

test('what a browser calls itself is shown as it is, and does nothing', async () => {
  const world = await startTestWorld();
  const { value, tenant } = await testKey(world.daemon.store);
  const hostile = `"><img src=x onerror=alert(1)><script>alert(2)</script>{{7*7}}javascript:alert(3)`;
  const evil = await openBrowser({ userAgent: hostile });
  await evil.page.goto(`${world.url}/console`);
  await evil.page.getByRole('textbox', { name: 'API key' }).fill(value);
  await evil.page.keyboard.press('Enter');
  await evil.page.getByRole('button', { name: 'Sign out' }).waitFor();
  const owner = await openBrowser();
  await owner.page.goto(`${world.url}/console/account`);
  await owner.page
    .getByRole('textbox', { name: 'API key' })
    .fill((await testKey(world.daemon.store, { tenant })).value);
  await owner.page.keyboard.press('Enter');
  const name = owner.page.getByText('A browser', { exact: true });
  await name.waitFor();
  expect(await name.getAttribute('title')).toBe(hostile);
  expect(await owner.page.locator('.sessions img, .sessions script').count()).toBe(0);
  expect([...evil.problems, ...owner.problems]).toEqual([]);
});

test('in the local environment the operator is signed in at once', async () => {
  const world = await startDevWorld();
  const { page, problems } = await openBrowser();
  await page.goto(`${world.url}/console/account`);
  await page.getByText('it may act for any account').waitFor();
  await page.getByRole('button', { name: 'Sign out' }).click();
  await page.getByRole('heading', { name: 'Sign in' }).waitFor();
  expect(problems).toEqual([]);
});
