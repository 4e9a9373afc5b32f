/** What projects have taught the spam filter. */
import type { Kysely } from 'kysely';
import type { Migration } from 'kysely/migration';
import type { Dialect } from '../statement.ts';
import { build } from './build.ts';

/** Adds the table `spam_learned`. */
export function spamLearned(dialect: Dialect): Migration {
  return {
    async up(db: Kysely<unknown>) {
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
