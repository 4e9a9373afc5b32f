/** Forms, projects, webhooks and keys in the console, as somebody uses them who has read nothing. */
import { once } from 'node:events';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import type { Page } from 'playwright-core';
import { expect, onTestFinished, test } from 'vitest';
import { startDevWorld, useBrowser } from '../harness/browser.ts';
import { expectGoodPage } from './page-rules.ts';

const openBrowser = useBrowser();
const VIEWPORT = { width: 1280, height: 1000 };

async function settled(page: Page): Promise<void> {
  await page.getByRole('heading', { level: 1 }).waitFor();
  await page.locator('.loading').waitFor({ state: 'detached' });
}

/** It is what every page must be, at every width; afterwards the page is as it was. */
async function expectGood(page: Page): Promise<void> {
  await settled(page);
  await expectGoodPage(page);
  await page.setViewportSize(VIEWPORT);
}

async function open(path: string) {
  const world = await startDevWorld();
  const { page, problems } = await openBrowser({ viewport: VIEWPORT });
  await page.goto(`${world.url}/console${path}`);
  await settled(page);
  return { world, page, problems };
}

test('a first form is made, tried, looked at and deleted', async () => {
  const { page, problems } = await open('/forms');
  await page.getByRole('button', { name: 'Create form' }).click();
  await expectGood(page);
  await page.getByLabel('Name').fill('Newsletter');
  await page.getByLabel('Recipient').fill('anna@inbox.test');
  await page.getByRole('button', { name: 'Create form' }).click();
  await page.getByRole('heading', { level: 1, name: 'Newsletter' }).waitFor();
  await page.getByRole('tab', { name: 'React' }).click();
  await page.getByText('export function ContactForm()').waitFor();
  await page.getByRole('button', { name: 'Send a test post' }).click();
  await page.getByRole('link', { name: 'View the submission' }).waitFor();
  await expectGood(page);
  await page.getByRole('tab', { name: 'Activity' }).click();
  await page.getByRole('img', { name: 'Submissions over time: 1 submissions, 0 spam' }).waitFor();
  await expectGood(page);
  await page.getByRole('tab', { name: 'Preview' }).click();
  await page.frameLocator('iframe').getByText('Ada Lovelace').first().waitFor();
  await page.getByLabel('Data', { exact: true }).selectOption({ label: 'Your own data' });
  await page.getByLabel('Fields').fill('email: bo@inbox.test\nmessage: <b>Hi</b>');
  await page.frameLocator('iframe').getByText('<b>Hi</b>').waitFor();
  await expectGood(page);
  await page.getByLabel('Data', { exact: true }).selectOption({ index: 2 });
  await page.frameLocator('iframe').getByText('Ada Lovelace').first().waitFor();
  await page.getByLabel('What to show').selectOption('error');
  await page.frameLocator('iframe').getByRole('alert').waitFor();
  await expectGood(page);
  await page.getByRole('tab', { name: 'Settings' }).click();
  await page.getByRole('button', { name: 'Delete form' }).click();
  await page.getByLabel('Type').fill('Newsletter');
  await page.getByRole('dialog').getByRole('button', { name: 'Delete form' }).click();
  await page.getByText('The form Newsletter was deleted.').waitFor();
  expect(problems).toEqual([]);
});

test('a template is changed with its mail beside it, pushed, and put back', async () => {
  const { page, problems } = await open('/projects?new=true');
  await page.getByLabel('Name').fill('Bakery');
  await page.getByRole('button', { name: 'Create project' }).click();
  const text = page.getByRole('textbox', { name: 'postern.yml' });
  await text.fill(PROJECT.replace('to:', 'too:'));
  await page.getByRole('button', { name: /^Line 6/ }).click();
  expect(await page.evaluate('document.activeElement.selectionStart')).toBeGreaterThan(80);
  await expectGood(page);
  await text.fill(PROJECT);
  await page.getByText('domains.bakery.test', { exact: true }).waitFor();
  await page.getByRole('button', { name: 'Push' }).click();
  await page.getByText('Valid and deployed').waitFor();
  await page.getByRole('tab', { name: 'Preview' }).click();
  await page.getByText('Order from Ada Lovelace').waitFor();
  await text.fill(
    PROJECT.replace('Order from', '<b>New</b> order from').replace('<p>', '<p>Hello <script>top.x = 1</script>'),
  );
  await page.getByText('<b>New</b> order from Ada Lovelace').waitFor();
  await page.frameLocator('iframe').getByText('Hello').waitFor();
  expect(await page.evaluate('window.x')).toBeUndefined();
  await expectGood(page);
  await page.getByRole('button', { name: 'Push' }).click();
  await page.getByText('Valid and deployed').waitFor();
  await page.getByRole('tab', { name: 'Revisions' }).click();
  await page.locator('.list button').nth(1).click();
  await page.getByText('- <b>New</b> order from').waitFor();
  await expectGood(page);
  await page.getByRole('button', { name: 'Restore' }).click();
  await page.getByRole('dialog').getByRole('button', { name: 'Restore revision' }).click();
  await page.getByText('The revision was deployed.').waitFor();
  expect(problems).toEqual([]);
});

