/**
 * Word between the daemons that share a PostgreSQL database, by LISTEN and NOTIFY. It is quick and not certain: a connection
 * that breaks is made again, and what was said meanwhile is lost, so that whoever listens also looks from time to time.
 */
import { randomUUID } from 'node:crypto';
import { once } from 'node:events';
import pg from 'pg';
import { systemClock } from '../lib/clock.ts';
import type { Notices, Topic } from './store.ts';

const CHANNEL = 'postern';
/** Before a connection that broke is made again, ms. */
const PAUSE = 1000;

/** What `notify` says is not heard by the one who said it. */
export function createNotices(url: string, pool: pg.Pool): Notices {
  const self = randomUUID();

  async function notify(topic: Topic): Promise<void> {
    await pool.query('SELECT pg_notify($1, $2)', [CHANNEL, `${self} ${topic}`]);
  }

  function listen(hear: (topic: Topic) => void): () => Promise<void> {
    const stop = new AbortController();
    const listening = keepListening(hear, stop.signal);
    return async () => {
      stop.abort();
      await listening;
    };
  }

  async function keepListening(hear: (topic: Topic) => void, signal: AbortSignal): Promise<void> {
    while (!signal.aborted) {
      const client = new pg.Client({ connectionString: url, keepAlive: true, connectionTimeoutMillis: 10_000 });
      const broken = new AbortController();
      client.on('error', () => broken.abort());
      client.on('end', () => broken.abort());
      client.on('notification', ({ payload = '' }) => {
        const [from, topic] = payload.split(' ');
        if (from !== self && (topic === 'config' || topic === 'queue')) hear(topic);
      });
      try {
        await client.connect();
        await client.query(`LISTEN ${CHANNEL}`);
        await endOf(AbortSignal.any([signal, broken.signal]));
      } catch {
        // The database is away: whoever needs it says so.
      }
      await client.end().catch(() => undefined);
      if (!signal.aborted) await systemClock.sleep(PAUSE, signal);
    }
  }

  return { notify, listen };
}

async function endOf(signal: AbortSignal): Promise<void> {
  if (!signal.aborted) await once(signal, 'abort');
}
