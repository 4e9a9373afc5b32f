/**
 * smtp-server without its pause of 100 ms before each greeting, which on loopback only makes every delivery of `npm start`
 * and of a test that much slower.
 */
import type { SMTPServerOptions } from 'smtp-server';
import { PromptConnection, Server } from '../smtp/smtp-server.ts';

export class PromptServer extends Server<PromptConnection> {
  constructor(options: SMTPServerOptions) {
    super(options, (socket, details) => new PromptConnection(this, socket, details));
  }

  /** Ends one connection, or all, without a word. */
  cut(session?: { readonly id: string }): void {
    for (const connection of this.connections) {
      if (!(connection instanceof PromptConnection)) continue;
      if (session === undefined || connection.id === session.id) connection.destroy();
    }
  }
}
