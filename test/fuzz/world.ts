/** A daemon to attack and an idle one beside it, both the real program, and what must hold when the attack is over. */
import { mkdir, readdir, readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { request } from 'node:http';
import { expect, onTestFinished, vi } from 'vitest';
import { openAppliance, PROJECT, type Appliance, type Run } from '../harness/binary.ts';
import { startCatcher, type Catcher } from '../harness/catcher.ts';
import { temporaryFolder } from '../harness/store.ts';
import { excesses, percentile, startProbes, type Probes } from './probes.ts';

export const DOMAIN = 'forms.test';
export const ALIAS = `info@${DOMAIN}`;

export interface FuzzWorld {
  readonly appliance: Appliance;
  readonly catcher: Catcher;
  readonly run: Run;
  readonly probes: Probes;
  /** Asks over the operator's socket; answers the JSON. Throws where the answer is not 200. */
  admin(method: string, path: string, body?: unknown): Promise<Record<string, unknown>>;
  /** Holds promise 7 (docs: no exit, no stall, bounded memory, no temporary file), and prints the figures. */
  expectUnharmed(what: string): Promise<void>;
}

const UNLIMITED = 1_000_000_000;
const MAX_RSS_BYTES = 512 * 2 ** 20;
const MAX_EXCESS_MS = 100;
const MAX_STALL_MS = 1000;

/** How long to go on and how much to send: `FUZZ_SECONDS` where it is set, else the whole number. */
export function budget(share: number): {
  readonly isOver: (sent: number, most: number) => boolean;
  readonly seed: number;
} {
  const { FUZZ_SECONDS: seconds, FUZZ_SEED: seed } = process.env;
  const end = seconds === undefined ? Infinity : performance.now() + Number(seconds) * 1000 * share;
  return {
    isOver: (sent, most) => performance.now() >= end || sent >= most,
    seed: seed === undefined ? Math.floor(Math.random() * 2 ** 31) : Number(seed),
  };
}

/** Starts both; everything ends with the test. */
export async function startFuzzWorld(
  server: Readonly<Record<string, Record<string, unknown>>> = {},
): Promise<FuzzWorld> {
  const catcher = await startCatcher();
  const limits = {
    requests_per_minute_per_address: UNLIMITED,
    smtp: { per_address: 500, errors: 100_000 },
    ...server['limits'],
  };
  const appliance = await openAppliance({ deliverTo: catcher.port, server: { ...server, limits } });
  const idle = await openAppliance({ deliverTo: catcher.port });
  const domain = { ...PROJECT.domains[DOMAIN], forwarding: { [ALIAS]: 'ana@inbox.test' } };
  await appliance.writeProject({ ...PROJECT, domains: { [DOMAIN]: domain } });
  const temporary = join(await temporaryFolder(), 'tmp');
  await mkdir(temporary);
  vi.stubEnv('TMPDIR', temporary); // the daemon inherits it
  const run = await appliance.startVerified();
  const beside = await idle.start();
  onTestFinished(() => void vi.unstubAllEnvs());
  const probes = startProbes([appliance.url, idle.url]);
  let ended: number | null | undefined;
  void run.ended.then((code) => (ended = code));
  return { appliance, catcher, run, probes, admin, expectUnharmed };

  function admin(method: string, path: string, body?: unknown): Promise<Record<string, unknown>> {
    return new Promise((resolve, reject) => {
      const text = body === undefined ? '' : JSON.stringify(body);
      const headers = { 'Content-Type': 'application/json', 'Content-Length': Buffer.byteLength(text) };
      const socketPath = join(appliance.folder, 'admin.sock');
      const sent = request({ socketPath, path, method, headers }, (response) => {
        let answer = '';
        response.setEncoding('utf8').on('data', (piece: string) => (answer += piece));
        response.on('end', () => {
          if (response.statusCode === 200) resolve(JSON.parse(answer) as Record<string, unknown>);
          else reject(new Error(`${method} ${path}: ${response.statusCode} ${answer}`));
        });
      });
      sent.on('error', reject);
      sent.end(text);
    });
  }

  async function expectUnharmed(what: string): Promise<void> {
    const [attacked = [], quiet = []] = await probes.stop();
    const over = excesses(attacked, quiet);
    const worst = Math.max(...over.map(({ ms }) => ms));
    const rss = await peakMemory(run.pid);
    const left = await readdir(temporary);
    const summary =
      `${what}: ${attacked.length} probes, p99 ${percentile(attacked, 0.99).toFixed(0)} ms ` +
      `(idle ${percentile(quiet, 0.99).toFixed(0)} ms), at most ${worst.toFixed(0)} ms over the idle daemon, ` +
      `peak memory ${(rss / 2 ** 20).toFixed(0)} MiB`;
    process.stdout.write(`${summary}\n`);
    expect(ended, `the daemon ended:\n${run.output()}`).toBeUndefined();
    expect(attacked.filter(({ status }) => status !== 200)).toEqual([]);
    // Single ones are the machine's: the idle daemon is not asked in each moment of it.
    expect(percentile(over, 0.995), summary).toBeLessThan(MAX_EXCESS_MS);
    expect(worst, summary).toBeLessThan(MAX_STALL_MS);
    expect(rss).toBeLessThan(MAX_RSS_BYTES);
    expect(left).toEqual([]);
    await beside.end('SIGTERM');
  }
}

/** The most resident memory since its start, bytes. */
async function peakMemory(pid: number): Promise<number> {
  const status = await readFile(`/proc/${pid}/status`, 'utf8');
  return Number(/^VmHWM:\s+(\d+) kB$/m.exec(status)?.[1]) * 1024;
}

/** Client addresses on loopback, so that what is counted by address stops no other input. */
export function clientAddress(n: number): string {
  return `127.${1 + ((n >> 16) % 200)}.${(n >> 8) & 255}.${1 + (n % 250)}`;
}
