/** Which uploaded files the virus scanner did not answer for. */
import { sql, type Kysely } from 'kysely';
import type { Migration } from 'kysely/migration';
import type { Dialect } from '../statement.ts';
import { typeName } from './build.ts';

/** Adds `submission_files.unscanned`. */
export function unscannedFiles(dialect: Dialect): Migration {
  const integer = typeName('int', dialect);
  return {
    async up(db: Kysely<unknown>) {
      await sql`alter table submission_files add column unscanned ${integer} not null default 0`.execute(db);
    },
  };
}
