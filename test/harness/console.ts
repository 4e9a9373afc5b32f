/** The console as somebody uses it, in Chromium and in Firefox: by the names that are on the screen, with a mouse and keys. */
import { setTimeout } from 'node:timers/promises';
import { ask } from './binary.ts';
import type { TestWorld } from './daemon.ts';

/** What the pages of both drivers can do. */
export interface BrowserPage {
  goto(url: string): Promise<unknown>;
  evaluate(source: string): Promise<unknown>;
  evaluateHandle(source: string): Promise<{ asElement(): { click(): Promise<void> } | null }>;
}

type Name = string | RegExp;

/** Each waits until what it names is there, and fails where that does not come. */
interface ConsoleUser {
  /** Clicks the last button, link, tab or disclosure of this name that can be used; in a question, where one is asked. */
  press(name: Name): Promise<void>;
  fill(label: string, text: string): Promise<void>;
  choose(label: string, option: string): Promise<void>;
  /** The text is on the page. */
  see(text: Name): Promise<void>;
  /** Waits until this expression is true, or not null. */
  until(expression: string): Promise<void>;
  /** Goes to a page by the list at the side, which is behind a button on a phone. */
  page(name: string): Promise<void>;
}

const EVERY_MS = 50;
const MAX_WAIT_MS = 30_000;
const USED = 'button, a[href], summary, [role=tab]';
const FIELDS = 'input, textarea, select';

export function consoleUser(page: BrowserPage): ConsoleUser {
  // Asked from outside: the policy of the console lets no page evaluate a text.
  async function until(expression: string): Promise<void> {
    const end = performance.now() + MAX_WAIT_MS;
    while ((await page.evaluate(`Boolean(${expression})`).catch(() => false)) !== true) {
      if (performance.now() > end) throw new Error(`It did not come: ${expression}`);
      await setTimeout(EVERY_MS);
    }
  }
  async function press(name: Name, within = ''): Promise<void> {
    const found = last(`${within} :is(${USED})`, name);
    // As somebody who waits until no message covers it.
    await until(`(() => {
      const element = ${found};
      element?.scrollIntoView({ block: 'center' });
      const [{ x, y, width, height } = {}] = element?.getClientRects() ?? [];
      return element?.contains(document.elementFromPoint(x + width / 2, y + height / 2));
    })()`);
    await (await page.evaluateHandle(found)).asElement()?.click();
  }
  return {
    until,
    press: (name) => press(name),
    async fill(label, text) {
      await until(last(FIELDS, label));
      await page.evaluate(`(() => {
        const field = ${last(FIELDS, label)};
        field.focus();
        field.value = ${JSON.stringify(text)};
        field.dispatchEvent(new Event('input', { bubbles: true }));
      })()`);
    },
    async choose(label, option) {
      await until(
        `[...(${last(FIELDS, label)}?.options ?? [])].some(({ text }) => text === ${JSON.stringify(option)})`,
      );
      await page.evaluate(`(() => {
        const field = ${last(FIELDS, label)};
        field.value = [...field.options].find(({ text }) => text === ${JSON.stringify(option)}).value;
        field.dispatchEvent(new Event('input', { bubbles: true }));
      })()`);
    },
    async see(text) {
      const shown = typeof text === 'string' ? `includes(${JSON.stringify(text)})` : `match(${String(text)})`;
      await until(`document.body.innerText.${shown}`);
    },
    async page(name) {
      await until("document.querySelector('nav a')");
      if ((await page.evaluate("document.querySelector('.menu').checkVisibility()")) === true) await press('Menu');
      await press(name, 'nav');
      await until(`document.querySelector('h1')?.textContent.startsWith(${JSON.stringify(name)})`);
    },
  };
}

/** An expression: the last element that has this name, can be seen and is not disabled. */
function last(selector: string, name: Name): string {
  const isNamed = typeof name === 'string' ? `=== ${JSON.stringify(name)}` : `.match(${String(name)})`;
  return `[...(document.querySelector('dialog[open]') ?? document).querySelectorAll(${JSON.stringify(selector)})].filter((element) =>
    element.checkVisibility() && element.disabled !== true &&
    (element.getAttribute('aria-label') ?? (element.labels?.[0] ?? element).textContent).replaceAll(/\\s+/g, ' ').trim() ${isNamed}).at(-1)`;
}

/** The address of the one-time link that `postern console` prints, at the address where the world is. */
export async function consoleLink(world: TestWorld): Promise<string> {
  const socketPath = world.daemon.addresses?.socket;
  const made = await ask({ socketPath, path: '/admin/console-link', method: 'POST' });
  const { hash } = new URL((made.body as { url: string }).url);
  return `${world.url}/console/sign-in${hash}`;
}
