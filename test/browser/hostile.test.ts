import { readFile } from 'node:fs/promises';
import { createTransport } from 'nodemailer';
import { expect, test } from 'vitest';
import { startDevWorld, startSite, useBrowser } from '../harness/browser.ts';

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
