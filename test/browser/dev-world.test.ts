import { readFile } from 'node:fs/promises';
import type { Download, Locator, Page } from 'playwright-core';
import { expect, test } from 'vitest';
import { startDevWorld, useBrowser, type DevWorld } from '../harness/browser.ts';
import { answers, until } from '../harness/child.ts';

const openBrowser = useBrowser();

const NAME = '山田 太郎';
const MESSAGE = 'こんにちは。\n写真を二枚お送りします。';
const BINARY = Buffer.from(Array.from({ length: 300_000 }, (_, i) => (i * 7919 + (i >> 8)) % 256));
const TEXT = Buffer.from('Grüße aus 東京\r\n.\r\nFrom here on\n', 'utf8');
const FILES = [
  { name: '写真 1.bin', mimeType: 'application/octet-stream', buffer: BINARY },
  { name: 'notes.txt', mimeType: 'text/plain', buffer: TEXT },
];

async function fillIn(page: Page, world: DevWorld): Promise<void> {
  await page.goto(`${world.url}/`);
  await page.getByLabel('Name').fill(NAME);
  await page.getByLabel('Email').fill('yamada@inbox.test');
  await page.getByLabel('Message').fill(MESSAGE);
  await page.getByLabel('Files').setInputFiles(FILES);
}

/** The row of the notification in the outbox, which keeps itself up to date. */
function notification(outbox: Page): Locator {
  return outbox.getByRole('link', { name: /Contact form: / });
}

async function bytesOf(download: Download): Promise<Buffer> {
  return await readFile(await download.path());
}

async function clickDownload(page: Page, name: string): Promise<Download> {
  const [download] = await Promise.all([page.waitForEvent('download'), page.getByRole('link', { name }).click()]);
  return download;
}

test('bin/postern dev: a form sent in a browser is in the outbox, signed and whole; Ctrl-C ends it', async () => {
  const world = await startDevWorld();
  const { page, context, problems } = await openBrowser();
  const outbox = await context.newPage();
  await outbox.goto(`${world.url}/outbox`);
  expect(await outbox.getByRole('main').innerText()).toContain('No mail yet.');

  await page.bringToFront(); // the browser slows pages behind others
  await fillIn(page, world);
  const start = performance.now();
  await page.getByRole('button', { name: 'Send', exact: true }).click();
  await notification(outbox).waitFor();
  const seen = Math.round(performance.now() - start);
  process.stdout.write(`From the click to the mail in the open outbox page: ${seen} ms\n`);
  expect(await page.getByRole('heading', { level: 1 }).innerText()).toBe('Thank you');
  const row = await notification(outbox).innerText();
  expect(row).toContain('DKIM pass');
  expect(row).toContain('SPF pass');
  expect(row).toContain('2 files');
  expect(row).toContain('owner@inbox.test');

  await outbox.bringToFront();
  await notification(outbox).click();
  const frame = outbox.frameLocator('iframe[sandbox]');
  await frame.getByText(NAME).first().waitFor();
  expect(await frame.locator('body').innerText()).toContain(MESSAGE);
  const facts = await outbox.getByRole('main').innerText();
  expect(facts).toMatch(/Reply-To\s+(?:山田 太郎 <)?yamada@inbox\.test/);
  expect(facts).toContain('DMARC pass');

  await outbox.getByRole('link', { name: 'Text', exact: true }).click();
  const text = await outbox.getByRole('region', { name: 'Text' }).innerText();
  expect(text).toContain(NAME);
  for (const line of MESSAGE.split('\n')) expect(text).toContain(line);

  await outbox.getByRole('link', { name: 'Headers', exact: true }).click();
  const header = outbox.getByRole('row', { name: /^DKIM-Signature/i });
  expect(await header.innerText()).toContain('d=demo.test');

  await outbox.getByRole('link', { name: 'Source', exact: true }).click();
  const source = await outbox.getByRole('region', { name: 'Source' }).innerText();
  expect(source).toContain('DKIM-Signature:');
  expect(source).toContain('multipart/');

  for (const { name, buffer } of FILES) {
    const download = await clickDownload(outbox, name);
    expect(download.suggestedFilename()).toBe(name);
    expect((await bytesOf(download)).equals(buffer)).toBe(true);
  }
  const whole = await bytesOf(await clickDownload(outbox, 'Download .eml'));
  expect(whole.toString('latin1')).toMatch(/^DKIM-Signature: /m);
  expect(problems).toEqual([]);

  const port = Number(new URL(world.url).port);
  const interrupted = performance.now();
  process.kill(world.child.pid, 'SIGINT');
  expect(await world.child.ended, world.child.output()).toBe(0);
  expect(performance.now() - interrupted).toBeLessThan(20_000);
  expect(await answers(port)).toBe(false);
});

test('the fetch() button sends the same form and says how it went', async () => {
  const world = await startDevWorld();
  const { page, problems } = await openBrowser();
  await fillIn(page, world);
  const button = page.getByRole('button', { name: 'Send with fetch()' });
  const said = page.getByRole('status');
  await button.click();
  await until('the answer', async () => (await said.innerText()).startsWith('200 '));
  expect(await said.getAttribute('data-kind')).toBe('good');
  // Ready for the next one.
  expect(await page.getByLabel('Name').inputValue()).toBe('');

  // What the browser lets pass and the server does not.
  await page.getByLabel('Name').fill('   ');
  await page.getByLabel('Email').fill('yamada@inbox');
  await page.getByLabel('Message').fill(MESSAGE);
  await button.click();
  await until('the refusal', async () => (await said.innerText()).startsWith('400 '));
  expect(await said.innerText()).toMatch(/^name: .+/m);
  expect(await said.getAttribute('data-kind')).toBe('bad');
  expect(await page.getByLabel('Message').inputValue()).toBe(MESSAGE);

  await page.goto(`${world.url}/outbox`);
  await notification(page).waitFor();
  expect(await notification(page).count()).toBe(1);
  expect(await notification(page).innerText()).toContain('2 files');
  expect(problems).toEqual([]);
});

test('the outbox deletes all of its mail once somebody has agreed to it', async () => {
  const world = await startDevWorld();
  const { page, context, problems } = await openBrowser();
  const outbox = await context.newPage();
  await outbox.goto(`${world.url}/outbox`);
  await fillIn(page, world);
  await page.getByRole('button', { name: 'Send', exact: true }).click();
  await outbox.bringToFront();
  // The page was open before there was any mail.
  const button = outbox.getByRole('button', { name: 'Delete all' });
  const question = outbox.getByRole('form', { name: 'Delete all mail' });
  for (const [answer, left] of [
    ['Cancel', 1],
    ['Delete', 0],
  ] as const) {
    await notification(outbox).waitFor();
    await button.click();
    expect(await question.innerText()).toMatch(/^Delete \d messages? from the outbox\?/);
    await question.getByRole('button', { name: answer }).click();
    await question.waitFor({ state: 'hidden' });
    await expect.poll(() => notification(outbox).count()).toBe(left);
  }
  expect(await outbox.getByRole('main').innerText()).toContain('No mail yet.');
  expect(await button.count()).toBe(0);
  expect(problems).toEqual([]);
});
