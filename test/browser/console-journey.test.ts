/**
 * What a new operator does first in the console, from the link that `postern console` prints: a project, a domain that is
 * verified, a form, its first submission, mail that bounces, a destination that is held, a key. No documentation, no terminal.
 */
import type { Page } from 'playwright-core';
import { expect, test } from 'vitest';
import { ask } from '../harness/binary.ts';
import { useBrowser } from '../harness/browser.ts';
import { startTestWorld, type TestWorld } from '../harness/daemon.ts';
import type { ZoneRecord } from '../../src/dev/dns-server.ts';

const openBrowser = useBrowser();

/** Goes to a page by the list at the side, which is behind a button on a phone. */
async function choose(page: Page, name: string): Promise<void> {
  const menu = page.getByRole('button', { name: 'Menu' });
  if (await menu.isVisible()) await menu.click();
  await page.getByRole('navigation', { name: 'Console' }).getByRole('link', { name, exact: true }).click();
  await page.getByRole('heading', { level: 1, name: new RegExp(name) }).waitFor();
}

/** Does what the owner of the zone does with what the page shows: publishes the required records. */
async function publish(world: TestWorld, domain: string): Promise<void> {
  const report = await world.daemon.domains.report(domain);
  const records = (report?.records ?? []).filter(({ value }) => value !== '') as unknown as ZoneRecord[];
  world.dns.set([...world.publicZone, ...records]);
}

test.each([390, 1280, 1920])('a new operator gets along at %i px', async (width) => {
  const world = await startTestWorld();
  world.mx.behave(({ to }) =>
    to.at(-1) === 'gone@inbox.test' ? { code: 550, text: '5.1.1 There is nobody of this name' } : undefined,
  );
  const { page, problems } = await openBrowser({ viewport: { width, height: 900 } });
  const socketPath = world.daemon.addresses?.socket;
  const made = await ask({ socketPath, path: '/admin/console-link', method: 'POST' });
  const { hash } = new URL((made.body as { url: string }).url);
  await page.goto(`${world.url}/console/sign-in${hash}`);
  await page.getByRole('heading', { name: 'First steps' }).waitFor();

  await choose(page, 'Projects');
  await page.getByRole('button', { name: 'Create project' }).first().click();
  await page.getByLabel('Name').fill('Shop');
  await page.getByRole('button', { name: 'Create project' }).click();
  await page.getByRole('heading', { level: 1, name: 'Shop' }).waitFor();

  await choose(page, 'Domains');
  await page.getByRole('button', { name: 'Add domain' }).first().click();
  await page.getByLabel('Domain', { exact: true }).fill('shop.test');
  await page.getByRole('button', { name: 'Add domain' }).last().click();
  await page.getByRole('heading', { level: 1, name: 'shop.test' }).waitFor();
  await page.getByRole('button', { name: 'Copy', exact: false }).first().waitFor();
  await publish(world, 'shop.test');
  await page.getByRole('button', { name: 'Check now' }).click();
  await page.getByRole('heading', { level: 1 }).getByText('verified').waitFor();

  await choose(page, 'Forms');
  await page.getByRole('button', { name: 'Create form' }).first().click();
  await page.getByLabel('Name').fill('Contact');
  await page.getByLabel('Recipient').fill('gone@inbox.test');
  await page.getByLabel('Kind').selectOption({ label: 'On shop.test' });
  await page.getByRole('button', { name: 'Create form' }).click();
  await page.getByRole('heading', { level: 1, name: 'Contact' }).waitFor();
  await page.getByRole('button', { name: 'Send a test post' }).click();
  await page.getByRole('link', { name: 'Look at the submission' }).click();
  const submission = page.getByRole('article', { name: 'Submission' });
  await submission.getByText('Accepted').waitFor();
  await submission.getByRole('button', { name: 'Spam', exact: true }).click();
  await choose(page, 'Submissions');
  await page.getByRole('link', { name: /^Spam/ }).click();
  await page.getByRole('listitem').getByRole('link').first().waitFor();
  await page.locator('a[href*="/submissions/sub_"]').first().click();
  await submission.getByRole('button', { name: 'Not spam' }).click();
  await page.getByRole('heading', { name: 'No spam' }).waitFor();

  await choose(page, 'Mail');
  await page.getByRole('listitem').getByText('bounced').first().waitFor();
  await page.locator('a[href*="/mail/msg_"]').first().click();
  await page.getByText('There is nobody of this name').first().waitFor();

  await choose(page, 'Queue');
  await page.getByRole('button', { name: 'Hold a destination' }).click();
  await page.getByLabel('Domain', { exact: true }).fill('inbox.test');
  await page.getByRole('button', { name: 'Hold', exact: true }).click();
  await page.getByText('Mail for inbox.test is held').first().waitFor();
  await page.getByRole('button', { name: 'Release inbox.test' }).click();
  await page.getByText('inbox.test is released').waitFor();

  await choose(page, 'API keys');
  await page.getByRole('button', { name: 'Create key' }).first().click();
  await page.getByLabel('Name').fill('Website');
  await page.getByRole('button', { name: 'Send mail' }).click();
  await page.getByRole('button', { name: 'Create key' }).last().click();
  await page.getByRole('link', { name: 'Done' }).click();
  await page.getByRole('button', { name: 'Revoke' }).click();
  await page.getByRole('button', { name: 'Revoke key' }).click();
  await page.getByText('The key Website is revoked.').waitFor();
  expect(problems).toEqual([]);
});
