import type { Page } from 'playwright-core';
import { describe, expect, test } from 'vitest';
import { startDevWorld, startSite, useBrowser } from '../harness/browser.ts';
import { startTestWorld } from '../harness/daemon.ts';
import { expectGoodPage, focused, inBothSchemes } from './page-rules.ts';

const openBrowser = useBrowser();

const PROJECT = `
project: { name: Site, slug: site, owner: owner@inbox.test }
settings: { rate_limit: 1000 }
domains:
  example.test:
    forms:
      contact:
        name: Contact form
        to: owner@inbox.test
        required: [name, email, message]
        fields:
          name: { label: Your name }
          topic: { label: Topic, options: [Order, Complaint] }
          days: { label: Days that suit you, type: list, options: [Mon, Tue] }
          age: { type: number }
        uploads: { enabled: true }
      once: { to: owner@inbox.test, rateLimit: 1 }
  pending.test:
    forms: { contact: { to: owner@inbox.test } }
`;

const LONG = 'Donaudampfschifffahrtselektrizitätenhauptbetriebswerkbauunterbeamtengesellschaft'.repeat(3);

/** Presses Tab until what has the focus is this; everything on the way must show that it has it. */
async function tabTo(page: Page, element: string): Promise<void> {
  const passed: string[] = [];
  for (let i = 0; i < 30; i++) {
    await page.keyboard.press('Tab');
    const now = await focused(page);
    expect(now.outlined, `${now.element} has the focus and does not show it`).toBe(true);
    if (now.element === element) return;
    passed.push(now.element);
  }
  throw new Error(`Tab does not lead to ${element} but to ${passed.join(', ')}`);
}

function heading(page: Page): Promise<string> {
  return page.getByRole('heading', { level: 1 }).innerText();
}

describe('pages', () => {
  test('of the dev world', async () => {
    const world = await startDevWorld();
    const { page, problems } = await openBrowser();
    await page.goto(`${world.url}/outbox`);
    await expectGoodPage(page); // while it is empty
    await page.goto(`${world.url}/`);
    await page.getByText('The same from a terminal').click();
    await expectGoodPage(page);
    const { light, dark, brightness } = await inBothSchemes(page);
    expect(light.equals(dark)).toBe(false);
    expect(brightness[0]).toBeGreaterThan(0.8);
    expect(brightness[1]).toBeLessThan(0.1);

    const form = new FormData();
    const message = `Guten Tag, haben Sie am Samstag offen? Gruß aus der ${LONG}`;
    for (const [name, value] of Object.entries({ name: LONG, email: 'ann@inbox.test', message, [LONG]: LONG }))
      form.set(name, value);
    form.set('_subject', `Frage an die ${LONG}`);
    form.append('files', new Blob(['1']), `${LONG.slice(0, 200)}.txt`);
    expect((await fetch(`${world.url}/demo.test/contact`, { method: 'POST', body: form })).status).toBe(200);
    await page.goto(`${world.url}/outbox`);
    const mail = page.getByRole('link', { name: /to owner@inbox\.test/ });
    await mail.waitFor();
    await expectGoodPage(page);
    await mail.click();
    for (const view of ['HTML', 'Text', 'Headers', 'Source']) {
      await page.getByRole('link', { name: view, exact: true }).click();
      await page.getByRole('region', { name: view }).waitFor();
      await expectGoodPage(page);
    }
    await page.goto(`${world.url}/outbox/0`);
    await expectGoodPage(page);
    expect(problems).toEqual([]);
  });

  test('that a form’s sender meets', async () => {
    const site = await startSite();
    const world = await startTestWorld({ projects: { 'site.yml': PROJECT }, unverified: ['pending.test'] });
    const { page, problems } = await openBrowser();
    const post = async (path: string, fields: Record<string, string>): Promise<number | undefined> => {
      const inputs = Object.keys(fields).map((name) => `<label>${name}<input name="${name}"></label>`);
      const action = world.url + path;
      site.pages.set('/', `<form action="${action}" method="post">${inputs.join('')}<button>Go</button></form>`);
      await page.goto(`http://www.${path.split('/')[1]}:${site.port}/`);
      for (const [name, value] of Object.entries(fields)) await page.getByLabel(name, { exact: true }).fill(value);
      const [response] = await Promise.all([
        page.waitForResponse((response) => response.request().method() === 'POST'),
        page.getByRole('button').click(),
      ]);
      await page.waitForLoadState();
      return response.status();
    };
    const good = { name: 'Ann', email: 'ann@inbox.test', message: 'Hello' };
    expect(await post('/example.test/contact', good)).toBe(303);
    await expectGoodPage(page);
    const { light, dark, brightness } = await inBothSchemes(page);
    expect(light.equals(dark)).toBe(false);
    expect(brightness[0] - brightness[1]).toBeGreaterThan(0.7);

    const bad = { email: LONG, topic: 'None of them', 'days[]': 'Mon', age: 'old', message: `${LONG} ${LONG}` };
    expect(await post('/example.test/contact', bad)).toBe(400);
    await expectGoodPage(page);
    await post('/example.test/once', good);
    expect(await post('/example.test/once', good)).toBe(429);
    await expectGoodPage(page);
    expect(await post('/example.test/nothing', good)).toBe(404);
    await page.getByText('For the owner of the site').click();
    await expectGoodPage(page);
    expect(await post('/pending.test/contact', good)).toBe(403);
    await page.getByText('Do you own pending.test?').click();
    await expectGoodPage(page);
    for (const path of ['/example.test/contact', '/nothing', '/healthz/nothing']) {
      await page.goto(world.url + path);
      await expectGoodPage(page);
    }
    expect(problems).toEqual([]);
  });
});

test('the keyboard alone is enough, and what has the focus shows it', async () => {
  const world = await startDevWorld();
  const { page, problems } = await openBrowser();
  await page.goto(`${world.url}/`);
  await tabTo(page, 'input Name');
  await page.keyboard.type('   '); // which the browser lets pass
  await tabTo(page, 'input Email');
  await page.keyboard.type('ann@inbox.test');
  await tabTo(page, 'textarea Message');
  await page.keyboard.type('Typed.');
  await tabTo(page, 'button Send');
  await page.keyboard.press('Enter');

  // The error has the focus, so that a screen reader reads it first, and its link leads to the field.
  await page.getByRole('alert').waitFor();
  const summary = await focused(page);
  expect(summary.element).toMatch(/^alert /);
  expect(summary.outlined).toBe(true);
  await page.keyboard.press('Tab');
  expect((await focused(page)).element).toMatch(/^a /);
  await page.keyboard.press('Enter');
  expect(await focused(page)).toEqual({ element: 'input Your name', outlined: true });
  await page.keyboard.press('ControlOrMeta+A');
  await page.keyboard.type('Ann');
  await page.keyboard.press('Enter');
  await page.getByRole('heading', { name: 'Thank you' }).waitFor();
  expect(await heading(page)).toBe('Thank you');
  await tabTo(page, 'a Back to demo.test');
  expect(problems).toEqual([]);
});
