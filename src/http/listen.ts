/** Sockets to listen on: TCP addresses, and the Unix socket through which the operator comes in. */
import { chmod, lstat, mkdir, unlink } from 'node:fs/promises';
import { once } from 'node:events';
import { connect, type AddressInfo, type Server } from 'node:net';
import { dirname } from 'node:path';
import { UserError, codeOf, messageOf } from '../lib/errors.ts';

export interface ListenAddress {
  readonly host: string;
  readonly port: number;
}

/** `[::]:80` and `127.0.0.1:8080` as host and port. */
export function parseListenAddress(text: string): ListenAddress {
  const colon = text.lastIndexOf(':');
  return { host: text.slice(0, colon).replace(/^\[(.*)\]$/, '$1'), port: Number(text.slice(colon + 1)) };
}

/** Listens; answers where, which matters for port 0. */
export async function listenOn(server: Server, { host, port }: ListenAddress): Promise<ListenAddress> {
  try {
    // `::` takes IPv4 too, so that one line of configuration is enough.
    await listening(server, { host, port });
  } catch (error) {
    throw new UserError(`cannot listen on ${shown({ host, port })}: ${whyNot(error)}`, { cause: error });
  }
  const bound: string | AddressInfo | null = server.address();
  return typeof bound === 'object' && bound !== null ? { host: bound.address, port: bound.port } : { host, port };
}

/** Listens on a Unix socket that the daemon's user and group alone can reach. A stale file is replaced, a living one is not. */
export async function listenOnSocket(server: Server, path: string): Promise<void> {
  try {
    await mkdir(dirname(path), { recursive: true, mode: 0o750 });
    await removeStale(path);
    // Until the mode is set, connecting needs the write permission that the umask takes from all but the owner.
    await listening(server, { path });
    await chmod(path, 0o660);
  } catch (error) {
    if (error instanceof UserError) throw error;
    throw new UserError(`cannot listen on the admin socket ${path}: ${whyNot(error)}`, { cause: error });
  }
}

async function listening(server: Server, where: ListenAddress | { readonly path: string }): Promise<void> {
  const ready = once(server, 'listening');
  server.listen({ ...where, backlog: 1024 });
  await ready;
}

async function removeStale(path: string): Promise<void> {
  const found = await lstat(path).catch(() => undefined);
  if (found === undefined) return;
  if (!found.isSocket()) throw new UserError(`${path} is no socket: admin_socket must name a file of its own`);
  if (await answers(path)) throw new UserError(`another daemon listens on ${path}`);
  await unlink(path);
}

function answers(path: string): Promise<boolean> {
  return new Promise((resolve, reject) => {
    const socket = connect(path);
    socket.once('connect', () => {
      socket.destroy();
      resolve(true);
    });
    socket.once('error', (error) => {
      const code = codeOf(error);
      if (code === 'ECONNREFUSED' || code === 'ENOENT') resolve(false);
      else reject(error);
    });
  });
}

function whyNot(error: unknown): string {
  switch (codeOf(error)) {
    case 'EADDRINUSE':
      return 'another program listens there';
    case 'EACCES':
      return 'this user may not';
    case 'EADDRNOTAVAIL':
      return 'the machine has no such address';
    default:
      return messageOf(error);
  }
}

function shown({ host, port }: ListenAddress): string {
  return host.includes(':') ? `[${host}]:${port}` : `${host}:${port}`;
}
