/**
 * What a new operator does first in the console, from the link that `postern console` prints: a project, a domain that is
 * verified, a form, its first submission, a template, mail that bounces, a destination that is held, a key. No documentation, no
 * terminal. In Chromium and in Firefox, on a phone, a laptop and a large screen.
 */
import { describe, expect, test } from 'vitest';
import { parse, stringify } from 'yaml';
import { useBrowser } from '../harness/browser.ts';
import { type BrowserPage, consoleLink, consoleUser } from '../harness/console.ts';
import { startTestWorld, type TestWorld } from '../harness/daemon.ts';
import { useFirefox } from '../harness/firefox.ts';
import type { ZoneRecord } from '../../src/dev/dns-server.ts';

const openChromium = useBrowser();
const openFirefox = useFirefox();
const WIDTHS = [390, 1280, 1920];
/** A busy machine takes as long as this. */
const MAX_MS = 600_000;

/** Does what the owner of the zone does with what the page shows: publishes the required records. */
async function publish(world: TestWorld, domain: string): Promise<void> {
  const report = await world.daemon.domains.report(domain);
  const records = (report?.records ?? []).filter(({ value }) => value !== '') as unknown as ZoneRecord[];
  world.dns.set([...world.publicZone, ...records]);
}

/** The project with a form that has a template. */
function withTemplate(yaml: string, subject: string): string {
  const project = parse(yaml) as { domains: Record<string, object> };
  const order = { to: 'owner@inbox.test', template: 'order' };
  project.domains['shop.test'] = { ...project.domains['shop.test'], forms: { order } };
  return stringify({ ...project, templates: { order: { subject, html: '<p>From {{ form.name }}</p>' } } });
}

async function journey(page: BrowserPage): Promise<void> {
  const world = await startTestWorld();
  world.mx.behave(({ to }) =>
    to.at(-1) === 'gone@inbox.test' ? { code: 550, text: '5.1.1 There is nobody of this name' } : undefined,
  );
  const user = consoleUser(page);
  await page.goto(await consoleLink(world));
  await user.see('First steps');

  await user.page('Projects');
  await user.press('Create project');
  await user.fill('Name', 'Shop');
  await user.press('Create project');
  await user.until("document.querySelector('h1')?.textContent.startsWith('Shop')");

  await user.page('Domains');
  await user.press('Add domain');
  await user.fill('Domain', 'shop.test');
  await user.choose('Project', 'Shop');
  await user.press(/^Add domain$/);
  await user.see('Publish the records below');
  await user.until('document.querySelector(\'[aria-label="Copy the value"]\')');
  await publish(world, 'shop.test');
  await user.press('Check now');
  await user.see('Mail is sent from this domain');

  await user.page('Forms');
  await user.press('Create form');
  await user.fill('Name', 'Contact');
  await user.fill('Recipient', 'gone@inbox.test');
  await user.choose('Kind', 'On shop.test');
  await user.press(/^Create form$/);
  await user.press('Send a test post');
  await user.press('View the submission');
  await user.see('Accepted');
  await user.press('Spam');
  await user.see('marked as spam');
  await user.page('Submissions');
  await user.press(/^Spam 1/);
  await user.press(/^Ada Lovelace/);
  await user.press('Not spam');
  await user.see('No spam');

  await user.page('Projects');
  await user.press(/^Shop/);
  const field = 'document.querySelector(\'[aria-label="postern.yml"]\')';
  await user.until(field);
  const yaml = String(await page.evaluate(`${field}.value`));
  await user.fill('postern.yml', withTemplate(yaml, 'Order from {{ form.name }}'));
  await user.see('templates.order');
  await user.press('Push');
  await user.see('Valid and deployed');
  await user.press('Preview');
  await user.choose('Form', 'shop.test/order');
  await user.see('Order from Ada Lovelace');
  await user.fill('postern.yml', withTemplate(yaml, 'An order of {{ form.name }}'));
  await user.see('An order of Ada Lovelace');
  await user.press('Push');
  await user.see('Valid and deployed');

  await user.page('Mail');
  await user.choose('State', 'Bounced');
  await user.press(/gone@inbox\.test/);
  await user.see('There is nobody of this name');
  await user.see('There is no such mailbox');
  await user.see('RCPT TO:<gone@inbox.test>');

  await user.page('Queue');
  await user.press('Hold a destination');
  await user.fill('Domain', 'inbox.test');
  await user.press('Hold');
  await user.see('Mail for inbox.test is held');
  await user.press('Release inbox.test');
  await user.see('inbox.test is no longer held');

  await user.page('API keys');
  await user.press('Create key');
  await user.fill('Name', 'Website');
  await user.press('Send mail');
  await user.press(/^Create key$/);
  await user.press('Done');
  await user.press('Revoke');
  await user.press('Revoke key');
  await user.see('The key Website was revoked.');
}

describe('a new operator gets along', () => {
  test.each(WIDTHS)('in Chromium at %i px', { timeout: MAX_MS }, async (width) => {
    const { page, problems } = await openChromium({ viewport: { width, height: 900 } });
    await journey(page);
    expect(problems).toEqual([]);
  });

  test.each(WIDTHS)('in Firefox at %i px', { timeout: MAX_MS }, async (width) => {
    const { page, problems } = await openFirefox();
    await page.setViewport({ width, height: 900 });
    await journey(page);
    expect(problems).toEqual([]);
  });
});
