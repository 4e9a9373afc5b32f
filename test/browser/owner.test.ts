/** The pages behind the links of a notification, as the owner of a form sees them. */
import { readFile } from 'node:fs/promises';
import { simpleParser } from 'mailparser';
import { expect, test } from 'vitest';
import { useBrowser } from '../harness/browser.ts';
import { startTestWorld } from '../harness/daemon.ts';
import { expectGoodPage } from './page-rules.ts';

const openBrowser = useBrowser();

test('view, mark as spam and back, stop: each asks before it acts', async () => {
  const world = await startTestWorld();
  const form = new FormData();
  for (const [name, value] of Object.entries({
    name: 'Zoë Müller',
    email: 'zoe@inbox.test',
    phone: '+49 30 123 456',
    message: 'Hello,\n\ncan you mend my <b>roof</b>?',
  }))
    form.append(name, value);
  form.append('plan', new Blob(['<script>alert(1)</script>'], { type: 'text/html' }), 'plan.html');
  await world.post('/example.test/contact', form, { Origin: 'https://example.test' });
  const [mail] = (await world.caught(1)).list();
  if (mail === undefined) throw new Error('nothing was caught');
  const { text = '' } = await simpleParser(await world.mx.mails.source(mail));
  const [view = '', spam = '', stop = ''] = [...text.matchAll(/\/s\/[\w.-]+/g)].map(([path]) => path);

  const { page, problems } = await openBrowser();
  const heading = () => page.getByRole('heading', { level: 1 }).innerText();
  await page.goto(world.url + view);
  expect(await heading()).toBe('Zoë Müller');
  await expectGoodPage(page);
  expect(await page.getByText('can you mend my <b>roof</b>?').isVisible()).toBe(true);
  const [download] = await Promise.all([
    page.waitForEvent('download'),
    page.getByRole('link', { name: 'plan.html' }).click(),
  ]);
  expect(await readFile(await download.path(), 'utf8')).toBe('<script>alert(1)</script>');

  await page.goto(world.url + spam);
  await expectGoodPage(page);
  await page.getByRole('button', { name: 'Mark as spam' }).click();
  expect(await heading()).toBe('Marked as spam');
  await expectGoodPage(page);
  await page.getByRole('link', { name: 'Not spam' }).click();
  await page.getByRole('button', { name: 'Not spam: release' }).click();
  expect(await heading()).toBe('Released');
  await page.getByRole('link', { name: 'View this submission' }).click();
  expect(await heading()).toBe('Zoë Müller');

  await page.goto(world.url + stop);
  await expectGoodPage(page);
  await page.getByRole('button', { name: 'Stop these emails' }).click();
  expect(await heading()).toBe('Emails stopped');
  await page.goto(world.url + stop);
  expect(await heading()).toBe('This link has already been used');
  await expectGoodPage(page);
  expect(problems).toEqual([]);
});
