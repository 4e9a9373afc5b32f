/** Mail and domains in the console: a mail that bounced is found and understood, what strangers wrote is inert, a domain is explained. */
import { mkdir } from 'node:fs/promises';
import { join } from 'node:path';
import nodemailer from 'nodemailer';
import type { Page } from 'playwright-core';
import { describe, expect, test } from 'vitest';
import { startDevWorld, useBrowser } from '../harness/browser.ts';
import { startTestWorld } from '../harness/daemon.ts';
import { testKey } from '../harness/keys.ts';
import { OPERATOR } from '../../src/store/tenants.ts';
import { expectGoodPage } from './page-rules.ts';

const openBrowser = useBrowser();

const HOSTILE = '<img src=x onerror=alert(1)><script>alert(1)</script>';

async function settled(page: Page): Promise<void> {
  await page.getByRole('heading', { level: 1 }).waitFor();
  await page.locator('.loading').waitFor({ state: 'detached' });
}

async function start() {
  const world = await startDevWorld();
  const visitor = await openBrowser({ viewport: { width: 1280, height: 1000 } });
  const { page } = visitor;
  await page.goto(`${world.url}/console`);
  await settled(page);
  const port = Number(/Mail in +127\.0\.0\.1:(\d+)/.exec(world.child.output())?.[1]);
  const transport = nodemailer.createTransport({ host: '127.0.0.1', port, ignoreTLS: true });
  return { world, ...visitor, transport };
}

describe('mail', () => {
  test('that was forwarded is found, followed to the last reply, and shown inert', async () => {
    const { world, page, problems, transport } = await start();
    await transport.sendMail({
      from: 'ann@sender.test',
      to: 'hello@demo.test',
      subject: HOSTILE,
      html: `<p>Hello</p>${HOSTILE}<img src="https://evil.test/x.png"><b style="background:url(https://evil.test/y)">b</b>`,
    });
    await page.goto(`${world.url}/console/mail`);
    await settled(page);
    await page.getByRole('searchbox').fill('onerror');
    await page.getByRole('link', { name: 'delivered owner@inbox.test' }).click();
    await page.getByRole('heading', { level: 1, name: HOSTILE }).waitFor();
    const dialogue = page.getByRole('list', { name: 'SMTP dialogue' });
    expect(await dialogue.textContent()).toContain('RCPT TO:<owner@inbox.test>');
    await expectGoodPage(page);
    for (const tab of ['Path', 'Text', 'Headers', 'Source', 'HTML']) {
      await page.getByRole('tab', { name: tab }).click();
      await settled(page);
      await expectGoodPage(page);
    }
    expect(new URL(page.url()).searchParams.get('tab')).toBe('html');
    await page.frameLocator('iframe').getByText('Hello').waitFor();
    expect(problems).toEqual([]);
  });

  test('that was refused is listed with the reason', async () => {
    const { world, page, problems, transport } = await start();
    await expect(transport.sendMail({ from: 'ann@sender.test', to: 'nobody@demo.test', text: 'Hi' })).rejects.toThrow(
      '550',
    );
    await page.goto(`${world.url}/console/inbound`);
    await settled(page);
    await page.getByText('nobody@demo.test').click();
    await page.getByText('550 5.1.1 no such address here').waitFor();
    await expectGoodPage(page);
    expect(problems).toEqual([]);
  });
});

test('a domain shows its records, its zone file, and where mail would go', async () => {
  const { world, page, problems } = await start();
  await page.goto(`${world.url}/console/domains`);
  await settled(page);
  await page.getByRole('link', { name: 'demo.test' }).click();
  await page.getByRole('heading', { level: 1, name: 'demo.test' }).waitFor();
  await page.getByText('Zone file').click();
  await page.getByRole('button', { name: 'Copy the zone file' }).waitFor();
  await page.getByRole('button', { name: 'Check now' }).click();
  await page.getByText(/demo\.test is verified: 2 of 2 required records found/).waitFor();
  await expectGoodPage(page);
  for (const tab of ['DKIM keys', 'Reports', 'Forwarding']) {
    await page.getByRole('tab', { name: tab }).click();
    await settled(page);
    await expectGoodPage(page);
  }
  await page.getByLabel('Address at demo.test').fill('hello');
  await page.getByRole('button', { name: 'Explain' }).click();
  await page.getByText('forwarded to owner@inbox.test').waitFor();
  await expectGoodPage(page);
  expect(problems).toEqual([]);
});

test.each([390, 1280, 1920])(
  'a check shows what is looked up and how each record was found, at %i px',
  async (width) => {
    const world = await startTestWorld();
    const { value } = await testKey(world.daemon.store, { tenant: OPERATOR });
    const { page, problems } = await openBrowser({ viewport: { width, height: 900 } });
    await page.goto(`${world.url}/console/domains/example.test`);
    await page.getByRole('textbox', { name: 'API key' }).fill(value);
    await page.keyboard.press('Enter');
    await settled(page);
    // The answers that a slow DNS server would give: one record takes seconds, one is gone.
    const report = await world.daemon.domains.report('example.test');
    const records = (report?.records ?? []).filter(({ required, purpose }) => required && purpose !== 'ownership');
    world.dns.set([
      ...world.publicZone,
      ...records.map(({ name, type, value: text }) => ({ name, type, value: text })),
      { name: '_dmarc.example.test', fault: 'SILENT' },
    ]);
    await page.getByRole('button', { name: 'Check now' }).click();
    const check = page.getByRole('region', { name: 'Check of the DNS records' });
    const row = (purpose: string) => check.getByRole('listitem').filter({ hasText: purpose });
    await row('Ownership').getByText('missing').waitFor();
    await row('DKIM').getByText('ok').waitFor();
    expect(await row('DMARC').innerText()).toContain('looking up');
    expect(await check.getByRole('status').innerText()).toMatch(
      /^Looking up the records of example\.test: [23] of 4 done$/,
    );
    await page.screenshot({ path: await resultPath(`domain-check-${width}.png`) });
    await row('DMARC').getByText('unknown').waitFor();
    await check.getByText('example.test is degraded: 1 of 2 required records found.').waitFor();
    await page.getByRole('heading', { level: 1 }).getByText('degraded').waitFor();
    await page.screenshot({ path: await resultPath(`domain-checked-${width}.png`) });
    await expectGoodPage(page);
    expect(problems).toEqual([]);
  },
);

async function resultPath(name: string): Promise<string> {
  const folder = join(import.meta.dirname, '../../test-results/console');
  await mkdir(folder, { recursive: true });
  return join(folder, name);
}
