/** Who deployed a revision, and how large it is. */
import { sql, type Kysely } from 'kysely';
import type { Migration } from 'kysely/migration';
import { typeName } from './build.ts';
import type { Dialect } from '../statement.ts';

/** Adds `config_revisions.author` and `size`; nothing is known of who deployed those that are there. */
export function revisionAuthor(dialect: Dialect): Migration {
  return {
    async up(db: Kysely<unknown>) {
      await sql`alter table config_revisions add column author ${typeName('text', dialect)}`.execute(db);
      await sql`alter table config_revisions add column size ${typeName('int', dialect)}`.execute(db);
    },
  };
}
