/** The published clients of Formspree, unchanged, pointed at this server from a page on another origin. */
import { readFile } from 'node:fs/promises';
import { describe, expect, test } from 'vitest';
import { startSite, useBrowser } from '../harness/browser.ts';
import { formWorld, type FormWorld } from '../harness/form-world.ts';

const openBrowser = useBrowser();
const SCRIPT = new URL('../../node_modules/@formspree/ajax/dist/global.js', import.meta.url);

describe('@formspree/ajax in Chromium, cross-origin', () => {
  async function open(world: FormWorld) {
    const site = await startSite();
    const script = (await readFile(SCRIPT, 'utf8')).replaceAll('</script', String.raw`<\/script`);
    site.pages.set(
      '/',
      `<!doctype html><html lang="en"><title>A page elsewhere</title>
<div data-fs-success></div><div data-fs-error></div>
<form id="form">
<input type="text" name="email" data-fs-field><span data-fs-error="email"></span>
<textarea name="message" data-fs-field></textarea>
<button type="submit" data-fs-submit-btn>Send</button>
</form>
<script>${script}</script>
<script>window.formspree('initForm', ${JSON.stringify({ formElement: '#form', formId: world.form, origin: world.url })})</script>
</html>`,
    );
    const { page, problems } = await openBrowser();
    await page.goto(`http://elsewhere.example:${site.port}/`);
    return { page, problems };
  }

  test('a good submission arrives, and the page says so', async () => {
    const world = await formWorld();
    const { page, problems } = await open(world);
    await page.fill('[name=email]', 'ada@inbox.test');
    await page.fill('[name=message]', 'Hello from elsewhere');
    await page.click('button');
    await page.waitForFunction(`document.querySelector('[data-fs-success]').textContent !== ''`);
    const mails = await world.caught(1);
    expect(mails.list()[0]).toMatchObject({ subject: 'From the site' });
    expect(problems).toEqual([]);
  });

  test('an error of a field is shown at the field', async () => {
    const world = await formWorld();
    const { page } = await open(world);
    await page.fill('[name=email]', 'not an address');
    await page.fill('[name=message]', 'Hello');
    await page.click('button');
    await page.waitForFunction(`document.querySelector('[data-fs-error=email]').textContent !== ''`);
    expect(await page.textContent('[data-fs-error=email]')).toMatch(/email/i);
    expect(await page.getAttribute('[name=email]', 'aria-invalid')).toBe('true');
    expect(world.mx.mails.list()).toEqual([]);
  });

  test('an error of the whole form is shown at the form', async () => {
    const world = await formWorld();
    const { page } = await open({ ...world, form: 'frm_00000000000000000000000000' });
    await page.fill('[name=message]', 'Hello');
    await page.click('button');
    await page.waitForFunction(`document.querySelector('[data-fs-error=""]').textContent !== ''`);
    expect(await page.textContent('[data-fs-error=""]')).toMatch(/form/i);
  });
});
