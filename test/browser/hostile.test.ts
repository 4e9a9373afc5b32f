import { readFile } from 'node:fs/promises';
import { simpleParser } from 'mailparser';
import { createTransport } from 'nodemailer';
import { expect, test } from 'vitest';
import { digestMail, entryOf } from '../../src/forms/digest.ts';
import { translationOf } from '../../src/languages/languages.ts';
import { startDevWorld, startSite, useBrowser } from '../harness/browser.ts';
import { startTestWorld } from '../harness/daemon.ts';

const openBrowser = useBrowser();

/** Ways to run a script, each of which would open a dialog. */
const ATTACKS = [
  '<script>alert(1)</script>',
  '"><img src=x onerror=alert(2)>',
  "'-alert(3)-'",
  '</textarea></title></style></pre><svg onload=alert(4)>',
  '{{ "<script>alert(5)</script>" | raw }}${alert(5)}',
  'javascript:alert(6)',
];
const ALL = ATTACKS.join(' ');

/** The demo without the filter, which knows scripts for what they are. */
const PROJECT = `
project: { name: Demo, slug: demo, owner: owner@inbox.test }
domains:
  demo.test:
    forms:
      contact:
        to: owner@inbox.test
        required: [name, email, message]
        fields: { name: { label: Your name }, message: { label: Your message } }
        uploads: { enabled: true }
        allow_localhost: true
        spam_protection: { content_filter: false }
`;

test('a submission full of scripts is shown as it was written, and nothing of it runs', async () => {
  const world = await startDevWorld(PROJECT);
  const { page, problems } = await openBrowser();
  const form = new FormData();
  form.set('name', ATTACKS[1] ?? '');
  form.set('email', 'ann@inbox.test');
  form.set('message', ALL);
  form.set('_subject', ALL);
  // Each as a name and, apart from that, as a value: the same in all fields is taken for spam.
  for (const [i, attack] of ATTACKS.entries()) form.set(attack, `${i}${ATTACKS.at(i - 1)}`);
  const script = `<!doctype html><script>alert('attachment')</script>`;
  form.append('files', new Blob([script], { type: 'text/html' }), '<img src=x onerror=alert(7)>.html');
  const headers = { Referer: `${world.url}/?${ATTACKS[0]}`, 'User-Agent': ALL };
  const answer = await fetch(`${world.url}/demo.test/contact`, { method: 'POST', body: form, headers });
  expect(await answer.json()).toMatchObject({ success: true });

  await page.goto(`${world.url}/outbox`);
  const mail = page.getByRole('link', { name: /to owner@inbox\.test/ });
  await mail.waitFor();
  await mail.click();
  const frame = page.frameLocator('iframe[sandbox]');
  for (const attack of ATTACKS) await frame.getByText(attack, { exact: false }).first().waitFor();
  for (const view of ['Text', 'Headers', 'Source']) {
    await page.getByRole('link', { name: view, exact: true }).click();
    await page.getByRole('region', { name: view }).waitFor();
  }
  const attachment = page.getByRole('list', { name: 'Attachments' }).getByRole('link');
  expect(await attachment.innerText()).toContain('<img src=x onerror=alert(7)>.html');
  const [download] = await Promise.all([page.waitForEvent('download'), attachment.click()]);
  expect(await readFile(await download.path(), 'utf8')).toBe(script);

  // The page that gives back what was typed.
  const list = (values: readonly string[]) => values.map((value) => `<input name="${escaped(value)}">`).join('');
  await page.goto(`${world.url}/`);
  await page.evaluate(`{
    const form = document.querySelector('form');
    form.noValidate = true;
    form.insertAdjacentHTML('beforeend', ${JSON.stringify(list(ATTACKS))});
    for (const input of form.querySelectorAll('input:not([type=file]):not([name=_service_honeypot]), textarea'))
      input.value = ${JSON.stringify(ALL)};
  }`);
  await page.getByRole('button', { name: 'Send', exact: true }).click();
  await page.getByRole('alert').waitFor();
  expect(await page.getByLabel('Your message').inputValue()).toBe(ALL);
  expect(await page.getByRole('textbox').count()).toBe(3 + ATTACKS.length);
  // An injected handler that the policy stopped would be among these too.
  expect(problems).toEqual([]);
});

