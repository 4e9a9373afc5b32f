/** A TCP proxy to a server on this machine that delays every answer: the network between a daemon and its database. */
import { once } from 'node:events';
import { createConnection, createServer, type AddressInfo, type Socket } from 'node:net';

export interface SlowLine {
  readonly port: number;
  close(): Promise<void>;
}

/** Answers come `delay` ms (1 or more) later than they would. */
export async function startSlowLine(target: number, delay: number): Promise<SlowLine> {
  const sockets = new Set<Socket>();
  const listener = createServer({ noDelay: true, allowHalfOpen: true }, (client) => {
    const server = createConnection({ port: target, host: '127.0.0.1', noDelay: true, allowHalfOpen: true });
    for (const [one, other] of [[client, server] as const, [server, client] as const]) {
      // Timers of the same length keep their order: what was sent before the end arrives before it.
      const after = one === server ? (work: () => void) => void setTimeout(work, delay) : (work: () => void) => work();
      sockets.add(one);
      one.on('data', (data) => after(() => other.write(data)));
      one.on('end', () => after(() => other.end()));
      one.on('error', () => after(() => other.destroy()));
      one.on('close', () => sockets.delete(one));
    }
  });
  listener.listen(0, '127.0.0.1');
  await once(listener, 'listening');
  return {
    port: (listener.address() as AddressInfo).port,
    async close() {
      for (const socket of sockets) socket.destroy();
      listener.close();
      await once(listener, 'close');
    },
  };
}
