/** A TCP proxy of the test's own, in front of a server: it can go silent, swallow what the server says, and hang up. */
import { createConnection, createServer, type AddressInfo, type Socket } from 'node:net';
import { onTestFinished } from 'vitest';

export interface TcpProxy {
  readonly port: number;
  /** New connections go to this port from now on. */
  leadTo(target: number): void;
  /** From now on nothing passes on the connections that there are; new ones work. */
  blackHole(): void;
  /** From now on nothing passes anywhere, and new connections are accepted and left alone. */
  freeze(): void;
  thaw(): void;
  /** Hangs up on new connections at once, as a proxy without a backend does. */
  refuse(refusing: boolean): void;
  /** Hangs up on the connections that there are. */
  hangUp(): void;
  /**
   * Whenever a client sends these bytes: hangs up on both sides. `behind` decides what the server does before: `server
   * has them` waits for its reply, which the client never gets; `server lacks them` passes nothing on.
   */
  cutAt(bytes: string | undefined, behind?: 'server has them' | 'server lacks them'): void;
  /** How often `cutAt` has cut. */
  cuts(): number;
}

interface Pair {
  readonly client: Socket;
  readonly server: Socket;
  isSilent: boolean;
  isCut: boolean;
}

export async function startTcpProxy(firstTarget: number): Promise<TcpProxy> {
  let target = firstTarget;
  const pairs = new Set<Pair>();
  let isFrozen = false;
  let isRefusing = false;
  let cut: { bytes: string; passes: boolean } | undefined;
  let cuts = 0;

  const listener = createServer((client) => {
    client.on('error', () => undefined);
    if (isRefusing) return void client.destroy();
    const server = createConnection(target, '127.0.0.1');
    server.on('error', () => undefined);
    const pair: Pair = { client, server, isSilent: isFrozen, isCut: false };
    pairs.add(pair);
    client.on('data', (data) => {
      if (pair.isSilent || pair.isCut) return;
      if (cut !== undefined && data.includes(cut.bytes)) {
        pair.isCut = true;
        cuts++;
        if (cut.passes) server.write(data);
        else end(pair);
        return;
      }
      server.write(data);
    });
    server.on('data', (data) => {
      if (pair.isCut) end(pair);
      else if (!pair.isSilent) client.write(data);
    });
    client.on('close', () => {
      if (!pair.isSilent) server.destroy();
    });
    server.on('close', () => {
      pairs.delete(pair);
      if (!pair.isSilent) client.destroy();
    });
  });

  function end(pair: Pair): void {
    pairs.delete(pair);
    pair.client.destroy();
    pair.server.destroy();
  }

  await new Promise<void>((resolve) => listener.listen(0, '127.0.0.1', resolve));
  onTestFinished(() => {
    for (const pair of pairs) end(pair);
    listener.close();
  });
  function silence(): void {
    for (const pair of pairs) pair.isSilent = true;
  }
  const { port } = listener.address() as AddressInfo;
  return {
    port,
    leadTo(next) {
      target = next;
    },
    blackHole: silence,
    freeze() {
      isFrozen = true;
      silence();
    },
    thaw() {
      isFrozen = false;
    },
    refuse(refusing) {
      isRefusing = refusing;
    },
    hangUp() {
      for (const pair of pairs) end(pair);
    },
    cutAt(bytes, behind = 'server has them') {
      cut = bytes === undefined ? undefined : { bytes, passes: behind === 'server has them' };
    },
    cuts: () => cuts,
  };
}
