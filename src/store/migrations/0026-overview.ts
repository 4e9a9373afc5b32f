/** What the overview and the operator's queue look for among much that is in order: indexes that only trouble writes to. */
import type { Kysely } from 'kysely';
import type { Migration } from 'kysely/migration';
import type { Dialect } from '../statement.ts';
import { build, type Indexes } from './build.ts';

const INDEXES: Indexes = [
  ['domains', ['status', 'name'], "status <> 'verified'"],
  ['destinations', ['failures', 'name'], 'failures > 0'],
  ['destinations', ['held', 'name'], 'held = 1'],
];

/** Creates the indexes. */
export function overview(dialect: Dialect): Migration {
  return {
    async up(db: Kysely<unknown>) {
      await build(db, dialect, { tables: {}, indexes: INDEXES });
    },
  };
}
