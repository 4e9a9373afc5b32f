/**
 * The web console at `/console`: its page, and the files that make it, below an address that holds a hash of all of them, so
 * that a browser keeps them for good and an upgrade replaces them at once. They are the modules of `src/console/` with their
 * types stripped, and those of the packages that they use; there is no build.
 */
import { createHash } from 'node:crypto';
import { readdirSync, readFileSync } from 'node:fs';
import { stripTypeScriptTypes } from 'node:module';
import { extname } from 'node:path';
import { promisify } from 'node:util';
import { brotliCompress, constants, gzip } from 'node:zlib';
import { Html, html } from '../lib/html.ts';
import { type Answer, page, refuse, refusedA } from './answer.ts';
import { header, type RequestContext } from './context.ts';
import { TOKENS } from './pages/tokens.ts';

const SOURCE = new URL('../console/', import.meta.url);
const ENTRY = 'main.js';
const FOR_GOOD = 'public, max-age=31536000, immutable';
const TYPES: Readonly<Record<string, string>> = {
  '.js': 'text/javascript; charset=utf-8',
  '.css': 'text/css; charset=utf-8',
};

/** What a module may import by name, and the file of the package that it gets. */
const PACKAGES: Readonly<Record<string, string>> = {
  preact: 'preact',
  'preact/hooks': 'preact/hooks',
  htm: 'htm',
  uplot: 'uplot/dist/uPlot.esm.js',
  uqr: 'uqr',
};

interface Asset {
  readonly type: string;
  readonly text: string;
  readonly etag: string;
  /** By content coding; made once, when it is first asked for. */
  readonly encoded: Map<Coding, Promise<Buffer>>;
}

type Coding = 'br' | 'gzip';

/** What the console is made of. */
interface Console {
  readonly folder: string;
  readonly assets: ReadonlyMap<string, Asset>;
  readonly importMap: string;
  /** What the page needs before it shows anything. */
  readonly preloaded: readonly string[];
}

/** Serves everything at and below `/console`; its files are read at the first request. */
export function createConsole(): (context: RequestContext) => Answer | Promise<Answer> {
  let made: Console | undefined;
  return (context) => {
    if (!context.snapshot.server.server.console.enabled) return refusedA(refuse('NOT_FOUND'), context.id);
    made ??= readConsole();
    const [, , folder, ...rest] = context.path.split('/');
    // The files of before or after an upgrade: what is said of them must not be kept.
    if (folder !== undefined && /^[0-9a-f]{16}$/.test(folder)) {
      const asset = folder === made.folder ? made.assets.get(rest.join('/')) : undefined;
      return asset === undefined ? refusedA(refuse('NOT_FOUND'), context.id) : assetAnswer(asset, context);
    }
    return context.path === FRAME ? framePage() : consolePage(made);
  };
}

const FRAME = '/console/frame';
const FRAME_SCRIPT = `addEventListener('message', ({ source, data }) => {
  if (source !== parent || typeof data !== 'string') return;
  const page = new DOMParser().parseFromString(data, 'text/html');
  for (const each of page.querySelectorAll('script, meta, base, link, iframe, frame, object, embed')) each.remove();
  for (const each of page.querySelectorAll('[autofocus]')) each.removeAttribute('autofocus');
  for (const link of page.querySelectorAll('a, area')) link.target = '_blank';
  document.replaceChild(document.adoptNode(page.documentElement), document.documentElement);
});
parent.postMessage('ready', '*');`;

/** An empty page for a frame of the console, which shows the HTML that it is sent: in a sandbox, without scripts, and without a request. */
function framePage(): Answer {
  const hash = createHash('sha256').update(FRAME_SCRIPT).digest('base64');
  const policy = [
    'sandbox allow-scripts',
    "default-src 'none'",
    `script-src 'sha256-${hash}'`,
    "style-src 'unsafe-inline'",
    'img-src data:',
    "form-action 'none'",
    "base-uri 'none'",
    "frame-ancestors 'self'",
  ].join('; ');
  const content = html`<!doctype html>
<html lang="en">
<head><meta charset="utf-8"><title>Preview</title><script>${new Html(FRAME_SCRIPT)}</script></head>
<body></body>
</html>
`;
  return page({ html: content.text, policy }, 200, { 'Cache-Control': 'no-store' });
}

function consolePage({ folder, importMap, preloaded }: Console): Answer {
  const base = `/console/${folder}`;
  const shell = html`<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<title>Postern</title>
<link rel="icon" href="data:image/svg+xml,%3Csvg xmlns='http://www.w3.org/2000/svg' viewBox='0 0 24 24'%3E%3Cpath fill='%232456d6' d='M4 22V11a8 8 0 0 1 16 0v11h-6v-9h-4v9z'/%3E%3C/svg%3E">
<link rel="stylesheet" href="${base}/style.css">
<script type="importmap">${new Html(importMap)}</script>
${preloaded.map((name) => html`<link rel="modulepreload" href="${base}/${name}">\n`)}<script type="module" src="${base}/${ENTRY}"></script>
</head>
<body>
<div id="app"><noscript><main class="alone"><h1>Postern</h1><p>The console needs JavaScript. Everything it shows is also available through the API and the command line.</p></main></noscript></div>
</body>
</html>
`;
  const map = createHash('sha256').update(importMap).digest('base64');
  const policy = [
    "default-src 'none'",
    `script-src 'self' 'sha256-${map}'`,
    "style-src 'self'",
    "img-src 'self' data:",
    "connect-src 'self'",
    "font-src 'self'",
    // The rendered view of a mail, which has a stricter policy of its own.
    "frame-src 'self'",
    "form-action 'self'",
    "base-uri 'none'",
    "frame-ancestors 'none'",
    "require-trusted-types-for 'script'",
  ].join('; ');
  return page({ html: shell.text, policy }, 200, { 'Cache-Control': 'no-store' });
}

