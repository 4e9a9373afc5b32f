/**
 * Every page of the console as the operator of the dev world sees it: nothing on it that cannot be read, reached or named, no
 * error of the browser, nothing that moves while it loads. Its screenshots are kept in `test-results/console/`.
 */
import { mkdir } from 'node:fs/promises';
import { join } from 'node:path';
import type { Page } from 'playwright-core';
import { describe, expect, test } from 'vitest';
import { startDevWorld, useBrowser } from '../harness/browser.ts';
import { expectGoodPage } from './page-rules.ts';

const openBrowser = useBrowser();
const RESULTS = join(import.meta.dirname, '../../test-results/console');

/** Where the links at the side lead. */
function pagesOf(page: Page): Promise<string[]> {
  return page
    .getByRole('navigation', { name: 'Console' })
    .getByRole('link')
    .evaluateAll((links) => links.map((link) => link.getAttribute('href') ?? ''));
}

/** Waits until the page shows what it is about. */
async function settled(page: Page): Promise<void> {
  await page.getByRole('heading', { level: 1 }).waitFor();
  await page.locator('.loading').waitFor({ state: 'detached' });
}

async function screenshots(page: Page, name: string): Promise<void> {
  await mkdir(RESULTS, { recursive: true });
  for (const width of [390, 1280, 1920]) {
    await page.setViewportSize({ width, height: width === 390 ? 844 : 1000 });
    for (const colorScheme of ['light', 'dark'] as const) {
      await page.emulateMedia({ colorScheme });
      await page.screenshot({ path: join(RESULTS, `${name}-${width}-${colorScheme}.png`) });
    }
  }
  await page.emulateMedia({ colorScheme: 'light' });
  await page.setViewportSize({ width: 1280, height: 1000 });
}

interface TraceEvent {
  readonly name: string;
  readonly pid: number;
  readonly tid: number;
  readonly args?: { readonly name?: string };
  /** Time of the thread, without what it waited for, in µs. */
  readonly tdur?: number;
}

/** The longest task of the thread of the page, in ms of the processor, by a trace of Chromium. */
function longestTask(trace: string): number {
  const { traceEvents: events } = JSON.parse(trace) as { traceEvents: TraceEvent[] };
  const threadOf = ({ pid, tid }: TraceEvent) => `${pid} ${tid}`;
  const pages = new Set(events.filter(({ args }) => args?.name === 'CrRendererMain').map(threadOf));
  const tasks = events.filter((event) => event.name.endsWith('RunTask') && pages.has(threadOf(event)));
  if (tasks.length === 0) throw new Error('The trace has no task of a page');
  return Math.max(...tasks.map(({ tdur = 0 }) => tdur)) / 1000;
}

/** Each page in six looks, twice: a busy machine takes as long as this. */
const MAX_MS = 600_000;

describe('every page of the console', () => {
  test('can be read, reached and named, on a new server and on one with mail', { timeout: MAX_MS }, async () => {
    const world = await startDevWorld();
    const { page, problems } = await openBrowser({ viewport: { width: 1280, height: 1000 } });
    await page.goto(`${world.url}/console`);
    await settled(page);
    const pages = await pagesOf(page);
    expect(pages.length).toBeGreaterThan(8);
    for (const kind of ['new', 'used']) {
      for (const path of pages) {
        await page.goto(world.url + path);
        await settled(page);
        const name = path.replace('/console', '').replaceAll('/', '-').slice(1) || 'overview';
        await screenshots(page, `${kind}-${name}`);
        await expectGoodPage(page);
      }
      if (kind === 'used') break;
      for (let i = 0; i < 3; i++) {
        const body = new URLSearchParams({
          name: `Ann ${i}`,
          email: 'ann@inbox.test',
          message: `Are you open on day ${i}?`,
        });
        expect((await fetch(`${world.url}/demo.test/contact`, { method: 'POST', body })).status).toBe(200);
      }
    }
    expect(problems).toEqual([]);
  });

  test('does not move while it loads, and blocks nobody', async () => {
    const world = await startDevWorld();
    const { page } = await openBrowser({ viewport: { width: 1280, height: 1000 } });
    await page.goto(`${world.url}/console`);
    await settled(page);
    await page.addInitScript(`
      window.shifts = 0;
      new PerformanceObserver((list) => { for (const { value, hadRecentInput } of list.getEntries()) if (!hadRecentInput) window.shifts += value; }).observe({ type: 'layout-shift', buffered: true });
    `);
    for (const path of await pagesOf(page)) {
      await page
        .context()
        .browser()
        ?.startTracing(page, { categories: ['toplevel', '__metadata'] });
      await page.goto(world.url + path);
      await settled(page);
      await page.waitForTimeout(300);
      const trace = await page.context().browser()?.stopTracing();
      const shifts = await page.evaluate<number>('window.shifts');
      // Tasks are printed and not judged: the processor's time for one depends on the machine.
      const longest = longestTask(String(trace)).toFixed(0);
      process.stdout.write(`${path}: layout shift ${shifts.toFixed(3)}, longest task ${longest} ms of CPU\n`);
      expect([path, shifts < 0.02]).toEqual([path, true]);
    }
  });
});
