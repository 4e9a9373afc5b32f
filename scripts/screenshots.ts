/**
 * `npm run screenshots`: takes the pictures of README.md and docs/tutorial.md from a running `postern dev`, with Debian's
 * Chromium. Run it after a change of the demo form, the built-in notification, the outbox or the console.
 */
import { mkdtemp, rm, stat } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { chromium, type Page } from 'playwright-core';
import { startChild, untilReady } from '../test/harness/child.ts';

const ROOT = join(import.meta.dirname, '..');
const MAX_BYTES = 150_000;
const VISITORS = [
  { name: 'Grace Hopper', email: 'grace@example.org', message: 'Could you send me a quote for 40 units?' },
  { name: 'Alan Turing', email: 'alan@example.org', message: 'The link to your opening hours is broken.' },
  {
    name: 'Ada Lovelace',
    email: 'ada@example.org',
    message: 'Hello,\n\nis the workshop on 12 March still open?\nWe would be two people.\n\nKind regards\nAda Lovelace',
  },
];

const folder = await mkdtemp(join(tmpdir(), 'postern-screenshots-'));
const dev = await startChild(join(ROOT, 'bin/postern'), ['dev', '--data', join(folder, 'data'), '--port', '8025']);
try {
  await untilReady(dev, () => dev.output().includes('Press Ctrl-C to stop'));
  const url = /http:\/\/localhost:\d+/.exec(dev.output())?.[0] ?? '';
  const browser = await chromium.launch({ executablePath: '/usr/bin/chromium-headless-shell', args: ['--no-sandbox'] });
  const page = await browser.newPage({ viewport: { width: 960, height: 760 }, colorScheme: 'light' });
  for (const visitor of VISITORS) {
    await page.goto(url);
    await page.getByLabel('Name').fill(visitor.name);
    await page.getByLabel('Email').fill(visitor.email);
    await page.getByLabel('Message').fill(visitor.message);
    if (visitor === VISITORS.at(-1)) await save(page, 'form');
    await page.getByRole('button', { name: 'Send', exact: true }).click();
    await page.getByRole('heading', { name: 'Thank you' }).waitFor();
  }
  await page.goto(`${url}/outbox`);
  // A notification and an acknowledgment for each.
  await page
    .getByText('We have received your message')
    .nth(VISITORS.length - 1)
    .waitFor();
  await page
    .getByRole('link', { name: /Contact form: / })
    .nth(VISITORS.length - 1)
    .waitFor();
  await save(page, 'outbox');
  await page
    .getByRole('link', { name: /Contact form: / })
    .first()
    .click();
  await page.frameLocator('iframe[sandbox]').getByText('Ada Lovelace').first().waitFor();
  await save(page, 'mail');
  await page.setViewportSize({ width: 1280, height: 800 });
  await page.goto(`${url}/console/submissions`);
  await page.getByText('is the workshop on 12 March still open?').first().click();
  await page.getByRole('article', { name: 'Submission' }).getByText('delivered').first().waitFor();
  await save(page, 'console-submissions');
  await page.goto(`${url}/console/domains/demo.test`);
  await page.getByText('verified').first().waitFor();
  await save(page, 'console-domain');
  await page.goto(`${url}/console`);
  await page.getByText('Show as a table').first().waitFor();
  await save(page, 'console-overview');
  await browser.close();
} finally {
  await dev.stop('SIGINT');
  await rm(folder, { recursive: true, force: true });
}

async function save(page: Page, name: string): Promise<void> {
  const path = `docs/images/${name}.png`;
  await page.screenshot({ path: join(ROOT, path), fullPage: name === 'mail' });
  const { size } = await stat(join(ROOT, path));
  if (size > MAX_BYTES) throw new Error(`${path} has ${size} bytes, more than ${MAX_BYTES}`);
  console.log(`${path}: ${size} bytes`);
}