async function assetAnswer(asset: Asset, { request }: RequestContext): Promise<Answer> {
  const { type, text, etag } = asset;
  const headers = {
    ETag: etag,
    'Cache-Control': FOR_GOOD,
    'Cross-Origin-Resource-Policy': 'same-origin',
    Vary: 'Accept-Encoding',
  };
  if (header(request, 'if-none-match')?.includes(etag) === true) return { status: 304, type, body: '', headers };
  const coding = codingFor(header(request, 'accept-encoding') ?? '');
  if (coding === undefined) return { status: 200, type, body: text, headers };
  const bytes = await encoded(asset, coding);
  const size = { 'Content-Encoding': coding, 'Content-Length': String(bytes.length) };
  return { status: 200, type, body: '', stream: once(bytes), headers: { ...headers, ...size } };
}

async function* once(bytes: Uint8Array): AsyncGenerator<Uint8Array> {
  yield bytes;
}

/** The smallest of the codings that the client takes (RFC 9110 §12.5.3). */
function codingFor(accepted: string): Coding | undefined {
  const taken = accepted
    .toLowerCase()
    .split(',')
    .map((one) => one.trim())
    .filter((one) => !/;\s*q=0(?:\.0*)?$/.test(one));
  const names = new Set(taken.map((one) => one.split(';', 1)[0]));
  return (['br', 'gzip'] as const).find((coding) => names.has(coding));
}

const compressBrotli = promisify(brotliCompress);
const compressGzip = promisify(gzip);

function encoded({ text, encoded: kept }: Asset, coding: Coding): Promise<Buffer> {
  const bytes = kept.get(coding) ?? encode(text, coding);
  kept.set(coding, bytes);
  return bytes;
}

function encode(text: string, coding: Coding): Promise<Buffer> {
  if (coding === 'gzip') return compressGzip(text, { level: constants.Z_BEST_COMPRESSION });
  return compressBrotli(text, { params: { [constants.BROTLI_PARAM_SIZE_HINT]: Buffer.byteLength(text) } });
}

function readConsole(): Console {
  const files = new Map([...ownFiles(), ...packageFiles()]);
  const hash = createHash('sha256');
  for (const [name, text] of [...files].toSorted(([a], [b]) => (a < b ? -1 : 1))) hash.update(`${name}\n${text}\n`);
  const folder = hash.digest('hex').slice(0, 16);
  const imports = Object.fromEntries(
    Object.keys(PACKAGES).map((name) => [name, `/console/${folder}/${packageFile(name)}`]),
  );
  return {
    folder,
    assets: new Map([...files].map(([name, text]) => [name, assetOf(name, text)])),
    importMap: JSON.stringify({ imports }),
    preloaded: [...staticImports(files)],
  };
}

/** The modules and the stylesheet of `src/console/`; a release has the modules without types already. */
function* ownFiles(): Generator<[string, string]> {
  const names = readdirSync(SOURCE, { recursive: true, encoding: 'utf8' }).map((name) => name.replaceAll('\\', '/'));
  for (const name of names) {
    if (name.endsWith('.d.ts') || !['.ts', '.js', '.css'].includes(extname(name))) continue;
    const text = readFileSync(new URL(name, SOURCE), 'utf8');
    if (name === 'style.css') yield [name, `${TOKENS}\n${text}`];
    else if (name.endsWith('.ts')) yield [name.replace(/\.ts$/, '.js'), modulePlain(text)];
    else yield [name, text];
  }
}

/** The module as a browser runs it: without types, and without the white space that they leave. */
function modulePlain(source: string): string {
  const plain = stripTypeScriptTypes(source, { mode: 'strip' });
  return plain.replaceAll(/(['"]\.{1,2}\/[^'"\n]*)\.ts(?=['"])/g, '$1.js').replaceAll(/[ \t]+$/gm, '');
}

function* packageFiles(): Generator<[string, string]> {
  for (const [name, file] of Object.entries(PACKAGES)) {
    const text = readFileSync(new URL(import.meta.resolve(file)), 'utf8');
    yield [packageFile(name), text.replace(/\/\/# sourceMappingURL=\S+\s*$/, '')];
  }
}

function packageFile(name: string): string {
  return `packages/${name.replaceAll('/', '-')}.js`;
}

/** The files that the entry imports at once, and those that these import. */
function staticImports(files: ReadonlyMap<string, string>): ReadonlySet<string> {
  const found = new Set<string>([ENTRY]);
  for (const name of found) {
    for (const [, specifier = ''] of (files.get(name) ?? '').matchAll(
      /^(?:import|export)\b[^;'"]*?['"]([^'"]+)['"]/gm,
    )) {
      const target = specifier.startsWith('.')
        ? new URL(specifier, `file:///${name}`).pathname.slice(1)
        : packageFile(specifier);
      if (files.has(target)) found.add(target);
    }
  }
  return found;
}

function assetOf(name: string, text: string): Asset {
  const etag = `"${createHash('sha256').update(text).digest('base64url').slice(0, 22)}"`;
  return { type: TYPES[extname(name)] ?? 'application/octet-stream', text, etag, encoded: new Map() };
}
