/**
 * Word between the daemons that share a PostgreSQL database, by LISTEN and NOTIFY. It is quick and not certain: a connection
 * that breaks is made again, and what was said meanwhile is lost, so that whoever listens also looks from time to time.
 */
import { randomUUID } from 'node:crypto';
import { once } from 'node:events';
import type pg from 'pg';
import { systemClock } from '../lib/clock.ts';
import { connectClient } from './postgres-connection.ts';
import type { Listener, Notices, Topic } from './store.ts';

const CHANNEL = 'postern';
/** Before a connection that broke is made again, ms. */
const PAUSE_MS = 1000;
/** So often the server is asked whether it is there: nobody else notices that it says nothing any more. */
const HEARTBEAT_MS = 3000;

/** What `notify` says is not heard by the one who said it. */
export function createNotices(url: string, pool: pg.Pool): Notices {
  const self = randomUUID();

  async function notify(topic: Topic): Promise<void> {
    await pool.query('SELECT pg_notify($1, $2)', [CHANNEL, `${self} ${topic}`]);
  }

  function listen(listener: Listener): () => Promise<void> {
    const stop = new AbortController();
    const listening = keepListening(listener, stop.signal);
    return async () => {
      stop.abort();
      await listening;
    };
  }

  async function keepListening(listener: Listener, signal: AbortSignal): Promise<void> {
    let isLost = false;
    while (!signal.aborted) {
      try {
        await listenOnce(listener, signal);
      } catch (error) {
        if (!isLost && !signal.aborted) listener.onLost(error);
        isLost = true;
      }
      if (!signal.aborted) await systemClock.sleep(PAUSE_MS, signal);
    }

    /** Rejects when the connection breaks; resolves when nobody listens any more. */
    async function listenOnce({ hear, onConnected }: Listener, ending: AbortSignal): Promise<void> {
      const client = await connectClient(url);
      const broken = once(client, 'end').then(() => {
        throw new Error('the connection was cut');
      });
      client.on('notification', ({ payload = '' }) => {
        const [from, topic] = payload.split(' ');
        if (from !== self && (topic === 'config' || topic === 'queue')) hear(topic);
      });
      try {
        await Promise.race([client.query(`LISTEN ${CHANNEL}`), broken]);
        isLost = false;
        onConnected();
        while (!ending.aborted) {
          await Promise.race([systemClock.sleep(HEARTBEAT_MS, ending), broken]);
          if (!ending.aborted) await Promise.race([client.query('SELECT 1'), broken]);
        }
      } finally {
        broken.catch(() => undefined);
        await client.end().catch(() => undefined);
      }
    }
  }

  return { notify, listen };
}
