/**
 * Fair shares of connections: where there are too many, the client that holds most of them loses its oldest. A flood from
 * one network thereby costs others nothing, however slowly it speaks.
 */
import type { Socket } from 'node:net';
import { clientBucket } from '../access/limits.ts';

export class Connections {
  readonly #most: number;
  readonly #byClient = new Map<string, Set<Socket>>();
  #count = 0;

  constructor(most: number) {
    this.#most = most;
  }

  get count(): number {
    return this.#count;
  }

  add(socket: Socket): void {
    const client = clientBucket(socket.remoteAddress ?? '');
    const sockets = this.#byClient.get(client) ?? new Set();
    this.#byClient.set(client, sockets.add(socket));
    this.#count++;
    socket.once('close', () => {
      this.#count--;
      sockets.delete(socket);
      if (sockets.size === 0 && this.#byClient.get(client) === sockets) this.#byClient.delete(client);
    });
    if (this.#count > this.#most) this.#dropOne();
  }

  /** Hangs up on all. */
  destroy(): void {
    for (const sockets of this.#byClient.values()) for (const socket of sockets) socket.destroy();
  }

  #dropOne(): void {
    let largest = new Set<Socket>();
    for (const sockets of this.#byClient.values()) if (sockets.size > largest.size) largest = sockets;
    const [oldest] = largest;
    oldest?.destroy();
  }
}
