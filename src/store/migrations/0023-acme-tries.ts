/** For ACME: the name that a challenge is about, and until when an authority wants no order of a certificate. */
import { sql, type Kysely } from 'kysely';
import type { Migration } from 'kysely/migration';
import type { Dialect } from '../statement.ts';
import { typeName } from './build.ts';

/** Adds `acme_challenges.name` and `certificates.not_before`. */
export function acmeTries(dialect: Dialect): Migration {
  const integer = typeName('int', dialect);
  return {
    async up(db: Kysely<unknown>) {
      await sql`alter table acme_challenges add column name text not null default ''`.execute(db);
      await sql`alter table certificates add column not_before ${integer} not null default 0`.execute(db);
    },
  };
}