const PROJECT = `project: { name: Bakery, slug: bakery, owner: anna@inbox.test }
domains:
  bakery.test:
    forms:
      contact:
        to: anna@inbox.test
        template: contact
templates:
  contact:
    subject: "Order from {{ form.name }}"
    html: "<p>From {{ form.name }}</p>"
`;

test('a webhook is added, tested, understood and replayed', async () => {
  const receiver = createServer((_request, response) =>
    response.writeHead(500).end('<script>alert(1)</script>'),
  ).listen(0, '127.0.0.1');
  await once(receiver, 'listening');
  onTestFinished(() => void receiver.close());
  const { world, page, problems } = await open('/webhooks');
  await page.getByRole('button', { name: 'Add webhook' }).first().click();
  await expectGood(page);
  await page
    .getByRole('textbox', { name: 'URL' })
    .fill(`http://127.0.0.1:${(receiver.address() as AddressInfo).port}/hook`);
  await page.getByRole('button', { name: 'Add webhook' }).click();
  await page.getByText('whsec_').waitFor();
  await page.getByRole('link', { name: 'Go to the webhook' }).click();
  await page.getByRole('button', { name: 'Send test' }).click();
  await page.getByRole('button', { name: /webhook\.test/ }).click();
  await page.getByText('<script>alert(1)</script>', { exact: true }).waitFor();
  const body = new URLSearchParams({ name: 'Ann', email: 'ann@inbox.test', message: 'Are you open?' });
  await fetch(`${world.url}/demo.test/contact`, { method: 'POST', body });
  await expect
    .poll(async () => {
      await page.getByRole('button', { name: 'Refresh' }).click();
      return page.getByRole('button', { name: /submission\.accepted/ }).count();
    })
    .toBe(1);
  await page.getByRole('button', { name: /submission\.accepted/ }).click();
  await page.getByText('"message": "Are you open?"').waitFor();
  await expectGood(page);
  await page.getByRole('button', { name: 'Replay' }).click();
  await page.getByText('The delivery is being sent again.').waitFor();
  expect(problems).toEqual([]);
});

test('a key is made with the permissions that it needs, and revoked', async () => {
  const { world, page, problems } = await open('/keys');
  await page.getByRole('button', { name: 'Create key' }).first().click();
  await expectGood(page);
  await page.getByLabel('Name').fill('Newsletter script');
  await page.getByRole('button', { name: 'Send mail' }).click();
  await page.getByRole('button', { name: 'Create key' }).click();
  const value = await page.locator('.copyable code').first().innerText();
  const ask = () => fetch(`${world.url}/auth/status`, { headers: { Authorization: `Bearer ${value}` } });
  expect((await (await ask()).json()) as object).toMatchObject({ key: { permissions: ['email.send'] } });
  await page.getByRole('link', { name: 'Done' }).click();
  await expectGood(page);
  await page.getByRole('button', { name: 'Revoke' }).click();
  await page.getByRole('dialog').getByText('cannot be undone').waitFor();
  await page.getByRole('button', { name: 'Revoke key' }).click();
  await page.getByText('The key Newsletter script was revoked.').waitFor();
  expect((await ask()).status).toBe(401);
  expect(problems).toEqual([]);
});

test('a suppressed address gets mail again, and that is taken back', async () => {
  const { page, problems } = await open('/suppressions');
  await page.getByRole('button', { name: 'Add address' }).click();
  await page.getByRole('textbox', { name: 'Email address' }).fill('gone@customer.test');
  await page.getByRole('button', { name: 'Suppress' }).click();
  await page.getByRole('button', { name: 'Remove' }).click();
  await page.getByRole('button', { name: 'Undo' }).click();
  await page.getByText('gone@customer.test is suppressed again.').waitFor();
  await page.getByRole('button', { name: 'Remove' }).waitFor();
  await expectGood(page);
  expect(problems).toEqual([]);
});
