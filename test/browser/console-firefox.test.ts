/** Every page of the console in a browser that is not Chromium, at three widths, and a submission that is read and judged. */
import { expect, test } from 'vitest';
import { startDevWorld } from '../harness/browser.ts';
import { useFirefox } from '../harness/firefox.ts';
import { axeFaults } from './page-rules.ts';

const openFirefox = useFirefox();

/** What stands on the page while it loads; the page is there when that is gone. */
const SETTLED = "document.querySelector('h1') !== null && document.querySelector('.loading') === null";

test('every page is there, can be used by all, and reports nothing', async () => {
  const world = await startDevWorld();
  const body = new URLSearchParams({ name: 'Ann', email: 'ann@inbox.test', message: 'Are you open on Sunday?' });
  expect((await fetch(`${world.url}/demo.test/contact`, { method: 'POST', body })).status).toBe(200);
  const { page, problems } = await openFirefox();
  await page.goto(`${world.url}/console`);
  await page.waitForFunction(SETTLED);
  const paths = (await page.evaluate(
    "[...document.querySelectorAll('nav a')].map((link) => link.getAttribute('href'))",
  )) as string[];
  expect(paths.length).toBeGreaterThan(12);
  for (const path of paths) {
    await page.goto(world.url + path);
    await page.waitForFunction(SETTLED);
    expect(await axeFaults(page), path).toEqual([]);
    for (const width of [390, 1280, 1920]) {
      await page.setViewport({ width, height: 1000 });
      const isWide = await page.evaluate('document.documentElement.scrollWidth > document.documentElement.clientWidth');
      expect([path, width, isWide]).toEqual([path, width, false]);
    }
  }
  expect(problems).toEqual([]);
});

test('a submission is read, marked as spam, and released', async () => {
  const world = await startDevWorld();
  const body = new URLSearchParams({ name: 'Ann', email: 'ann@inbox.test', message: 'Are you open on Sunday?' });
  expect((await fetch(`${world.url}/demo.test/contact`, { method: 'POST', body })).status).toBe(200);
  const { page, problems } = await openFirefox();
  await page.setViewport({ width: 1280, height: 1000 });
  await page.goto(`${world.url}/console/submissions`);
  await page.locator('a[href*="/submissions/sub_"]').click();
  async function press(name: string): Promise<void> {
    const button = `[...document.querySelectorAll('article button')].find(({ textContent }) => textContent === '${name}')`;
    await page.waitForFunction(`${button} !== undefined`);
    await page.evaluate(`${button}.click()`);
  }
  await press('Spam');
  await page.waitForFunction("document.querySelector('main').textContent.includes('The inbox is empty')");
  await page.locator('a[href$="?view=spam"]').click();
  await page.locator('a[href*="/submissions/sub_"]').click();
  await press('Not spam');
  await page.waitForFunction("document.querySelector('main').textContent.includes('No spam')");
  expect(problems).toEqual([]);
});
