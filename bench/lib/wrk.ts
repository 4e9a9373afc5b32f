/** Debian's wrk: a load generator in C, at 19 µs of CPU a request half the burden of one in Node (42 µs, poster.ts). */
import { execFile } from 'node:child_process';
import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { z } from 'zod';
import { needPackage } from '../../test/harness/debian.ts';
import type { Post } from './posts.ts';

const run = promisify(execFile);
const summary = z.object({ requests: z.number(), microseconds: z.number(), bad: z.number(), p99: z.number() });

interface Load {
  readonly connections?: number;
  readonly seconds?: number;
}

/** Posts the same again and again for some seconds; answers how many a second got 2xx or 3xx, and throws at anything else. */
export function postsPerSecond(url: string, { contentType, body, headers }: Post, load?: Load): Promise<number> {
  return requestsPerSecond(url, { method: 'POST', headers: { 'Content-Type': contentType, ...headers }, body }, load);
}

/** How long 99 of 100 of them wait for their answers at most, ms. */
export async function postsWait(url: string, { contentType, body, headers }: Post, load?: Load): Promise<number> {
  const request = { method: 'POST', headers: { 'Content-Type': contentType, ...headers }, body } as const;
  return (await measure(url, request, load)).p99;
}

/** As `postsPerSecond`, without a body. */
export function getsPerSecond(url: string, headers: Request['headers'] = {}, load?: Load): Promise<number> {
  return requestsPerSecond(url, { method: 'GET', headers, body: Buffer.alloc(0) }, load);
}

interface Request {
  readonly method: 'GET' | 'POST';
  readonly headers: Readonly<Record<string, string>>;
  readonly body: Buffer;
}

async function requestsPerSecond(url: string, request: Request, load?: Load): Promise<number> {
  return (await measure(url, request, load)).perSecond;
}

interface Measured {
  readonly perSecond: number;
  readonly p99: number;
}

async function measure(url: string, request: Request, { connections = 64, seconds = 5 }: Load = {}): Promise<Measured> {
  needPackage('/usr/bin/wrk', 'wrk');
  const folder = await mkdtemp(join(tmpdir(), 'postern-wrk-'));
  try {
    await writeFile(join(folder, 'body'), request.body);
    await writeFile(join(folder, 'request.lua'), luaScript(join(folder, 'body'), request));
    const args = ['-t', '1', '-c', `${connections}`, '-d', `${seconds}s`, '-s', join(folder, 'request.lua'), url];
    const { stdout } = await run('/usr/bin/wrk', args);
    const { requests, microseconds, bad, p99 } = summary.parse(JSON.parse(stdout.trimEnd().split('\n').at(-1) ?? ''));
    if (bad > 0 || requests === 0) throw new Error(`${bad} of ${requests} requests to ${url} failed:\n${stdout}`);
    return { perSecond: (requests / microseconds) * 1e6, p99: p99 / 1000 };
  } finally {
    await rm(folder, { recursive: true, force: true });
  }
}

/** The request is built once: no Lua runs per request. */
function luaScript(bodyFile: string, { method, headers }: Request): string {
  const lines = Object.entries({ Accept: 'application/json', ...headers }).map(
    ([name, value]) => `wrk.headers["${name}"] = "${value}"`,
  );
  return `wrk.method = "${method}"
${lines.join('\n')}
wrk.body = io.open("${bodyFile}", "rb"):read("*a")
function done(summary, latency)
  local e = summary.errors
  print(string.format('{"requests":%d,"microseconds":%d,"bad":%d,"p99":%d}',
    summary.requests, summary.duration, e.status + e.connect + e.read + e.write + e.timeout,
    latency:percentile(99)))
end
`;
}
