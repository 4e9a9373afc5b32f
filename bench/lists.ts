/**
 * `npm run bench:lists [-- --rows N --database URL --only TEXT]`: fills a new database with a million submissions and deliveries,
 * starts the daemon on it, asks for every list (whose name has the text) 20 times, and prints the median, and the processor time of
 * the daemon, which other programs hardly change. Without `--database` it is SQLite in a temporary folder.
 */
import { existsSync } from 'node:fs';
import { mkdtemp, readFile, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { parseArgs } from 'node:util';
import { stringify } from 'yaml';
import { PERMISSIONS } from '../src/lib/permission-names.ts';
import { freePort } from '../test/harness/child.ts';
import { fillDatabase } from './lib/fill.ts';
import { LISTS } from './lib/lists.ts';
import { makeKey, serve } from './lib/postern.ts';
import { median } from './lib/rounds.ts';

const ROUNDS = 20;
/** The kernel counts processor time in hundredths of a second (proc(5)). */
const TICK_MS = 10;

const { values } = parseArgs({
  options: {
    rows: { type: 'string', default: '1000000' },
    database: { type: 'string' },
    only: { type: 'string', default: '' },
  },
});
const folder = await mkdtemp(join(tmpdir(), 'postern-lists-'));
const url = values.database ?? `sqlite:${join(folder, 'postern.db')}`;
try {
  const began = performance.now();
  const isThere = url.startsWith('sqlite:') && existsSync(url.slice('sqlite:'.length));
  if (!isThere) await fillDatabase(url, Number(values.rows));
  console.error(`filled in ${Math.round((performance.now() - began) / 1000)} s`);
  const port = await freePort();
  const socket = join(folder, 'admin.sock');
  await writeFile(join(folder, 'server.yml'), stringify(configuration(port, socket)));
  const daemon = await serve({ folder, port });
  try {
    const headers = await makeKey(socket, PERMISSIONS);
    for (const [name, mostMs, path] of LISTS) {
      if (!name.includes(values.only)) continue;
      await measure(name, mostMs, { pid: daemon.pid, read: (round) => ask(port, path(round), headers) });
    }
  } finally {
    await daemon.stop();
  }
} finally {
  await rm(folder, { recursive: true, force: true });
}

/** A daemon that only answers: nothing is delivered, and nothing is too old. */
function configuration(port: number, socket: string): object {
  return {
    server: {
      hostname: 'mail.postern.test',
      operator: 'ops@postern.test',
      http: { listen: [`127.0.0.1:${port}`] },
      admin_socket: socket,
      roles: ['http'],
    },
    database: { url },
    retention: { submissions: '1000d', events: '1000d' },
    limits: { requests_per_minute_per_address: 1_000_000_000 },
  };
}

interface Measured {
  readonly pid: number;
  readonly read: (round: number) => Promise<void>;
}

async function measure(name: string, mostMs: number, { pid, read }: Measured): Promise<void> {
  await read(0);
  const before = await cpuMs(pid);
  const times: number[] = [];
  for (let round = 1; round <= ROUNDS; round++) {
    const start = performance.now();
    await read(round);
    times.push(performance.now() - start);
  }
  const found = median(times);
  if (found > mostMs) process.exitCode = 1;
  const cpu = ((await cpuMs(pid)) - before) / ROUNDS;
  console.log(`${name.padEnd(44)} ${found.toFixed(1).padStart(7)} ms of ${mostMs}, ${cpu.toFixed(1)} ms of CPU`);
}

/** User and system time of all threads of the process so far, ms. */
async function cpuMs(pid: number): Promise<number> {
  const stat = await readFile(`/proc/${pid}/stat`, 'utf8');
  const fields = stat.slice(stat.lastIndexOf(')') + 2).split(' ');
  return (Number(fields[11]) + Number(fields[12])) * TICK_MS;
}

async function ask(port: number, path: string, headers: Readonly<Record<string, string>>): Promise<void> {
  const answer = await fetch(`http://127.0.0.1:${port}${path}`, { headers });
  const text = await answer.text();
  if (answer.status !== 200) throw new Error(`${path}: ${answer.status} ${text.slice(0, 200)}`);
}
