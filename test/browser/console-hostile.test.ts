/** What visitors and other mail servers wrote is inert wherever the console shows it: fields, files, subjects, headers, replies, user agents. */
import nodemailer from 'nodemailer';
import { expect, test } from 'vitest';
import { useBrowser } from '../harness/browser.ts';
import { consoleLink } from '../harness/console.ts';
import { startTestWorld } from '../harness/daemon.ts';

const openBrowser = useBrowser();

const PAYLOADS = [
  '<script>window.ran = 1</script>',
  '<img src=x onerror="window.ran=1">',
  '"><svg onload=window.ran=1>',
  "'-window.ran=1-'",
  '</title></textarea></style><script>window.ran=1</script>',
  '{{constructor.constructor("window.ran=1")()}}${window.ran=1}',
  'javascript:window.ran=1',
] as const;
const ALL = PAYLOADS.join(' ');

test('payloads in fields, file names, subjects, headers, replies and names of browsers do nothing', async () => {
  const world = await startTestWorld({
    projects: {
      'site.yml': `
project: { name: Site, slug: site, owner: owner@inbox.test }
settings: { rate_limit: 100000 }
domains:
  example.test:
    forms: { contact: { name: Contact, to: owner@inbox.test, uploads: { enabled: true } } }
    forwarding: { info@example.test: owner@inbox.test }
`,
    },
  });
  world.mx.behave(() => ({ code: 550, text: `5.1.1 ${ALL}` }));
  for (const payload of PAYLOADS) {
    const form = new FormData();
    form.set('name', payload);
    form.set('email', 'ann@inbox.test');
    form.set(payload.slice(0, 60), payload);
    form.set('message', `Hello, are you open on Sunday? ${payload}`);
    form.set('file', new File(['text'], `${payload.replaceAll('/', '∕')}.txt`, { type: 'text/plain' }));
    const answer = await world.post('/example.test/contact', form, {
      'User-Agent': payload,
      Referer: `http://example.test/?${payload}`,
    });
    expect(answer.status).toBeLessThan(400);
  }
  const transport = nodemailer.createTransport({
    host: '127.0.0.1',
    port: world.daemon.smtp[0]?.port ?? 0,
    ignoreTLS: true,
    name: 'evil.test',
  });
  await transport.sendMail({
    from: { name: ALL, address: 'ann@sender.test' },
    to: 'info@example.test',
    subject: ALL,
    headers: { 'X-Hostile': ALL },
    html: `<p>Hello</p>${ALL}<img src="https://evil.test/x.png"><link rel=stylesheet href="https://evil.test/y.css"><meta http-equiv=refresh content="0;url=https://evil.test/z">`,
  });
  await world.tryNow();
  const { page, context, problems } = await openBrowser({ viewport: { width: 1280, height: 1000 } });
  const elsewhere: string[] = [];
  context.on('request', (request) => {
    if (!request.url().startsWith(world.url) && !request.url().startsWith('data:')) elsewhere.push(request.url());
  });
  await page.goto(await consoleLink(world));
  await page.getByRole('heading', { level: 1, name: 'Overview' }).waitFor();

  /** Opens a page of the console and answers its text; nothing has run in it, or in a frame of it. */
  async function visit(path: string): Promise<string> {
    await page.goto(world.url + path);
    await page.locator('h1').waitFor();
    await expect.poll(() => page.locator('.loading').count()).toBe(0);
    for (const entry of await page.locator('details.entry').all()) await entry.click();
    for (const frame of page.frames()) {
      // A frame without scripts cannot be asked.
      const ran = await frame.evaluate('window.ran').catch(() => undefined);
      expect([path, ran]).toEqual([path, undefined]);
    }
    return page.locator('main').innerText();
  }
  async function linksOf(list: string, kind: string): Promise<string[]> {
    await visit(list);
    const links = page.locator(`a[href*="/${kind}_"]`);
    return [...new Set(await links.evaluateAll((all) => all.map((link) => link.getAttribute('href') ?? '')))];
  }

  const submissions = await linksOf('/console/submissions?view=all', 'sub');
  expect(submissions).toHaveLength(PAYLOADS.length);
  const messages = await linksOf('/console/mail', 'msg');
  expect(messages.length).toBeGreaterThan(PAYLOADS.length);
  const texts: string[] = [];
  for (const path of [...submissions, ...messages]) texts.push(await visit(path));
  // They are all there, as they were written.
  for (const payload of PAYLOADS) expect(texts.some((text) => text.includes(payload))).toBe(true);
  const [forwarded] = messages;
  for (const tab of ['path', 'html', 'text', 'headers', 'source']) await visit(`${forwarded}?tab=${tab}`);
  await visit('/console/inbound');
  await visit('/console/server/logs');
  expect(elsewhere).toEqual([]);
  expect(problems).toEqual([]);
});
