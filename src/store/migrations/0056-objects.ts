/** Objects of a bucket that have bytes in place of rows, and what removes them with their rows. */
import { sql, type Kysely } from 'kysely';
import type { Migration } from 'kysely/migration';
import type { Dialect } from '../statement.ts';
import { build, type Indexes, type Tables } from './build.ts';

const TABLES: Tables = { objects: 'id text key, remove_at int null' };
const INDEXES: Indexes = [['objects', ['remove_at'], 'remove_at is not null']];

/** Tables whose rows may have their bytes in an object. */
const CHUNKS = ['file_chunks', 'raw_chunks', 'attachment_chunks', 'message_chunks'];

/** Adds the table `objects`, and to each table of chunks a column that names one. */
export function objects(dialect: Dialect): Migration {
  return {
    async up(db: Kysely<unknown>) {
      await build(db, dialect, { tables: TABLES, indexes: INDEXES });
      const forget = sql`update objects set remove_at = 0 where id = old.object`;
      if (dialect === 'postgres') {
        await sql`create function remove_object() returns trigger language plpgsql as
          $$ begin ${forget}; return null; end $$`.execute(db);
      }
      for (const table of CHUNKS) {
        await sql`alter table ${sql.table(table)} add column object text`.execute(db);
        // However a row goes, with its parent too, its object goes.
        const after = sql`create trigger ${sql.ref(`${table}_object`)} after delete on ${sql.table(table)} for each row`;
        const isNamed = sql`when (old.object is not null)`;
        await (
          dialect === 'postgres'
            ? sql`${after} ${isNamed} execute function remove_object()`
            : sql`${after} ${isNamed} begin ${forget}; end`
        ).execute(db);
      }
    },
  };
}
