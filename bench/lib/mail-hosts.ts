/** Mail hosts of any number of domains, by wildcards: some take mail, some accept connections and say nothing, some are not found because DNS is silent. */
import { once } from 'node:events';
import { createServer, type AddressInfo, type Socket } from 'node:net';
import type { ZoneRecord } from '../../src/dev/dns-server.ts';

const HEALTHY = '127.2.0.1';
const SILENT = '127.1.0.1';

export interface MailHosts {
  /** The port of all of them. */
  readonly port: number;
  /** `*.healthy.test`, `*.silent.test` and `*.dark.test`: each name is a destination of its own. */
  readonly records: readonly ZoneRecord[];
  /** Connections to those that say nothing. */
  hanging(): number;
  /** Waits for mail to this address; answers when it came, on the monotonic clock. */
  arrival(recipient: string): Promise<number>;
  /** Waits for mail that contains this text; the same answer. */
  arrivalOf(text: string): Promise<number>;
  close(): Promise<void>;
}

export async function startMailHosts(): Promise<MailHosts> {
  const sockets = new Set<Socket>();
  let hanging = 0;
  const arrivals = new Map<string, PromiseWithResolvers<number>>();
  const texts = new Map<string, PromiseWithResolvers<number>>();

  function taken(recipients: readonly string[], message: string): void {
    for (const recipient of recipients) arrivalAt(recipient).resolve(performance.now());
    for (const [text, found] of texts) {
      if (!message.includes(text)) continue;
      found.resolve(performance.now());
      texts.delete(text);
    }
  }

  function arrivalAt(recipient: string): PromiseWithResolvers<number> {
    const known = arrivals.get(recipient) ?? Promise.withResolvers<number>();
    arrivals.set(recipient, known);
    return known;
  }

  const server = createServer((socket) => {
    sockets.add(socket);
    socket.on('error', () => socket.destroy());
    socket.on('close', () => sockets.delete(socket));
    if (socket.localAddress?.endsWith(HEALTHY) === true) take(socket, taken);
    else {
      hanging += 1;
      socket.resume().on('close', () => (hanging -= 1));
    }
  });
  server.listen(0, '0.0.0.0', 4096);
  await once(server, 'listening');
  return {
    port: (server.address() as AddressInfo).port,
    records: [
      { name: '*.healthy.test', type: 'A', value: HEALTHY },
      { name: '*.silent.test', type: 'A', value: SILENT },
      { name: '*.dark.test', fault: 'SILENT' },
    ],
    hanging: () => hanging,
    arrival: (recipient) => arrivalAt(recipient).promise,
    arrivalOf(text) {
      const found = texts.get(text) ?? Promise.withResolvers<number>();
      texts.set(text, found);
      return found.promise;
    },
    async close() {
      server.close();
      for (const socket of sockets) socket.destroy();
      await once(server, 'close');
    },
  };
}

/** A server that takes everything, one command at a time. */
function take(socket: Socket, taken: (recipients: readonly string[], message: string) => void): void {
  let text = '';
  let inData = false;
  let to: string[] = [];
  socket.write('220 mx.healthy.test ESMTP\r\n');
  socket.setEncoding('latin1').on('data', (piece: string) => {
    text += piece;
    for (let end = endOf(); end !== -1; end = endOf()) {
      const line = text.slice(0, end);
      text = text.slice(end + (inData ? 5 : 2));
      answer(line);
    }
  });

  function endOf(): number {
    return text.indexOf(inData ? '\r\n.\r\n' : '\r\n');
  }

  function answer(line: string): void {
    if (inData) {
      taken(to, line);
      to = [];
      inData = false;
      socket.write('250 2.0.0 taken\r\n');
      return;
    }
    const recipient = /^RCPT TO:<([^>]*)>/i.exec(line)?.[1];
    if (recipient !== undefined) to.push(recipient);
    inData = /^DATA$/i.test(line);
    if (/^QUIT$/i.test(line)) socket.end('221 2.0.0 bye\r\n');
    else socket.write(inData ? '354 go on\r\n' : '250 2.0.0 ok\r\n');
  }
}
