/** A name server for programs that only read /etc/resolv.conf: they run in a mount namespace where it names 127.53.0.1. */
import { chmod, mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { startDnsServer, type ZoneRecord } from '../../src/dev/dns-server.ts';

const NAME_SERVER = '127.53.0.1';

export interface OwnResolver {
  /** The words before a command that is to ask it. */
  readonly enter: readonly string[];
  /** A folder for what such programs read, and everybody can. */
  readonly folder: string;
  /** A file there; answers its path. */
  write(name: string, lines: readonly string[]): Promise<string>;
  close(): Promise<void>;
}

/** Only one at a time: it needs port 53. */
export async function startOwnResolver(records: readonly ZoneRecord[]): Promise<OwnResolver> {
  const folder = await mkdtemp(join(tmpdir(), 'postern-checking-'));
  await chmod(folder, 0o755);
  const dns = await startDnsServer(records, { host: NAME_SERVER, port: 53 });

  async function write(name: string, lines: readonly string[]): Promise<string> {
    await writeFile(join(folder, name), `${lines.join('\n')}\n`);
    return join(folder, name);
  }

  const resolv = await write('resolv.conf', [`nameserver ${NAME_SERVER}`]);
  return {
    enter: ['unshare', '--mount', 'sh', '-c', `mount --bind ${resolv} /etc/resolv.conf && exec "$@"`, 'sh'],
    folder,
    write,
    async close() {
      await dns.close();
      await rm(folder, { recursive: true, force: true });
    },
  };
}
