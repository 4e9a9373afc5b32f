/** Debian's PgBouncer in front of a PostgreSQL server, in transaction mode unless told otherwise. */
import { chown, mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { onTestFinished } from 'vitest';
import { freePort, startChild, untilReady } from './child.ts';
import { idsOf, isRoot } from './debian-users.ts';
import { needPackage } from './debian.ts';

const PROGRAM = '/usr/sbin/pgbouncer';

/** Answers the address of the same database through the pooler. Ends with the test. */
export async function startPgBouncer(url: string, mode: 'transaction' | 'session' = 'transaction'): Promise<string> {
  needPackage(PROGRAM, 'pgbouncer');
  const { port: serverPort } = new URL(url);
  const port = await freePort();
  const folder = await mkdtemp(join(tmpdir(), 'postern-pgbouncer-'));
  const file = join(folder, 'pgbouncer.ini');
  await writeFile(
    file,
    [
      '[databases]',
      `* = host=127.0.0.1 port=${serverPort} user=postgres`,
      '[pgbouncer]',
      'listen_addr = 127.0.0.1',
      `listen_port = ${port}`,
      'auth_type = any',
      'unix_socket_dir =',
      `pool_mode = ${mode}`,
      'default_pool_size = 5',
      'max_client_conn = 200',
    ].join('\n'),
  );
  // It does not run as root.
  const user = isRoot() ? idsOf('postgres') : undefined;
  if (user !== undefined) for (const path of [folder, file]) await chown(path, user.uid, user.gid);
  const child = await startChild(PROGRAM, [file], { ...user, cwd: folder });
  onTestFinished(async () => {
    await child.stop('SIGINT');
    await rm(folder, { recursive: true, force: true });
  });
  await untilReady(child, () => /process up/.test(child.output()));
  const pooled = new URL(url);
  pooled.port = `${port}`;
  return pooled.href;
}