test('nothing of it runs on the error page, on the owner’s pages and in what is mailed', async () => {
  const site = await startSite();
  const world = await startTestWorld({
    projects: {
      'site.yml': `
project: { name: Site, slug: site, owner: owner@inbox.test }
domains:
  example.test:
    forms:
      contact:
        to: owner@inbox.test
        required: [name, email]
        fields: { topic: { options: [One, Two] }, days: { type: list, options: [Mon] }, secret: { type: hidden } }
        uploads: { enabled: true }
        spam_protection: { content_filter: false }
`,
    },
  });
  const { page, problems } = await openBrowser();
  const names = ['name', 'topic', 'days[]', 'secret', 'consent', 'phone', 'url', ...ATTACKS];
  const inputs = names.map((name) => `<input name="${escaped(name)}" value="${escaped(ALL)}">`);
  const fields = `${inputs.join('')}<textarea name="message">${escaped(ALL)}</textarea><input type="file" name="${escaped(ALL)}">`;
  const form = `<form action="${world.url}/example.test/contact" method="post" enctype="multipart/form-data">`;
  site.pages.set('/', `<!doctype html><title>x</title>${form}${fields}<button>Go</button></form>`);
  const script = `<!doctype html><script>alert('attachment')</script>`;
  const files = [{ name: '<img src=x onerror=alert(7)>.html', mimeType: 'text/html', buffer: Buffer.from(script) }];

  await page.goto(`http://www.example.test:${site.port}/?${encodeURI(ALL)}`);
  await page.locator('[type=file]').setInputFiles(files);
  await page.getByRole('button', { name: 'Go', exact: true }).click();
  await page.getByRole('alert').waitFor();
  expect(await page.locator('textarea[name=message]').inputValue()).toBe(ALL);
  expect(await page.getByRole('main').innerText()).toContain('<img src=x onerror=alert(7)>.html');
  expect(await page.locator('[name="javascript:alert(6)"]').inputValue()).toBe(ALL);

  const body = new FormData();
  for (const [i, name] of ['name', 'phone', 'message', 'subject', ...ATTACKS].entries())
    body.set(name, ATTACKS[i % ATTACKS.length] ?? '');
  body.set('email', 'ann@inbox.test');
  body.set('website', ATTACKS[5] ?? '');
  for (const { name, buffer, mimeType } of files) body.append('file', new Blob([buffer], { type: mimeType }), name);
  const headers = { Referer: `https://example.test/?${ALL}`, 'User-Agent': ALL };
  expect((await world.post('/example.test/contact', body, headers)).status).toBe(200);
  const [mail] = (await world.caught(1)).list();
  if (mail === undefined) throw new Error('nothing was caught');
  const { html = false, text = '' } = await simpleParser(await world.mx.mails.source(mail));
  const [view = '', spam = ''] = [...text.matchAll(/\/s\/[\w.-]+/g)].map(([path]) => path);
  await page.goto(world.url + view);
  for (const attack of ATTACKS) await page.getByText(attack, { exact: false }).first().waitFor();
  const [download] = await Promise.all([
    page.waitForEvent('download'),
    page.getByRole('link', { name: '<img src=x onerror=alert(7)>.html' }).click(),
  ]);
  expect(await readFile(await download.path(), 'utf8')).toBe(script);
  // Nothing but a browser's own schemes for the web, for mail and for calls can be clicked.
  const schemes = await page.locator('a').evaluateAll((links: { protocol: string }[]) => links.map((a) => a.protocol));
  expect(new Set(schemes)).toEqual(new Set(['http:', 'mailto:']));
  await page.goto(world.url + spam);
  await page.getByRole('heading', { level: 1 }).waitFor();

  const [row] = await world.daemon.store.read.selectFrom('submissions').selectAll().execute();
  if (row === undefined) throw new Error('nothing was stored');
  const reasons = JSON.stringify([{ name: 'words', score: 20, detail: ALL }]);
  const links = { view: `${world.url}${view}`, release: `${world.url}/s/r`, confirm: `${world.url}/s/c` };
  const entry = { ...entryOf({ ...row, spam_reasons: reasons }, undefined), ...links };
  const digest = digestMail({
    project: ALL,
    weekly: false,
    timezone: 'UTC',
    translation: translationOf('en'),
    entries: [entry],
    count: 1,
    releaseAll: links.release,
    confirmAll: links.confirm,
    failed: [{ form: ALL, recipient: ALL, count: 1, reply: ALL }],
  });
  for (const source of [html, digest.html]) {
    await page.goto('about:blank');
    await page.setContent(source === false ? '' : source);
    await page.getByText('alert(2)').first().waitFor();
    // No more than the mail program's own reader: what would run or be fetched is not there.
    expect(await page.locator('script, img, svg, iframe, [onerror], [onload], a[href^="javascript:"]').count()).toBe(0);
  }
  expect(problems).toEqual([]);
});

test('a mail whose HTML part attacks is shown without its scripts, and fetches and sends nothing', async () => {
  const world = await startDevWorld();
  const site = await startSite();
  const { page, problems } = await openBrowser();
  const out = `http://tracker.test:${site.port}`;
  const transport = createTransport({ host: '127.0.0.1', port: world.smtpPort, tls: { rejectUnauthorized: false } });
  await transport.sendMail({
    from: 'mallory@evil.test',
    to: 'owner@inbox.test',
    subject: ALL,
    html: `<!doctype html><base href="${out}/"><meta http-equiv="refresh" content="0;url=${out}/refresh">
<link rel="stylesheet" href="${out}/style.css"><style>body{background:url(${out}/background.png)} @import '${out}/import.css';</style>
<script>alert('script'); fetch('${out}/fetch'); parent.document.title = 'taken'; top.location = '${out}/top';</script>
<script src="${out}/script.js"></script><img src="${out}/pixel.png" onerror="alert('onerror')"><iframe src="${out}/frame"></iframe>
<form action="${out}/form" method="post"><input name="password" autofocus onfocus="alert('onfocus')"><button>Log in</button></form>
<a href="javascript:alert('link')">Click</a> <p>The end of the mail</p>`,
  });
  await page.goto(`${world.url}/outbox`);
  await page.getByRole('link', { name: /mallory@evil\.test/ }).click();
  const address = page.url();
  const frame = page.frameLocator('iframe[sandbox]');
  await frame.getByText('The end of the mail').waitFor();
  await frame.getByRole('button', { name: 'Log in' }).click();
  await frame.getByRole('link', { name: 'Click' }).click();
  await page.waitForTimeout(300); // a refresh after 0 s would have happened
  expect(page.url()).toBe(address);
  expect(await page.getByRole('heading', { level: 1 }).innerText()).toBe(ALL);
  // Its address opened by itself, out of the frame.
  await page.goto(`${address}/html`);
  await page.getByText('The end of the mail').waitFor();
  await page.getByRole('button', { name: 'Log in' }).click();
  expect(page.url()).toBe(`${address}/html`);
  expect(site.requests).toEqual([]);
  expect(problems.filter((problem) => problem.startsWith('dialog'))).toEqual([]);
});

function escaped(text: string): string {
  return text.replaceAll('&', '&amp;').replaceAll('"', '&quot;').replaceAll('<', '&lt;');
}
