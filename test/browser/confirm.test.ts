import { expect, test } from 'vitest';
import { useBrowser } from '../harness/browser.ts';
import { startTestWorld } from '../harness/daemon.ts';
import { expectGoodPage } from './page-rules.ts';

const openBrowser = useBrowser();

test('the pages of a mailed link', async () => {
  const world = await startTestWorld({ server: { server: { signup: 'open', http: { listen: ['127.0.0.1:0'] } } } });
  const signed = await fetch(`${world.url}/signup`, {
    method: 'POST',
    headers: { 'Content-Type': 'application/json' },
    body: JSON.stringify({ name: 'Nina', email: 'nina@inbox.test' }),
  });
  const { key } = (await signed.json()) as { key: string };
  const mails = await world.caught(1);
  const [mail] = mails.list();
  if (mail === undefined) throw new Error('nothing was caught');
  const [path = ''] = /\/confirm\/[\w-]+/.exec((await mails.source(mail)).toString().replaceAll('=\r\n', '')) ?? [];

  const { page, problems } = await openBrowser();
  const heading = () => page.getByRole('heading', { level: 1 }).innerText();
  await page.goto(world.url + path);
  await expectGoodPage(page);
  expect(await heading()).toBe('Confirm your account');
  await page.getByRole('button', { name: 'Confirm the account' }).click();
  expect(await heading()).toBe('Your account is confirmed');
  await expectGoodPage(page);
  const status = await fetch(`${world.url}/auth/status`, { headers: { 'X-Api-Key': key } });
  expect(status.status).toBe(200);
  // Back, and once more: nothing is done twice.
  await page.goto(world.url + path);
  expect(await heading()).toBe('Your account is confirmed');
  expect(problems).toEqual([]);

  await page.goto(`${world.url}/confirm/not-a-token`);
  expect(await heading()).toBe('This link does not work');
  await expectGoodPage(page);
});

test('the page that confirms what a visitor sent', async () => {
  const site = `
project: { name: Site, slug: site, owner: owner@inbox.test }
domains: { example.test: { forms: { join: { name: Join us, double_opt_in: true } } } }
`;
  const world = await startTestWorld({ projects: { 'site.yml': site } });
  const fields = { email: 'ana@inbox.test', message: 'Hello' };
  expect((await world.post('/example.test/join', fields, { Origin: 'https://example.test' })).status).toBe(200);
  const mails = await world.caught(1);
  const [mail] = mails.list();
  if (mail === undefined) throw new Error('nothing was caught');
  const [path = ''] = /\/confirm\/[\w-]+/.exec((await mails.source(mail)).toString().replaceAll('=\r\n', '')) ?? [];

  const { page, problems } = await openBrowser();
  await page.goto(world.url + path);
  await expectGoodPage(page);
  await page.getByRole('button', { name: 'Confirm', exact: true }).click();
  await expectGoodPage(page);
  expect(await page.getByRole('heading', { level: 1 }).innerText()).toBe('Thank you, your message is confirmed');
  await world.caught(2);
  expect(problems).toEqual([]);
});
