/** Sockets to listen on: TCP addresses, and the Unix socket through which the operator comes in; and connections that are read before their server reads them. */
import { chmod, lstat, mkdir, unlink } from 'node:fs/promises';
import { once } from 'node:events';
import { Socket, connect, type AddressInfo, type Server } from 'node:net';
import { dirname } from 'node:path';
import type { Clock } from './clock.ts';
import { PassingError, UserError, codeOf, messageOf } from './errors.ts';

/** Connections that wait until they are accepted. */
const BACKLOG = 1024;

export interface ListenAddress {
  readonly host: string;
  readonly port: number;
}

/** `[::]:80` and `127.0.0.1:8080` as host and port. */
export function parseListenAddress(text: string): ListenAddress {
  const colon = text.lastIndexOf(':');
  return { host: text.slice(0, colon).replace(/^\[(.*)\]$/, '$1'), port: Number(text.slice(colon + 1)) };
}

/** Host and port as `[::]:80` and `127.0.0.1:8080`. */
function addressText({ host, port }: ListenAddress): string {
  return host.includes(':') ? `[${host}]:${port}` : `${host}:${port}`;
}

/** Has the server listen; answers where, which matters for port 0. Throws UserError where it cannot. */
export type Bind = (server: Server, address: ListenAddress) => Promise<ListenAddress>;

/** `Bind`, on the socket of another program that is bound to the address already, where there is one. */
export async function listenOn(server: Server, { host, port }: ListenAddress, socket?: Socket): Promise<ListenAddress> {
  try {
    // `::` takes IPv4 too, so that one line of configuration is enough.
    await listening(server, socket ?? { host, port });
  } catch (error) {
    throw refusal(`cannot listen on ${addressText({ host, port })}`, error, LOW_PORTS);
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
    throw refusal(
      `cannot listen on the admin socket ${path}`,
      error,
      `the user of the daemon must own ${dirname(path)}`,
    );
  }
}

async function listening(server: Server, where: Socket | ListenAddress | { readonly path: string }): Promise<void> {
  const ready = once(server, 'listening');
  if (where instanceof Socket) server.listen(where, BACKLOG);
  else server.listen({ ...where, backlog: BACKLOG });
  await ready;
}

async function removeStale(path: string): Promise<void> {
  const found = await lstat(path).catch(() => undefined);
  if (found === undefined) return;
  if (!found.isSocket()) throw new UserError(`${path} is not a socket: admin_socket must name a new file or a socket`);
  if (await answers(path)) throw new UserError(`another daemon is listening on ${path}`);
  await unlink(path);
}

async function answers(path: string): Promise<boolean> {
  const socket = connect(path);
  try {
    await once(socket, 'connect');
    return true;
  } catch (error) {
    const code = codeOf(error);
    if (code === 'ECONNREFUSED' || code === 'ENOENT') return false;
    throw error;
  } finally {
    socket.destroy();
  }
}

const LOW_PORTS = 'ports below 1024 need CAP_NET_BIND_SERVICE, which systemd/postern.service grants';

/** What others hold now they may give back: that is worth another start. What is forbidden stays so. */
function refusal(what: string, error: unknown, forbidden: string): UserError {
  switch (codeOf(error)) {
    case 'EADDRINUSE':
      return new PassingError(`${what}: another program is listening there (ss -ltnp shows it)`, { cause: error });
    case 'EADDRNOTAVAIL':
      return new PassingError(`${what}: the machine does not have this address (yet)`, { cause: error });
    case 'EACCES':
      return new UserError(`${what}: permission denied (${forbidden})`, { cause: error });
    default:
      return new UserError(`${what}: ${messageOf(error)}`, { cause: error });
  }
}

// Socket activation (sd_listen_fds(3)): systemd holds the sockets and hands them over at each start. Whoever connects while
// the daemon restarts waits in the kernel's queue and is never refused.

export interface ActivatedSockets {
  /** Listens on the socket that was handed over for the address, else on one of its own. */
  readonly bind: Bind;
  /** Addresses of those that nobody has taken, and on which nobody would ever answer. */
  left(): string[];
}

/** The first that is handed over; those below are the standard streams. */
const FIRST_FD = 3;

/** The sockets that this environment announces to the process `pid`. */
export function activatedSockets(env: NodeJS.ProcessEnv, pid: number): ActivatedSockets {
  const count = env['LISTEN_PID'] === String(pid) ? Number(env['LISTEN_FDS']) : 0;
  const sockets = new Map<string, Socket>();
  for (let fd = FIRST_FD; fd < FIRST_FD + count; fd++) {
    // Neither read nor written: nobody is let in before a server listens on it.
    const socket = new Socket({ fd, readable: false, writable: false });
    sockets.set(boundTo(socket) ?? `descriptor ${fd}`, socket);
  }
  return {
    bind(server, address) {
      const name = addressText(address);
      const socket = sockets.get(name);
      sockets.delete(name);
      return listenOn(server, address, socket);
    },
    left: () => [...sockets.keys()],
  };
}

/** Undefined for what is no TCP socket. */
function boundTo(socket: Socket): string | undefined {
  const bound = socket.address();
  return 'address' in bound ? addressText({ host: bound.address, port: bound.port }) : undefined;
}

/** Has `first` see each connection before the server does, which gets it by `passOn`. To be called before the server listens. */
export function interceptConnections(server: Server, first: (socket: Socket, passOn: () => void) => void): void {
  const listeners = server.listeners('connection');
  server.removeAllListeners('connection');
  server.on('connection', (socket: Socket) => {
    first(socket, () => {
      for (const listener of listeners) Reflect.apply(listener, server, [socket]);
    });
  });
}

/** What has come of a connection: not enough, nothing that is accepted, or all that was to be read; `rest` is for the next reader. */
export type Beginning = 'incomplete' | 'invalid' | { readonly rest: Buffer };

export interface BeginningReader {
  readonly clock: Clock;
  /** How long the beginning may take, ms. */
  readonly timeoutMs: number;
  /** Gets all that has come so far. */
  readonly read: (data: Buffer) => Beginning;
  /** Called once, with the connection at the beginning of `rest`. */
  readonly passOn: () => void;
}

/** Reads the beginning of a connection; closes one that is invalid, that ends, or that takes too long. */
export function readBeginning(socket: Socket, { clock, timeoutMs, read, passOn }: BeginningReader): void {
  let data: Buffer = Buffer.alloc(0);
  const over = new AbortController();
  socket.on('data', onData).on('error', giveUp).on('end', giveUp).on('close', stop);
  void clock.sleep(timeoutMs, over.signal).then(() => over.signal.aborted || giveUp());

  function onData(chunk: Buffer): void {
    data = data.length === 0 ? chunk : Buffer.concat([data, chunk]);
    const beginning = read(data);
    if (beginning === 'incomplete') return;
    if (beginning === 'invalid') return giveUp();
    stop();
    socket.pause();
    if (beginning.rest.length > 0) socket.unshift(beginning.rest);
    passOn();
    // TLS takes what is left by itself.
    if (socket.listenerCount('data') > 0) socket.resume();
  }

  function giveUp(): void {
    stop();
    socket.destroy();
  }

  function stop(): void {
    over.abort();
    socket.off('data', onData).off('error', giveUp).off('end', giveUp).off('close', stop);
  }
}
