/** Which claimed deliveries somebody was dialled for, and in which line each destination waits. */
import { sql, type Kysely } from 'kysely';
import type { Migration } from 'kysely/migration';
import type { Dialect } from '../statement.ts';
import { typeName } from './build.ts';

/** Adds `deliveries.begun` and `destinations.line`. */
export function destinations(dialect: Dialect): Migration {
  const integer = typeName('int', dialect);
  return {
    async up(db: Kysely<unknown>) {
      await sql`alter table deliveries add column begun ${integer} not null default 0`.execute(db);
      await sql`alter table destinations add column line text not null default ''`.execute(db);
      // Whose mail failed there is not known any more; the others are taken for proven until they fail.
      await sql`update destinations set line = 'again:' where failures > 0`.execute(db);
      await sql`create index destinations_by_line_next_due_at on destinations (line, next_due_at) where next_due_at is not null and held = 0`.execute(
        db,
      );
    },
  };
}
