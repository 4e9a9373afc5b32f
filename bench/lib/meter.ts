/** What messages cost a daemon and its PostgreSQL, measured around something that sends so many of them. */
import type pg from 'pg';
import type { Postgres } from '../../test/harness/postgres.ts';
import type { Daemon } from './postern.ts';
import { familySeconds, processorSeconds, threadSeconds } from './processor.ts';

const PAGE_BYTES = 8192;
/** Smaller tables are left out of VACUUM's cost, bytes. */
const MIN_TABLE_BYTES = 256 * 1024;

interface Usage {
  /** Of the processor, per message: the main thread, the busiest of the others, all threads, and all processes of PostgreSQL. */
  readonly main_us: number;
  readonly thread_us: number;
  readonly all_us: number;
  readonly database_us: number;
  /** With the images of pages that are changed for the first time since a checkpoint, which was just before. */
  readonly wal_bytes: number;
  readonly transactions: number;
}

/** What is used meanwhile, for each message. */
export class Meter {
  readonly #daemon: Daemon;
  readonly #client: pg.Client;
  readonly #postgres: Postgres;

  constructor(daemon: Daemon, client: pg.Client, postgres: Postgres) {
    this.#daemon = daemon;
    this.#client = client;
    this.#postgres = postgres;
  }

  async during(messages: number, work: () => Promise<unknown>, pid = this.#daemon.pid): Promise<Usage> {
    await this.#client.query('checkpoint');
    const before = await this.#read(pid);
    await work();
    const after = await this.#read(pid);
    const threads = [...after.threads].map(([id, used]) => used - (before.threads.get(id) ?? 0));
    const main = (after.threads.get(pid) ?? 0) - (before.threads.get(pid) ?? 0);
    const others = [...after.threads].map(([id, used]) => (id === pid ? 0 : used - (before.threads.get(id) ?? 0)));
    const each = 1 / messages;
    return {
      main_us: main * 1e6 * each,
      thread_us: Math.max(...others) * 1e6 * each,
      all_us: threads.reduce((sum, used) => sum + used, 0) * 1e6 * each,
      database_us: (after.database - before.database) * 1e6 * each,
      wal_bytes: (after.wal - before.wal) * each,
      transactions: (after.transactions - before.transactions) * each,
    };
  }

  /** Of VACUUM, for each page of the tables and their indexes. */
  async vacuum() {
    const { rows } = await this.#client.query<{ tables: string; pages: number; backend: number }>(
      `select string_agg(relname, ', ') as tables, (sum(pg_total_relation_size(oid)) / ${PAGE_BYTES})::int as pages,
        pg_backend_pid() as backend
        from pg_class where relkind = 'r' and relnamespace = 'public'::regnamespace
          and pg_relation_size(oid) > ${MIN_TABLE_BYTES}`,
    );
    const { tables = '', pages = 0, backend = 0 } = rows[0] ?? {};
    await this.#client.query('checkpoint');
    const { wal } = await this.#read(process.pid);
    const before = processorSeconds(backend);
    await this.#client.query(`vacuum ${tables}`);
    const used = processorSeconds(backend) - before;
    const after = await this.#read(process.pid);
    return { page_us: (used * 1e6) / pages, page_wal_bytes: (after.wal - wal) / pages };
  }

  async #read(pid: number) {
    const { rows } = await this.#client.query<{ wal: string; transactions: string }>(
      `select pg_current_wal_insert_lsn() - '0/0' as wal, pg_snapshot_xmax(pg_current_snapshot())::text as transactions`,
    );
    const { wal = '', transactions = '' } = rows[0] ?? {};
    return {
      wal: Number(wal),
      transactions: Number(transactions),
      threads: threadSeconds(pid),
      database: familySeconds(this.#postgres.pid),
    };
  }
}
