/**
 * The client's address of connections that a proxy passes on as they are, TLS included (PROXY protocol, version 1). From the
 * peers of `server.http.proxy_protocol` a connection has to begin with the header; from all others none is read, so that
 * no other client can choose an address.
 */
import type { Server } from 'node:http';
import { isIP, type Socket } from 'node:net';
import type { Clock } from '../lib/clock.ts';

export interface ProxyProtocolParts {
  readonly clock: Clock;
  /** Whether a peer with this address sends the header. */
  readonly isProxy: (address: string) => boolean;
  /** A proxy may take so long for it, ms. */
  readonly headerMs: number;
}

/** A connection, of whatever kind: TLS has a socket of its own, which shows the same peer. */
type Peer = Pick<Socket, 'remoteAddress' | 'remotePort' | 'localPort'>;

export interface ProxiedClients {
  /** Has the server read the header. To be called before it listens, and after whatever else reads a connection first. */
  attach(server: Server): void;
  /** The address of the client that the proxy named, else that of the peer; empty where the connection is gone. */
  addressOf(socket: Peer): string;
}

/** "PROXY TCP6" with two addresses and ports, and the end of the line. */
const MAX_HEADER_BYTES = 107;
const LINE_FEED = 0x0a;
/** `UNKNOWN` is what a proxy sends of itself, to see whether we are there. */
const HEADER = /^PROXY (?:UNKNOWN(?: [ -~]*)?|TCP[46] (\S+) \S+ \d{1,5} \d{1,5})\r$/;

export function createProxiedClients({ clock, isProxy, headerMs }: ProxyProtocolParts): ProxiedClients {
  const clients = new Map<string, string>();

  function attach(server: Server): void {
    const readers = server.listeners('connection');
    server.removeAllListeners('connection');
    server.on('connection', (socket: Socket) => {
      function passOn(): void {
        for (const reader of readers) Reflect.apply(reader, server, [socket]);
      }
      if (isProxy(socket.remoteAddress ?? '')) readHeader(socket, passOn);
      else passOn();
    });
  }

  /** Calls `passOn` once the header is read; the socket then begins behind it. */
  function readHeader(socket: Socket, passOn: () => void): void {
    let read: Buffer = Buffer.alloc(0);
    const over = new AbortController();
    socket.on('data', onData).on('error', giveUp).on('end', giveUp).on('close', stop);
    void clock.sleep(headerMs, over.signal).then(() => over.signal.aborted || giveUp());

    function onData(chunk: Buffer): void {
      read = Buffer.concat([read, chunk]);
      const end = read.subarray(0, MAX_HEADER_BYTES).indexOf(LINE_FEED);
      if (end < 0) return void (read.length < MAX_HEADER_BYTES || giveUp());
      const match = HEADER.exec(read.toString('latin1', 0, end));
      const [, client] = match ?? [];
      if (match === null || (client !== undefined && isIP(client) === 0)) return giveUp();
      stop();
      const key = keyOf(socket);
      if (client !== undefined) clients.set(key, client);
      socket.once('close', () => clients.delete(key));
      socket.pause();
      if (end + 1 < read.length) socket.unshift(read.subarray(end + 1));
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

  return { attach, addressOf: (socket) => clients.get(keyOf(socket)) ?? socket.remoteAddress ?? '' };
}

/** What tells a connection of a peer from its others. */
function keyOf({ remoteAddress, remotePort, localPort }: Peer): string {
  return `${remoteAddress} ${remotePort} ${localPort}`;
}
