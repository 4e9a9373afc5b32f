/** What the operator does in the console, without a terminal: reads the overview, holds mail, looks after accounts, finds a line of the log. */
import { expect, test } from 'vitest';
import { startDevWorld, useBrowser } from '../harness/browser.ts';
import { expectGoodPage } from './page-rules.ts';

const openBrowser = useBrowser();

async function open(path: string) {
  const world = await startDevWorld();
  const { page, problems } = await openBrowser({ viewport: { width: 1280, height: 1000 } });
  async function post(): Promise<void> {
    const body = new URLSearchParams({ name: 'Ann', email: 'ann@inbox.test', message: 'Are you open on Sunday?' });
    expect((await fetch(`${world.url}/demo.test/contact`, { method: 'POST', body })).status).toBe(200);
  }
  // Signs in, once.
  await page.goto(`${world.url}/console`);
  await page.getByRole('heading', { name: 'Overview' }).waitFor();
  await page.goto(`${world.url}/console${path}`);
  return { world, page, problems, post };
}

test('the overview counts what happens, and a span that is drawn goes into the address', async () => {
  const { world, page, problems, post } = await open('/');
  const submissions = page
    .getByRole('listitem')
    .filter({ hasText: /^Submissions/ })
    .getByRole('strong');
  await expect.poll(() => submissions.textContent()).toBe('0');
  await post();
  await expect.poll(() => submissions.textContent()).toBe('1');
  await page.getByRole('button', { name: '24 hours' }).click();
  await expect.poll(() => page.url()).toBe(`${world.url}/console?range=24h`);
  const figure = page.getByRole('img', { name: /^Submissions over time: 1 submissions/ });
  const box = await figure.boundingBox();
  if (box === null) throw new Error('there is no figure');
  await page.mouse.move(box.x + box.width / 2, box.y + 100);
  await page.mouse.down();
  await page.mouse.move(box.x + box.width - 60, box.y + 100, { steps: 5 });
  await page.mouse.up();
  await expect.poll(() => page.url()).toMatch(/\/console\?from=2.*Z&to=2.*Z$/);
  await page.goBack();
  await expect.poll(() => page.url()).toBe(`${world.url}/console?range=24h`);
  // For those who cannot see it.
  await page.getByText('Show as a table').first().click();
  expect(await page.getByRole('table').first().getByRole('row').count()).toBeGreaterThan(20);
  await expectGoodPage(page);
  expect(problems).toEqual([]);
});

test('a destination is held and released, and a delivery cancelled', async () => {
  const { page, problems, post } = await open('/server/queue');
  await page.getByRole('button', { name: 'Hold a destination' }).click();
  await page.getByLabel('Domain', { exact: true }).fill('not a domain');
  await page.getByRole('button', { name: 'Hold', exact: true }).click();
  await page.getByText('must be a domain name such as example.com').waitFor();
  await page.getByLabel('Domain', { exact: true }).fill('inbox.test');
  await page.getByRole('button', { name: 'Hold', exact: true }).click();
  await page.getByText('Mail for inbox.test is held').first().waitFor();
  await post();
  await page.goto(page.url().replace(/\?.*/, ''));
  const row = page.getByRole('row').filter({ hasText: 'inbox.test' });
  await row.getByText('held', { exact: true }).waitFor();
  await expectGoodPage(page);
  await page.getByRole('link', { name: 'inbox.test' }).click();
  const delivery = page.getByRole('row').filter({ hasText: 'owner@inbox.test' });
  await delivery.getByRole('button', { name: 'Cancel' }).click();
  await page.getByRole('dialog').getByText('It is never sent').waitFor();
  await page.getByRole('button', { name: 'Cancel delivery' }).click();
  await delivery.getByText('cancelled').waitFor();
  await expectGoodPage(page);
  await page.goBack();
  await row.getByRole('button', { name: 'Release inbox.test' }).click();
  await page.getByText('inbox.test is no longer held').waitFor();
  expect(problems).toEqual([]);
});

test('an account is made, suspended, active again, and acted for', async () => {
  const { page, problems } = await open('/server/accounts');
  await page.getByRole('button', { name: 'New account' }).click();
  await page.getByLabel('Name').fill('Acme <b>Ltd</b>');
  await page.getByLabel('Email address').fill('ops@inbox.test.example');
  await page.getByRole('button', { name: 'Create account' }).click();
  await page.getByText(/svc_sk_live_/).waitFor();
  await expectGoodPage(page);
  await page.getByRole('link', { name: 'Acme <b>Ltd</b>' }).click();
  await page.getByRole('button', { name: 'Suspend' }).click();
  const dialog = page.getByRole('dialog', { name: 'Suspend Acme <b>Ltd</b>?' });
  await dialog.getByRole('button', { name: 'Suspend account' }).click();
  await page.getByRole('heading', { level: 1 }).getByText('suspended').waitFor();
  await page.getByRole('button', { name: 'End suspension' }).click();
  await page.getByRole('button', { name: 'Suspend', exact: true }).waitFor();
  await page.getByLabel('Messages per hour').fill('7');
  await page.getByRole('button', { name: 'Save' }).click();
  await page.getByText('The limits of Acme <b>Ltd</b> were changed.').waitFor();
  await expectGoodPage(page);
  await page.getByRole('button', { name: 'Act for this account' }).click();
  await page.getByText('You are acting for Acme <b>Ltd</b>.').first().waitFor();
  await page.getByRole('heading', { name: 'First steps' }).waitFor();
  await expectGoodPage(page);
  expect(problems).toEqual([]);
});

test('a submission is found in the log by its id, and a setting in the configuration', async () => {
  const { page, problems, post } = await open('/server/logs');
  await post();
  await expect
    .poll(async () => {
      await page.getByRole('button', { name: 'Refresh' }).click();
      return page.getByText('delivery.delivered').count();
    })
    .toBeGreaterThan(0);
  await page.getByText('delivery.delivered').first().click();
  await page.getByRole('button', { name: /^msg_/ }).first().click();
  await expect.poll(() => page.url()).toMatch(/\?id=msg_/);
  await expectGoodPage(page);
  await page.getByRole('searchbox').fill('nonsense');
  await page.getByText('An ID has three letters').waitFor();
  await page.getByRole('link', { name: 'Configuration' }).click();
  await page.getByRole('searchbox').fill('delivery.retry');
  await expect.poll(() => page.getByRole('row').count()).toBe(2);
  expect(problems).toEqual([]);
});
