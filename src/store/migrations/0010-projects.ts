/** Every project is a revision in the database: those of files say which file manages them, those of the API get a document. */
import { createHash } from 'node:crypto';
import { sql, type Kysely } from 'kysely';
import type { Migration } from 'kysely/migration';
import { newId } from '../../lib/ids.ts';
import type { Dialect } from '../statement.ts';
import { build, typeName } from './build.ts';

interface OldProject {
  readonly id: string;
  readonly tenant: string;
  readonly slug: string;
  readonly name: string;
  readonly created_at: number | string;
}

/** Adds `projects.machine`, `file`, `file_missing` and the table `project_files`. */
export function projects(dialect: Dialect): Migration {
  const integer = typeName('int', dialect);
  return {
    async up(db: Kysely<unknown>) {
      await sql`alter table projects add column machine text`.execute(db);
      await sql`alter table projects add column file text`.execute(db);
      await sql`alter table projects add column file_missing ${integer} not null default 0`.execute(db);
      await build(db, dialect, {
        tables: { project_files: 'machine text key, file text key, slug text, hash text, loaded_at int' },
        indexes: [],
      });
      // A row of a file that is gone was never removed. Its domains were released.
      await sql`delete from projects where source = 'file' and not exists (
        select 1 from domains where domains.tenant = projects.tenant and domains.project = projects.slug)`.execute(db);
      // Which machine has the file is noted when that machine loads it.
      await sql`update projects set machine = '', file = (
        select config_revisions.file from config_revisions where config_revisions.id = projects.revision)
        where source = 'file'`.execute(db);
      await writeDocuments(db);
    },
  };
}

async function writeDocuments(db: Kysely<unknown>): Promise<void> {
  const { rows } =
    await sql<OldProject>`select id, tenant, slug, name, created_at from projects where source = 'api'`.execute(db);
  for (const { id, tenant, slug, name, created_at } of rows) {
    const domains = await sql<{ name: string }>`select name from domains
      where tenant = ${tenant} and project = ${slug} order by created_at, name`.execute(db);
    const lines = domains.rows.map((domain) => `  ${JSON.stringify(domain.name)}: {}\n`);
    const yaml = `project:\n  name: ${JSON.stringify(name)}\n  slug: ${JSON.stringify(slug)}\n${lines.length === 0 ? '' : `domains:\n${lines.join('')}`}`;
    const hash = createHash('sha256').update(yaml).update('\0').update('{}').digest('hex');
    const at = Number(created_at);
    await sql`insert into config_revisions (id, tenant, slug, file, yaml, files, hash, created_at)
      values (${newId('rev', at)}, ${tenant}, ${slug}, '', ${yaml}, '{}', ${hash}, ${at})
      on conflict (tenant, slug, hash) do nothing`.execute(db);
    await sql`update projects set revision = (
      select config_revisions.id from config_revisions
      where config_revisions.tenant = ${tenant} and config_revisions.slug = ${slug} and config_revisions.hash = ${hash})
      where id = ${id}`.execute(db);
  }
}
