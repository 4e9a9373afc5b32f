/** Tokens of pages that were used, each until it would have expired. */
import type { Kysely } from 'kysely';
import type { Migration } from 'kysely/migration';
import type { Dialect } from '../statement.ts';
import { build } from './build.ts';

/** Creates the table. */
export function usedTokens(dialect: Dialect): Migration {
  return {
    async up(db: Kysely<unknown>) {
      const tables = { used_tokens: 'id text key, expires_at int' };
      await build(db, dialect, { tables, indexes: [['used_tokens', ['expires_at']]] });
    },
  };
}
