/**
 * Haraka with its plugins for SPF and DKIM, one process for each processor. It and its 57 packages are no dependency of ours: npm puts
 * them into a folder for temporary files, where they stay. DMARC and SRS are a plugin of ours (references/haraka-checks.cjs).
 */
import { execFile } from 'node:child_process';
import { existsSync } from 'node:fs';
import { copyFile, mkdir, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { promisify } from 'node:util';
import type { ZoneRecord } from '../../src/dev/dns-server.ts';
import { answers, freePort, startChild, untilReady } from '../../test/harness/child.ts';
import type { CheckingServer, Relaying } from './checking-postfix.ts';
import { startOwnResolver } from './own-resolver.ts';

const run = promisify(execFile);
const PACKAGES = ['Haraka@3.3.4', 'haraka-plugin-spf@1.3.0', 'haraka-plugin-dkim@1.3.1'];
const HOSTNAME = 'mx.haraka.test';

/** Takes mail that `records` are enough to check, and keeps it in its queue, or relays it over as many connections as Postern has. */
export async function startCheckingHaraka(
  records: readonly ZoneRecord[],
  relaying?: Relaying,
): Promise<CheckingServer> {
  const program = await installed();
  await using open = new AsyncDisposableStack();
  const { enter, folder, write } = open.adopt(await startOwnResolver(records), (it) => it.close());
  const port = await freePort();
  for (const name of ['config', 'plugins', 'queue']) await mkdir(join(folder, name));
  await copyFile(`${import.meta.dirname}/../references/haraka-checks.cjs`, join(folder, 'plugins/checks.js'));
  // Haraka does not start without the defaults of this file.
  await copyFile(join(program, '../../config/connection.ini'), join(folder, 'config/connection.ini'));
  const files = {
    me: [HOSTNAME],
    plugins: ['spf', 'dkim', 'checks'],
    'smtp.ini': [`listen=127.0.0.1:${port}`, 'nodes=cpus'],
    'outbound.ini': [
      `disabled=${relaying === undefined}`,
      'concurrency_max=20',
      'enable_tls=false',
      'local_mx_ok=true',
    ],
    'checks.json': [JSON.stringify(relaying ?? {})],
    loglevel: ['WARN'],
  };
  for (const [name, lines] of Object.entries(files)) await write(`config/${name}`, lines);
  const [command, ...args] = [...enter, process.execPath, program, '-c', folder];
  const haraka = open.adopt(await startChild(command, args), (it) => it.stop());
  await untilReady(haraka, () => answers(port));
  const all = open.move();
  return { port, close: () => all.disposeAsync() };
}

/** The path of its program. */
async function installed(): Promise<string> {
  const folder = join(tmpdir(), 'postern-npm', PACKAGES.join('+'));
  const program = join(folder, 'node_modules/Haraka/bin/haraka');
  if (existsSync(program)) return program;
  await mkdir(folder, { recursive: true });
  const args = ['install', '--prefix', folder, '--omit=optional', '--ignore-scripts', '--no-audit', '--no-fund'];
  try {
    await run('npm', [...args, ...PACKAGES]);
  } catch (error) {
    await rm(folder, { recursive: true, force: true });
    throw new Error(`Haraka could not be installed: npm ${[...args, ...PACKAGES].join(' ')}`, { cause: error });
  }
  return program;
}
