/**
 * Who listens on a port of this machine, by program and unit, as the kernel has it (proc(5)). Without the rights to look into
 * other processes, a listener is found and not named.
 */
import { execFile } from 'node:child_process';
import { readdir, readFile, readlink } from 'node:fs/promises';
import { promisify } from 'node:util';
import type { ListenAddress } from '../lib/sockets.ts';

export interface Listener {
  readonly port: number;
  /** `exim4`; undefined where this user may not see. */
  readonly program: string | undefined;
  readonly pid: number | undefined;
  /** `exim4.service`: what systemd stops. */
  readonly unit: string | undefined;
}

interface Bound {
  readonly port: number;
  /** As the kernel writes it, in hex. */
  readonly address: string;
  readonly inode: string;
}

/** The listeners that are in the way of one at these addresses, one for each port and program. */
export async function listenersOn(places: readonly ListenAddress[]): Promise<Listener[]> {
  const bound = (await listening()).filter((each) => places.some((place) => isInTheWay(each, place)));
  if (bound.length === 0) return [];
  const pids = await pidsByInode(new Set(bound.map(({ inode }) => inode)));
  const found = await Promise.all(bound.map(({ port, inode }) => listenerOf(port, pids.get(inode) ?? [])));
  const byName = new Map(found.map((each) => [`${each.port} ${each.unit ?? each.program}`, each]));
  return [...byName.values()].toSorted((a, b) => a.port - b.port);
}

const LISTEN = '0A';

async function listening(): Promise<Bound[]> {
  const tables = await Promise.all(
    ['/proc/net/tcp', '/proc/net/tcp6'].map((file) => readFile(file, 'utf8').catch(() => '')),
  );
  return tables.flatMap((table) =>
    table.split('\n').flatMap((line) => {
      const [, local = '', , state, , , , , , inode = ''] = line.trim().split(/\s+/);
      const [address = '', port = ''] = local.split(':');
      return state === LISTEN ? [{ address, port: Number.parseInt(port, 16), inode }] : [];
    }),
  );
}

/** A listener at one IPv4 address is in nobody's way at another one; of all else that is not worth the look. */
function isInTheWay({ address, port }: Bound, place: ListenAddress): boolean {
  if (port !== place.port) return false;
  const octets = place.host.split('.');
  if (octets.length !== 4 || address.length !== 8 || /^0+$/.test(address) || place.host === '0.0.0.0') return true;
  return Buffer.from(address, 'hex').reverse().join('.') === place.host;
}

async function pidsByInode(inodes: ReadonlySet<string>): Promise<ReadonlyMap<string, number[]>> {
  const pids = (await readdir('/proc')).filter((name) => /^\d+$/.test(name)).map(Number);
  const found = new Map<string, number[]>();
  for (const pid of pids.toSorted((a, b) => a - b)) {
    const links = await readdir(`/proc/${pid}/fd`).catch(() => []);
    // A process may end, and a descriptor be closed, while this looks.
    const targets = await Promise.all(links.map((fd) => readlink(`/proc/${pid}/fd/${fd}`).catch(() => '')));
    for (const [, inode = ''] of targets.map((target) => /^socket:\[(\d+)\]$/.exec(target) ?? []))
      if (inodes.has(inode)) found.set(inode, [...(found.get(inode) ?? []), pid]);
  }
  return found;
}

/** Of several processes that share it, the eldest: those that it started have it from there. */
async function listenerOf(port: number, pids: readonly number[]): Promise<Listener> {
  const pid = pids.find((each) => each !== 1) ?? pids[0];
  if (pid === undefined) return { port, program: undefined, pid, unit: undefined };
  const [program, cgroup] = await Promise.all(
    ['comm', 'cgroup'].map((name) => readFile(`/proc/${pid}/${name}`, 'utf8').catch(() => '')),
  );
  const unit = pid === 1 ? await socketUnit(port) : /\/([^/\n]+\.service)$/m.exec(cgroup ?? '')?.[1];
  // Debian starts Postfix as an instance, postfix@-.service, of which postfix.service is the handle.
  return { port, program: program?.trim() || undefined, pid, unit: unit?.replace(/@-?(?=\.service$)/, '') };
}

const run = promisify(execFile);

/** The socket unit for which systemd itself holds a port. */
async function socketUnit(port: number): Promise<string | undefined> {
  const { stdout } = await run('systemctl', ['list-sockets', '--no-legend', '--full', '--plain']).catch(() => ({
    stdout: '',
  }));
  return new RegExp(`:${port}\\s+(\\S+\\.socket)`).exec(stdout)?.[1];
}
