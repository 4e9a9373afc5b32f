/**
 * A client that goes on without the daemon: where it does not run on this machine, the server's own code answers what only
 * reads, from the database. That code loads native modules, so that it is loaded then alone.
 */
import type { AnswerOffline } from '../contract/offline.ts';
import { type Call, type Client, DaemonUnreachable, queryOf, readAnswer, RequestRefused } from './client.ts';

export interface OfflineOptions {
  /** server.yml */
  readonly file: string;
  readonly answer: AnswerOffline;
  /** Told where the database answered in place of the daemon, and the answer does not say so itself. */
  readonly onOffline: (source: string) => void;
}

/** The client of a daemon that may be down. */
export function offlineClient(client: Client, { file, answer, onOffline }: OfflineOptions): Client {
  async function ask<Path extends string, Answer>(call: Call<Path, Answer>) {
    try {
      return await client.ask(call);
    } catch (error) {
      if (!(error instanceof DaemonUnreachable && error.isDown)) throw error;
      const { route, params = {} } = call;
      const answered = await answer(file, {
        route: `${route.method} ${route.path}`,
        params,
        query: queryOf(route.query, call.query),
      });
      if (answered.kind === 'refused') {
        const { code, status, message } = answered;
        throw new RequestRefused(message, { code, status, details: [], requestId: undefined, retryAfter: undefined });
      }
      if (answered.source !== undefined) onOffline(answered.source);
      const { data } = answered;
      return { data, headers: {}, read: () => readAnswer(route.answer, data, client.address) };
    }
  }

  return { ...client, ask, call: async (call) => (await ask(call)).read() };
}
