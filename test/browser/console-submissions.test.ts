/** The inbox of the console: what came in is found, read, judged and deleted, by mouse and by keyboard. */
import { once } from 'node:events';
import { request, type IncomingMessage } from 'node:http';
import { json } from 'node:stream/consumers';
import type { Page } from 'playwright-core';
import { expect, test } from 'vitest';
import { startDevWorld, useBrowser, type DevWorld } from '../harness/browser.ts';
import { expectGoodPage } from './page-rules.ts';

const openBrowser = useBrowser();
const PICTURE = Buffer.from(
  'iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg==',
  'base64',
);
const HOSTILE = '<img src=x onerror=alert(1)><script>alert(2)</script>';

async function post(url: string, fields: Readonly<Record<string, string | File>>): Promise<void> {
  const body = new FormData();
  for (const [name, value] of Object.entries({ email: 'ann@inbox.test', ...fields })) body.set(name, value);
  const answer = await fetch(`${url}/demo.test/contact`, { method: 'POST', body });
  expect(answer.status, await answer.text()).toBe(200);
}

/** Signs in as the operator, by the one-time link that `postern console` prints. */
async function signIn(page: Page, world: DevWorld): Promise<void> {
  const [, socketPath] = /--unix-socket (\S+)/.exec(world.child.output()) ?? [];
  const asked = request({ socketPath, path: '/admin/console-link', method: 'POST' });
  asked.setHeader('Content-Type', 'application/json').end('{}');
  const [answer] = (await once(asked, 'response')) as [IncomingMessage];
  const { url } = (await json(answer)) as { url: string };
  await page.goto(`${world.url}/console`);
  const [, token = ''] = url.split('#');
  const status = await page.evaluate<number>(
    `fetch('/api/auth/session', { method: 'POST', headers: { 'Content-Type': 'application/json' },
      body: ${JSON.stringify(JSON.stringify({ token }))} }).then(({ status }) => status)`,
  );
  expect(status).toBe(200);
}

/** Who sent what the list shows. */
function senders(page: Page): Promise<string[]> {
  return page.locator('.mails .sender').evaluateAll((all) => all.map((one) => one.textContent ?? ''));
}

test('what came in is read, judged, taken back and deleted', async () => {
  const world = await startDevWorld();
  for (const name of ['Ann', 'Bea', 'Cleo'])
    await post(world.url, { name, message: `I am ${name}. Are you open today?` });
  await post(world.url, {
    name: 'Dora',
    message:
      'Hello, do you still have the small lemon cake that I bought last week? I would like two of them on Friday. Thank you, Dora',
    note: HOSTILE,
    picture: new File([PICTURE], `${HOSTILE}.png`, { type: 'image/png' }),
  });
  const { page, problems } = await openBrowser({ viewport: { width: 1280, height: 900 } });
  await signIn(page, world);
  await page.goto(`${world.url}/console/submissions`);
  await page.getByRole('link', { name: /Dora/ }).waitFor();
  expect(await senders(page)).toEqual(['Dora (unread)', 'Cleo (unread)', 'Bea (unread)', 'Ann (unread)']);
  await expectGoodPage(page);

  // Read: with its picture, and nothing in it runs.
  await page.keyboard.press('j');
  await page.getByRole('heading', { name: 'Dora' }).waitFor();
  await page.getByRole('img', { name: /^Picture/ }).waitFor();
  expect(await page.locator('.written', { hasText: HOSTILE }).count()).toBe(1);
  await expect.poll(() => senders(page)).toContain('Dora');
  await expectGoodPage(page);

  // Spam by key, and back.
  await page.keyboard.press('j');
  await page.getByRole('heading', { name: 'Cleo' }).waitFor();
  await page.keyboard.press('s');
  await expect.poll(() => senders(page)).not.toContain('Cleo');
  await page.getByRole('button', { name: 'Undo' }).click();
  await expect.poll(() => senders(page)).toContain('Cleo');

  // Search, in the address; a filter that finds nothing says so.
  await page.keyboard.press('/');
  await page.keyboard.type('bea');
  await expect.poll(() => senders(page)).toHaveLength(1);
  expect(page.url()).toContain('q=bea');
  await page.goto(`${world.url}/console/submissions?q=nobody`);
  await page.getByRole('heading', { name: 'Nothing found' }).waitFor();
  await expectGoodPage(page);

  // Many at once; a deletion is taken back, then not.
  await page.goto(`${world.url}/console/submissions`);
  await page.getByLabel('Select the submission from Ann').check();
  await page.getByLabel('Select the submission from Bea').check();
  await expectGoodPage(page);
  await page.getByRole('toolbar').getByRole('button', { name: 'Delete' }).click();
  await expect.poll(() => senders(page)).toHaveLength(2);
  await page.getByRole('button', { name: 'Undo' }).click();
  await expect.poll(() => senders(page)).toHaveLength(4);
  await page.getByLabel('Select the submission from Ann').check();
  await page.getByRole('toolbar').getByRole('button', { name: 'Delete' }).click();
  await page.goto(`${world.url}/console/submissions?view=all`);
  await page.getByRole('link', { name: /Cleo/ }).waitFor();
  await expect
    .poll(async () => {
      await page.reload();
      await page.getByRole('link', { name: /Cleo/ }).waitFor();
      return (await senders(page)).some((name) => name.startsWith('Ann'));
    })
    .toBe(false);

  // What comes in appears by itself.
  await post(world.url, { name: 'Eva', message: 'Hello, and good day.' });
  await page.getByRole('link', { name: /Eva/ }).waitFor();
  await page.keyboard.press('?');
  await page.getByRole('heading', { name: 'Shortcuts' }).waitFor();
  await expectGoodPage(page);
  expect(problems).toEqual([]);
});
