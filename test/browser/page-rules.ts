/** What every page of ours must be, judged in the browser as it stands there. */
import axe from 'axe-core';
import type { Page } from 'playwright-core';
import { expect } from 'vitest';

/** Everything that is said about one page by every rule; empty where all is well. */
export async function expectGoodPage(page: Page, lang = 'en'): Promise<void> {
  expect(await structureOf(page)).toEqual({
    lang,
    title: expect.stringMatching(/\S/),
    h1: 1,
    main: 1,
    skippedHeadings: [],
    doubleIds: [],
    danglingReferences: [],
    untitledFrames: 0,
  });
  expect(await unnamed(page)).toEqual([]);
  await expectReadable(page);
}

/** In light and dark, on a phone and with text of twice the size (WCAG 2.2, 1.4.4): for pages, and for mails in HTML. */
export async function expectReadable(page: Page, kind: 'page' | 'part' = 'page'): Promise<void> {
  await page.emulateMedia({ colorScheme: 'dark' });
  expect(await faint(page), `dark ${page.url()}`).toEqual([]);
  expect(await axeFaults(page, 'colours'), `dark ${page.url()}`).toEqual([]);
  await page.emulateMedia({ colorScheme: 'light' });
  expect(await faint(page), `light ${page.url()}`).toEqual([]);
  expect(await axeFaults(page, kind), `light ${page.url()}`).toEqual([]);
  const size = page.viewportSize();
  for (const width of [360, 320]) {
    await page.setViewportSize({ width, height: 740 });
    expect(await wider(page), `${width} px ${page.url()}`).toEqual([]);
  }
  await page.evaluate("document.documentElement.style.fontSize = '200%'");
  for (const width of [390, 1280]) {
    await page.setViewportSize({ width, height: 740 });
    expect(await wider(page), `200 % at ${width} px ${page.url()}`).toEqual([]);
  }
  await page.evaluate("document.documentElement.style.fontSize = ''");
  if (size !== null) await page.setViewportSize(size);
}

/** Screenshots in light and in dark, with the brightness of the page behind (0 black to 1 white). */
export async function inBothSchemes(
  page: Page,
): Promise<{ light: Buffer; dark: Buffer; brightness: [number, number] }> {
  const taken = async (colorScheme: 'light' | 'dark') => {
    await page.emulateMedia({ colorScheme });
    const brightness = await page.evaluate<number>(
      `(() => { ${COLOURS} return brightness(parse(getComputedStyle(document.body).backgroundColor)); })()`,
    );
    return { picture: await page.screenshot(), brightness };
  };
  const light = await taken('light');
  const dark = await taken('dark');
  return { light: light.picture, dark: dark.picture, brightness: [light.brightness, dark.brightness] };
}

interface Structure {
  readonly lang: string;
  readonly title: string;
  readonly h1: number;
  readonly main: number;
  readonly skippedHeadings: string[];
  readonly doubleIds: string[];
  readonly danglingReferences: string[];
  readonly untitledFrames: number;
}

function structureOf(page: Page): Promise<Structure> {
  return page.evaluate<Structure>(`(() => {
    const all = (selector) => [...document.querySelectorAll(selector)];
    const headings = all('h1,h2,h3,h4,h5,h6');
    const level = (heading) => Number(heading.tagName[1]);
    const ids = all('[id]').map(({ id }) => id);
    const references = ['for', 'aria-describedby', 'aria-labelledby']
      .flatMap((name) => all('[' + name + ']').flatMap((element) => element.getAttribute(name).split(' ')))
      .concat(all('a[href^="#"]').map((link) => link.getAttribute('href').slice(1)));
    return {
      lang: document.documentElement.lang,
      title: document.title,
      h1: all('h1').length,
      main: all('main').length,
      skippedHeadings: headings
        .filter((heading, i) => level(heading) > (i === 0 ? 0 : level(headings[i - 1])) + 1)
        .map(({ textContent }) => textContent),
      doubleIds: ids.filter((id, i) => ids.indexOf(id) !== i),
      danglingReferences: references.filter((id) => !ids.includes(id)),
      untitledFrames: all('iframe:not([title])').length,
    };
  })()`);
}

