/** A database of the release before: its projects are documents in force after the upgrade, whatever made them. */
import { Kysely, PostgresDialect, SqliteDialect } from 'kysely';
import { Migrator } from 'kysely/migration';
import Database from 'better-sqlite3';
import pg from 'pg';
import { expect, onTestFinished, test } from 'vitest';
import { createStore } from '../../src/store/database.ts';
import { migrationsFor } from '../../src/store/migrations/index.ts';
import { storedProjects } from '../../src/store/projects.ts';
import { findRevision } from '../../src/store/revisions.ts';
import { freshDatabase } from '../harness/store.ts';

async function databaseBefore(): Promise<string> {
  const url = await freshDatabase();
  const isFile = url.startsWith('sqlite:');
  const db = new Kysely<Record<string, Record<string, unknown>>>({
    dialect: isFile
      ? new SqliteDialect({ database: new Database(url.slice('sqlite:'.length)) })
      : new PostgresDialect({ pool: new pg.Pool({ connectionString: url }) }),
  });
  const { '0010-projects': _, ...before } = migrationsFor(isFile ? 'sqlite' : 'postgres');
  const { error } = await new Migrator({ db, provider: { getMigrations: async () => before } }).migrateToLatest();
  expect(error).toBeUndefined();
  const account = { plan: 'free', suspended: 0, trusted: 1, confirmed_at: 1, created_at: 1 };
  await db
    .insertInto('tenants')
    .values(['ten_operator', 'ten_a'].map((id) => ({ ...account, id, name: id, email: `${id}@example.org` })))
    .execute();
  const revision = { files: '{}', created_at: 1 };
  await db
    .insertInto('config_revisions')
    .values([
      {
        ...revision,
        id: 'rev_f',
        tenant: 'ten_operator',
        slug: 'file',
        file: 'projects/file.yml',
        yaml: 'f',
        hash: 'f',
      },
      {
        ...revision,
        id: 'rev_g',
        tenant: 'ten_operator',
        slug: 'gone',
        file: 'projects/gone.yml',
        yaml: 'g',
        hash: 'g',
      },
      { ...revision, id: 'rev_p', tenant: 'ten_a', slug: 'push', file: '', yaml: 'p', hash: 'p' },
    ])
    .execute();
  await db
    .insertInto('projects')
    .values([
      {
        id: 'prj_1',
        tenant: 'ten_operator',
        slug: 'file',
        name: 'F',
        source: 'file',
        revision: 'rev_f',
        created_at: 1,
      },
      {
        id: 'prj_2',
        tenant: 'ten_operator',
        slug: 'gone',
        name: 'G',
        source: 'file',
        revision: 'rev_g',
        created_at: 2,
      },
      { id: 'prj_3', tenant: 'ten_a', slug: 'push', name: 'P', source: 'push', revision: 'rev_p', created_at: 3 },
      { id: 'prj_4', tenant: 'ten_a', slug: 'api', name: 'An "A": #1', source: 'api', revision: '', created_at: 4 },
      { id: 'prj_5', tenant: 'ten_a', slug: 'empty', name: 'E', source: 'api', revision: '', created_at: 5 },
    ])
    .execute();
  const domain = { token: 't', status: 'verified', next_check_at: 0 };
  await db
    .insertInto('domains')
    .values([
      { ...domain, name: 'f.example', tenant: 'ten_operator', project: 'file', created_at: 1 },
      // Its file was removed: the domain was released, and the project's row stayed.
      { ...domain, name: 'g.example', tenant: 'ten_operator', project: '', created_at: 1 },
      { ...domain, name: 'b.example', tenant: 'ten_a', project: 'api', created_at: 2 },
      { ...domain, name: 'a.example', tenant: 'ten_a', project: 'api', created_at: 3 },
    ])
    .execute();
  await db.destroy();
  return url;
}

test('projects of files, pushes and the API become documents in force', async () => {
  const store = await createStore(await databaseBefore());
  onTestFinished(() => store.close());
  const projects = await storedProjects(store);
  expect(projects.map(({ slug, source, machine, file }) => [slug, source, machine, file])).toEqual([
    ['file', 'file', '', 'projects/file.yml'],
    ['push', 'push', null, null],
    ['api', 'api', null, null],
    ['empty', 'api', null, null],
  ]);
  const yaml = await Promise.all(projects.map(async ({ revision }) => (await findRevision(store, revision))?.yaml));
  expect(yaml).toEqual([
    'f',
    'p',
    'project:\n  name: "An \\"A\\": #1"\n  slug: "api"\ndomains:\n  "b.example": {}\n  "a.example": {}\n',
    'project:\n  name: "E"\n  slug: "empty"\n',
  ]);
});
