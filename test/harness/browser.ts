/**
 * Debian's Chromium, the dev world as a process of its own, and a web site of somebody else's on loopback. All of it is gone
 * when the tests are over. No name leaves the machine: the browser takes every host for 127.0.0.1.
 */
import { once } from 'node:events';
import { createServer } from 'node:http';
import { mkdir, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { chromium, type Browser, type BrowserContext, type BrowserContextOptions, type Page } from 'playwright-core';
import { afterAll, onTestFinished } from 'vitest';
import { freePort, startChild, untilReady, type Child } from './child.ts';
import { needPackage } from './debian.ts';
import { temporaryFolder } from './store.ts';

/** Without Chromium's own pages round those of the tests, which cost half of the processor time. */
const CHROMIUM = '/usr/bin/chromium-headless-shell';
const SWITCHES = [
  '--no-sandbox',
  '--disable-gpu',
  '--disable-quic',
  '--no-first-run',
  '--disable-background-networking',
  '--disable-component-update',
  '--disable-sync',
  '--host-resolver-rules=MAP * 127.0.0.1',
];

/** As it names itself where it has a screen: visitors have one, and the spam filter distrusts those who have none. */
const AGENT =
  'Mozilla/5.0 (X11; Linux x86_64) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/VERSION.0.0.0 Safari/537.36';

export interface Visitor {
  readonly page: Page;
  readonly context: BrowserContext;
  /**
   * What no page of ours may cause, from every page of this visitor: errors on the console, uncaught exceptions, violations
   * of a Content-Security-Policy, dialogs.
   */
  readonly problems: string[];
}

/**
 * One browser for the tests of a file. Answers the function that opens a profile of its own in it, with one empty page, in
 * which nothing takes longer than 10 s.
 */
export function useBrowser(): (options?: BrowserContextOptions) => Promise<Visitor> {
  let browser: Browser | undefined;
  afterAll(() => browser?.close());

  return async (options = {}) => {
    // Here and not before all tests, which would be skipped, and not fail, where there is no browser.
    needPackage(CHROMIUM, 'chromium-headless-shell');
    browser ??= await chromium.launch({ executablePath: CHROMIUM, args: SWITCHES });
    const [version = ''] = browser.version().split('.');
    const context = await browser.newContext({ userAgent: AGENT.replace('VERSION', version), ...options });
    onTestFinished(() => context.close());
    context.setDefaultTimeout(10_000);
    const problems: string[] = [];
    await watch(context, problems);
    return { page: await context.newPage(), context, problems };
  };
}

async function watch(context: BrowserContext, problems: string[]): Promise<void> {
  context.on('console', (message) => {
    // That a request was answered with an error is no news to the test that makes it.
    if (message.type() === 'error' && !message.text().startsWith('Failed to load resource: the server responded'))
      problems.push(`console: ${message.text()}`);
  });
  context.on('weberror', (error) => problems.push(`exception: ${error.error().message}`));
  context.on('dialog', (dialog) => {
    problems.push(`dialog: ${dialog.message()}`);
    void dialog.dismiss();
  });
  await context.exposeFunction('reportViolation', (text: string) => problems.push(`violation: ${text}`));
  await context.addInitScript(
    "document.addEventListener('securitypolicyviolation', (event) => reportViolation(event.effectiveDirective + ' ' + event.blockedURI));",
  );
}

export interface Site {
  readonly port: number;
  /** Pages by their path; more may be put in while it runs. */
  readonly pages: Map<string, string>;
  /** What was asked for: `GET /path`. */
  readonly requests: string[];
}

/** A web server of somebody else's, by any name: `http://localhost:PORT`, `http://www.example.test:PORT`. */
export async function startSite(): Promise<Site> {
  const pages = new Map<string, string>();
  const requests: string[] = [];
  const server = createServer((request, response) => {
    const path = (request.url ?? '/').replace(/\?.*/, '');
    if (path !== '/favicon.ico') requests.push(`${request.method} ${path}`);
    const page = pages.get(path);
    response.writeHead(page === undefined ? 404 : 200, { 'Content-Type': 'text/html; charset=utf-8' });
    response.end(page ?? 'There is nothing here.');
  });
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  onTestFinished(() => {
    server.close();
    server.closeAllConnections();
  });
  const address = server.address();
  if (address === null || typeof address === 'string') throw new Error('The site has no port');
  return { port: address.port, pages, requests };
}

export interface DevWorld {
  readonly child: Child;
  /** `http://localhost:PORT`, where the demo form is. */
  readonly url: string;
  /** Port of the mail server that catches everything. */
  readonly smtpPort: number;
}

/** `bin/postern dev`, ready; with this project in place of the demo. */
export async function startDevWorld(project?: string): Promise<DevWorld> {
  const folder = await temporaryFolder();
  if (project !== undefined) {
    const projects = join(folder, 'data/config/projects');
    await mkdir(projects, { recursive: true });
    await writeFile(join(projects, 'demo.yml'), project);
  }
  const [port, inbound] = [await freePort(), await freePort()];
  const child = await startChild(
    join(import.meta.dirname, '../../bin/postern'),
    ['dev', '--data', join(folder, 'data'), '--port', String(port), '--smtp-port', String(inbound)],
    { env: { ...process.env, XDG_CACHE_HOME: join(folder, 'cache') } },
  );
  onTestFinished(() => child.stop());
  // The last line of the banner.
  await untilReady(child, () => child.output().includes('Press Ctrl-C to stop'));
  const output = child.output();
  const url = /Demo form +(\S+?)\/\s/.exec(output)?.[1];
  const smtpPort = Number(/Mail server +127\.0\.0\.1:(\d+)/.exec(output)?.[1]);
  if (url === undefined || !(smtpPort > 0)) throw new Error(`The banner does not say where everything is:\n${output}`);
  return { child, url, smtpPort };
}
