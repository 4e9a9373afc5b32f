/** What projects have taught the spam filter. */
import { sql, type Kysely } from 'kysely';
import type { Migration } from 'kysely/migration';
import type { Dialect } from '../statement.ts';
import { build } from './build.ts';

/** Adds the table `spam_learned`, and `submissions.learned`. */
export function spamLearned(dialect: Dialect): Migration {
  return {
    async up(db: Kysely<unknown>) {
      await sql`alter table submissions add column learned text`.execute(db);
      await build(db, dialect, {
        tables: {
          spam_learned: 'tenant text key, project text key, weights bytes, decisions int, updated_at int',
        },
        indexes: [],
        large: new Set(['spam_learned']),
      });
    },
  };
}
