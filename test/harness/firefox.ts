/**
 * Debian's Firefox, by WebDriver BiDi: a browser that is not Chromium. It is gone when the tests are over. No name leaves the
 * machine: the browser takes every host for 127.0.0.1.
 */
import { type Browser, type BrowserContext, launch, type Page } from 'puppeteer-core';
import { afterAll, onTestFinished } from 'vitest';
import { needPackage } from './debian.ts';

const FIREFOX = '/usr/bin/firefox-esr';
const PREFERENCES = {
  'network.dns.forceResolve': '127.0.0.1',
  'network.proxy.type': 0,
  'network.captive-portal-service.enabled': false,
  'network.connectivity-service.enabled': false,
  'dom.security.https_first': false,
  'services.settings.server': 'data:,',
  // 0 dark, 1 light
  'layout.css.prefers-color-scheme.content-override': 1,
};

export interface FirefoxVisitor {
  readonly page: Page;
  /** Errors on the console, uncaught exceptions, violations of a Content-Security-Policy, and dialogs, of this visitor. */
  readonly problems: string[];
}

/**
 * One Firefox for the tests of a file. Answers the function that opens a profile of its own in it, with one empty page, which
 * asks for pages in these languages.
 */
export function useFirefox(): (languages?: string) => Promise<FirefoxVisitor> {
  let browser: Browser | undefined;
  afterAll(() => browser?.close());

  return async (languages = 'en') => {
    // Here and not before all tests, which would be skipped, and not fail, where there is no browser.
    needPackage(FIREFOX, 'firefox-esr');
    browser ??= await launch({ browser: 'firefox', executablePath: FIREFOX, extraPrefsFirefox: PREFERENCES });
    const context: BrowserContext = await browser.createBrowserContext();
    onTestFinished(() => context.close());
    const page = await context.newPage();
    page.setDefaultTimeout(20_000);
    await page.setExtraHTTPHeaders({ 'Accept-Language': languages });
    const problems: string[] = [];
    await watch(page, problems);
    return { page, problems };
  };
}

async function watch(page: Page, problems: string[]): Promise<void> {
  page.on('console', (message) => {
    if (message.type() === 'error') problems.push(`console: ${message.text()}`);
  });
  page.on('pageerror', (error) => problems.push(`exception: ${String(error)}`));
  page.on('dialog', (dialog) => {
    problems.push(`dialog: ${dialog.message()}`);
    void dialog.dismiss();
  });
  await page.evaluateOnNewDocument(
    "document.addEventListener('securitypolicyviolation', (event) => console.error('violation: ' + event.effectiveDirective + ' ' + event.blockedURI));",
  );
}
