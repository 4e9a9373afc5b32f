/** What pages of other sites can do with the session of the console in a real browser, by any method and content type: nothing. */
import { expect, test } from 'vitest';
import { startSite, useBrowser } from '../harness/browser.ts';
import { consoleLink } from '../harness/console.ts';
import { startTestWorld } from '../harness/daemon.ts';

const openBrowser = useBrowser();

test('a page of another site, of a subdomain, or in a sandboxed frame gets nothing with the session', async () => {
  const world = await startTestWorld();
  const own = new URL(world.url);
  own.hostname = 'localhost';
  const { page, context } = await openBrowser();
  const link = new URL(await consoleLink(world));
  link.hostname = 'localhost';
  await page.goto(link.href);
  await page.getByRole('heading', { level: 1, name: 'Overview' }).waitFor();
  const site = await startSite();
  const answers: { from: string; method: string; status: number }[] = [];
  let from = '';
  context.on('response', (response) => {
    const { pathname } = new URL(response.url());
    // The console itself may still load what came before its stream was open.
    const isOurs = response.frame().url().startsWith(own.origin);
    if (pathname.startsWith('/api/') && !isOurs)
      answers.push({ from, method: response.request().method(), status: response.status() });
  });
  const targets = `${own.origin}/api/forms`;
  const calls = `Promise.all(['GET', 'POST', 'PUT', 'PATCH', 'DELETE'].flatMap((method) =>
    ['application/json', 'text/plain', 'application/x-www-form-urlencoded', 'multipart/form-data'].flatMap((type) =>
      ['cors', 'no-cors'].map((mode) =>
        fetch(${JSON.stringify(targets)} + (/^(GET|POST)$/.test(method) ? '' : '/frm_0'), {
          method, mode, credentials: 'include', headers: { 'Content-Type': type },
          ...(method === 'GET' ? {} : { body: '{"name":"Theirs","to":"a@inbox.test"}' }),
        }).then((answer) => answer.type, () => 'refused'))))).then((all) => all.filter((type) => !/^(opaque|refused)$/.test(type)))`;
  site.pages.set('/', '<!doctype html><title>Elsewhere</title>');
  site.pages.set(
    '/framed',
    '<!doctype html><title>Elsewhere</title><iframe sandbox="allow-scripts allow-forms" src="/"></iframe>',
  );
  for (const host of ['evil.test', 'sub.localhost', '127.0.0.1', 'localhost']) {
    for (const path of ['/', '/framed']) {
      from = host + path;
      await page.goto(`http://${host}:${site.port}${path}`);
      const frame = path === '/' ? page.mainFrame() : page.frames()[1];
      expect([from, await frame?.evaluate(calls)]).toEqual([from, []]);
    }
  }
  // What the browser let through at all was asked for by nobody who is signed in.
  const asked = answers.filter(({ status }) => status !== 204);
  expect(new Set(asked.map((answer) => answer.from)).size).toBe(8);
  expect(asked.filter(({ status }) => status !== 401 && status !== 403)).toEqual([]);
  await page.goto(`${own.origin}/console/forms`);
  await page.getByRole('heading', { level: 1, name: /Forms/ }).waitFor();
  expect(await page.locator('main').innerText()).not.toContain('Theirs');
});
