/** The parts of the search index on SQLite are merged by a job, in steps of milliseconds, and not by whoever writes: visitors wait for that. */
import { sql, type Kysely } from 'kysely';
import type { Migration } from 'kysely/migration';
import type { Dialect } from '../statement.ts';

/** Ends the automatic merging of FTS5: `mergeSome` (search.ts) does it. At 16 parts of a level it would still begin by itself. */
export function searchMerges(dialect: Dialect): Migration {
  return {
    async up(db: Kysely<unknown>) {
      if (dialect === 'sqlite')
        await sql`insert into submission_index (submission_index, rank) values ('automerge', 0)`.execute(db);
    },
  };
}
