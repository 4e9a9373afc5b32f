/**
 * smtp-server without its pause: it waits 100 ms before each greeting to catch clients that talk too soon, which on
 * loopback only makes every delivery of the dev world and of a test that much slower.
 */
import type { Socket } from 'node:net';
import { SMTPServer } from 'smtp-server';
import { SMTPConnection, type SMTPConnectionOptions } from 'smtp-server/lib/smtp-connection.js';

export class PromptServer extends SMTPServer {
  override connect(socket: Socket, options?: SMTPConnectionOptions | null): void {
    const connection = new PromptConnection(this, socket, options);
    this.connections.add(connection);
    connection.on('error', (error: Error) => this._onError(error));
    connection.init();
  }

  /** Ends one connection, or all, without a word. */
  cut(session?: { readonly id: string }): void {
    for (const connection of this.connections) {
      if (session === undefined || connection.id === session.id) connection._socket.destroy();
    }
  }
}

class PromptConnection extends SMTPConnection {
  override init(): void {
    this._setListeners(() => {
      const { maxClients = Infinity } = this._server.options;
      if (this._server.connections.size > maxClients) this.send(421, '4.3.2 Too many connections', false);
      else this.connectionReady();
    });
  }
}