const NAMED =
  /^\s*- (?:textbox|searchbox|checkbox|radio|combobox|listbox|spinbutton|button|link|group|navigation|region)(?! ")/;

/** Lines of the accessibility tree where something to be used has no name. */
async function unnamed(page: Page): Promise<string[]> {
  const tree = await page.locator('body').ariaSnapshot();
  // What is described inside a disclosure is its own name.
  return tree.split('\n').filter((line) => NAMED.test(line) && !/^\s*- group:/.test(line));
}

/** Elements that stick out of the page, which then scrolls sideways. */
function wider(page: Page): Promise<string[]> {
  return page.evaluate<string[]>(`(() => {
    const { scrollWidth, clientWidth } = document.documentElement;
    if (scrollWidth <= clientWidth) return [];
    return [...document.querySelectorAll('body *')]
      .filter((element) => element.getBoundingClientRect().right > clientWidth + 0.5)
      .map((element) => element.outerHTML.slice(0, 120));
  })()`);
}

/** WCAG 2.2 "relative luminance" and "contrast ratio", of colours as computed styles give them. */
const COLOURS = `
  function parse(text) {
    const [red, green, blue, alpha = 1] = text.match(/[\\d.]+/g).map(Number);
    return { red, green, blue, alpha };
  }
  function brightness({ red, green, blue }) {
    const [r, g, b] = [red, green, blue].map((part) => (part / 255 <= 0.04045 ? part / 255 / 12.92 : ((part / 255 + 0.055) / 1.055) ** 2.4));
    return 0.2126 * r + 0.7152 * g + 0.0722 * b;
  }
  function contrast(one, other) {
    const [dark, light] = [brightness(one), brightness(other)].sort((a, b) => a - b);
    return (light + 0.05) / (dark + 0.05);
  }
`;

/** Texts whose contrast to what is behind them is below 4.5. */
function faint(page: Page): Promise<string[]> {
  return page.evaluate<string[]>(`(() => { ${COLOURS}
    function behind(element) {
      for (let at = element; at !== null; at = at.parentElement) {
        const colour = parse(getComputedStyle(at).backgroundColor);
        if (colour.alpha === 1) return colour;
        if (colour.alpha > 0) throw new Error('half transparent background: ' + at.outerHTML.slice(0, 120));
      }
      return { red: 255, green: 255, blue: 255 };
    }
    const shown = [...document.querySelectorAll('body *')].filter(
      (element) =>
        element.checkVisibility() &&
        (/^(INPUT|TEXTAREA|SELECT)$/.test(element.tagName) ||
          [...element.childNodes].some((node) => node.nodeType === Node.TEXT_NODE && node.data.trim() !== '')),
    );
    if (shown.length === 0) throw new Error('The page shows no text');
    return shown.flatMap((element) => {
      const ratio = contrast(parse(getComputedStyle(element).color), behind(element));
      return ratio >= 4.5 ? [] : [ratio.toFixed(2) + ' ' + element.outerHTML.slice(0, 120)];
    });
  })()`);
}

/** What has the focus: its accessible role is what matters, so that an outline is asked for as well. */
export async function focused(page: Page): Promise<{ element: string; outlined: boolean }> {
  return page.evaluate(`(() => {
    const element = document.activeElement;
    const { outlineStyle, outlineWidth } = getComputedStyle(element);
    const name = element.getAttribute('role') ?? element.tagName.toLowerCase();
    const text = element.labels?.[0]?.textContent ?? element.textContent;
    return {
      element: (name + ' ' + text.trim().replaceAll(/\\s+/g, ' ')).slice(0, 80),
      outlined: outlineStyle !== 'none' && parseFloat(outlineWidth) >= 2,
    };
  })()`);
}

/** What axe-core judges. Its best practices are about landmarks and headings, which mails, and what stands in somebody else’s page, need not have. */
const RULES = {
  page: ['wcag2a', 'wcag2aa', 'wcag21a', 'wcag21aa', 'wcag22aa', 'best-practice'],
  part: ['wcag2a', 'wcag2aa', 'wcag21a', 'wcag21aa', 'wcag22aa'],
  /** All that the colour scheme can change. */
  colours: ['color-contrast', 'link-in-text-block'],
} as const;

/** What axe-core finds in Chromium or Firefox: each rule with its elements. */
export async function axeFaults(
  page: { evaluate(source: string): Promise<unknown> },
  kind: keyof typeof RULES = 'page',
): Promise<string[]> {
  if ((await page.evaluate('typeof axe')) === 'undefined') await page.evaluate(`${axe.source}; undefined`);
  const faults =
    await page.evaluate(`axe.run(document, { runOnly: ${JSON.stringify(RULES[kind])} }).then(({ violations }) =>
    violations.map(({ id, help, nodes }) => id + ' (' + help + '): ' + nodes.map(({ html }) => html.slice(0, 160)).join(' | ')))`);
  return faults as string[];
}
