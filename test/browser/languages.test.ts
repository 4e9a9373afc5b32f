import { expect, test } from 'vitest';
import { startSite, useBrowser } from '../harness/browser.ts';
import { startTestWorld } from '../harness/daemon.ts';
import { expectGoodPage } from './page-rules.ts';

const openBrowser = useBrowser();

const LOGO = `data:image/svg+xml;base64,${Buffer.from(
  '<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 120 40"><rect width="120" height="40" rx="8" fill="#0a7d5a"/><circle cx="20" cy="20" r="10" fill="#ffcc00"/></svg>',
).toString('base64')}`;

const PROJECT = `
project: { name: Site, slug: site, owner: owner@inbox.test }
settings: { rate_limit: 1000 }
domains:
  example.test:
    forms:
      contact:
        name: Contact form
        to: owner@inbox.test
        required: [name, message]
        fields: { topic: { options: [Order, Complaint] } }
        uploads: { enabled: true }
        theme: { title: Ada & Co, message: 'Call +49 30 1234567', color: '#ffcc00', logo: '${LOGO}' }
`;

test.each([
  ['de-DE', 'de', 'ltr'],
  ['ar', 'ar', 'rtl'],
  ['ja-JP', 'ja', 'ltr'],
])('for a browser in %s all pages are in that language, and can be read by everybody', async (locale, lang, dir) => {
  const site = await startSite();
  const world = await startTestWorld({ projects: { 'site.yml': PROJECT } });
  const { page, problems } = await openBrowser({ locale });
  const action = `${world.url}/example.test/contact`;
  const inputs = ['name', 'email', 'topic', 'message'].map((name) => `<input name="${name}" aria-label="${name}">`);
  site.pages.set('/', `<form action="${action}" method="post">${inputs.join('')}<button>Go</button></form>`);

  const send = async (fields: Record<string, string>): Promise<void> => {
    await page.goto(`http://www.example.test:${site.port}/`);
    for (const [name, value] of Object.entries(fields)) await page.getByLabel(name, { exact: true }).fill(value);
    await page.getByRole('button').click();
    await page.getByRole('heading', { level: 1 }).waitFor();
  };
  const check = async (): Promise<void> => {
    expect(await page.locator('html').getAttribute('dir')).toBe(dir);
    expect(await page.getByRole('banner').innerText()).toBe('Ada & Co');
    expect(
      await page.locator('.logo').evaluate((image: { naturalWidth: number }) => image.naturalWidth),
    ).toBeGreaterThan(0);
    await expectGoodPage(page, lang);
    // Text of twice the size (WCAG 2.2, 1.4.4).
    await page.evaluate("document.documentElement.style.fontSize = '200%'");
    expect(await page.evaluate('document.documentElement.scrollWidth <= window.innerWidth')).toBe(true);
  };
  await send({ email: 'nobody', topic: 'None', message: 'Hello' });
  await check();
  await send({ name: 'Ann', email: 'ann@inbox.test', topic: 'Order', message: 'Hello' });
  await check();
  await page.goto(action);
  await check();
  expect(problems).toEqual([]);
});
