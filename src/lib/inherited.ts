/**
 * Sockets that systemd holds and hands over at each start (sd_listen_fds(3)): whoever connects while the daemon restarts
 * waits in the kernel's queue and is never refused.
 */
import { Socket } from 'node:net';
import { addressText, listenOn, type Bind } from './listen.ts';

export interface InheritedSockets {
  /** Listens on the socket that was handed over for the address, else on one of its own. */
  readonly bind: Bind;
  /** Addresses of those that nobody has taken, and on which nobody would ever answer. */
  left(): string[];
}

/** The first that is handed over; those below are the standard streams. */
const FIRST_FD = 3;

/** The sockets that this environment announces to the process `pid`. */
export function inheritedSockets(env: NodeJS.ProcessEnv, pid: number): InheritedSockets {
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
