/** A visitor who reloads, goes back and sends again, clicks twice, or whose network drops the answer: one lead. */
import { expect, test } from 'vitest';
import { startSite, useBrowser, type Visitor } from '../harness/browser.ts';
import { startTestWorld, type TestWorld } from '../harness/daemon.ts';
import { startTcpProxy, type TcpProxy } from '../harness/tcp-proxy.ts';

const openBrowser = useBrowser();

const PROJECT = `
project: { name: Site, slug: site, owner: owner@inbox.test }
domains:
  example.test:
    forms:
      contact: { to: owner@inbox.test, spam_protection: { level: strict } }
`;

interface Scene extends Visitor {
  readonly world: TestWorld;
  /** How many submissions there are. */
  readonly leads: () => Promise<number>;
}

/** A filled form on a page that tells nobody its address, as Helmet has it by default. */
async function scene(port?: (daemon: number) => Promise<number>): Promise<Scene> {
  const site = await startSite();
  const world = await startTestWorld({ projects: { 'site.yml': PROJECT } });
  const server = new URL(world.url);
  if (port !== undefined) server.port = String(await port(Number(server.port)));
  site.pages.set(
    '/write',
    `<!doctype html><html lang="en"><meta name="referrer" content="no-referrer"><title>Site</title>
<form action="${server.origin}/example.test/contact" method="post"><label>Message <textarea name="message"></textarea></label>
<button>Send it</button></form>`,
  );
  const visitor = await openBrowser();
  await visitor.page.goto(`http://www.example.test:${site.port}/write`);
  await visitor.page.getByLabel('Message').fill('Hello');
  const leads = async () => (await world.daemon.store.read.selectFrom('submissions').selectAll().execute()).length;
  return { ...visitor, world, leads };
}

const thanked = { name: 'Thank you', level: 1 } as const;

test('reloads the page that thanks: nothing is sent again', async () => {
  const { page, leads, problems } = await scene();
  await page.getByRole('button').click();
  await page.getByRole('heading', thanked).waitFor();
  expect(new URL(page.url()).search).toBe('?thanks');
  await page.reload();
  await page.getByRole('heading', thanked).waitFor();
  expect(await leads()).toBe(1);
  expect(problems).toEqual([]);
});

test('goes back and sends the same again, and then something else', async () => {
  const { page, leads } = await scene();
  for (const [text, count] of [
    ['Hello', 1],
    ['Hello', 1],
    ['Hello again', 2],
  ] as const) {
    await page.getByLabel('Message').fill(text);
    await page.getByRole('button').click();
    await page.getByRole('heading', thanked).waitFor();
    expect(await leads()).toBe(count);
    await page.goBack();
  }
});

test('clicks twice', async () => {
  const { page, leads, world } = await scene();
  await page.getByRole('button').dblclick();
  await page.getByRole('heading', thanked).waitFor();
  expect(await leads()).toBe(1);
  await world.caught(1);
  expect(world.mx.mails.list()).toHaveLength(1);
});

test('sends again when the network has dropped the answer', async () => {
  let proxy: TcpProxy | undefined;
  const { page, leads, world } = await scene(async (daemon) => {
    proxy = await startTcpProxy(daemon);
    proxy.cutAt('POST /example.test/contact', 'server has them');
    return proxy.port;
  });
  await page.getByRole('button').click();
  await expect.poll(() => page.url()).toMatch(/^chrome-error:/);
  await world.caught(1);
  expect(await leads()).toBe(1);
  proxy?.cutAt(undefined);
  await page.goBack();
  await page.getByLabel('Message').fill('Hello');
  await page.getByRole('button').click();
  await page.getByRole('heading', thanked).waitFor();
  expect(await leads()).toBe(1);
  expect(world.mx.mails.list()).toHaveLength(1);
});
