/** Revisions of projects: the YAML and its files as they were accepted, kept because what came in under one is rendered under it. */
import { createHash } from 'node:crypto';
import { newId } from '../lib/ids.ts';
import { define } from './statement.ts';
import type { Store } from './store.ts';
import type { RevisionRow } from './tables.ts';

/** A revision with its files by name. */
export type Revision = Omit<RevisionRow, 'files'> & { readonly files: Readonly<Record<string, string>> };

/** The tenant that owns the projects on the server's disk. */
export const OPERATOR = 'ten_operator';

export interface ProjectSource {
  readonly tenant: string;
  readonly slug: string;
  readonly name: string;
  readonly source: 'file' | 'push';
  /** The file's name as the operator knows it. */
  readonly file: string;
  readonly yaml: string;
  readonly files: Readonly<Record<string, string>>;
}

const insertTenant = define<{ id: string; name: string; email: string; plan: string; created_at: number }>()(
  (db, value) =>
    db
      .insertInto('tenants')
      .values({
        id: value('id'),
        name: value('name'),
        email: value('email'),
        plan: value('plan'),
        requests_per_hour: null,
        suspended: 0,
        confirmed_at: value('created_at'),
        created_at: value('created_at'),
      })
      .onConflict((conflict) => conflict.column('id').doUpdateSet({ email: value('email') })),
);
const insertRevision = define<RevisionRow>()((db, value) =>
  db
    .insertInto('config_revisions')
    .values({
      id: value('id'),
      tenant: value('tenant'),
      slug: value('slug'),
      file: value('file'),
      yaml: value('yaml'),
      files: value('files'),
      hash: value('hash'),
      created_at: value('created_at'),
    })
    // The same content again is the current revision again.
    .onConflict((conflict) =>
      conflict
        .columns(['tenant', 'slug', 'hash'])
        .doUpdateSet({ created_at: value('created_at'), file: value('file') }),
    )
    .returning('id'),
);
const upsertProject = define<{
  id: string;
  tenant: string;
  slug: string;
  name: string;
  source: 'file' | 'push';
  revision: string;
  created_at: number;
}>()((db, value) =>
  db
    .insertInto('projects')
    .values({
      id: value('id'),
      tenant: value('tenant'),
      slug: value('slug'),
      name: value('name'),
      source: value('source'),
      revision: value('revision'),
      created_at: value('created_at'),
    })
    .onConflict((conflict) =>
      conflict
        .columns(['tenant', 'slug'])
        .doUpdateSet({ name: value('name'), source: value('source'), revision: value('revision') }),
    ),
);
const byId = define<{ id: string }>()((db, value) =>
  db.selectFrom('config_revisions').selectAll().where('id', '=', value('id')),
);
const lastOfFile = define<{ tenant: string; file: string }>()((db, value) =>
  db
    .selectFrom('config_revisions')
    .selectAll()
    .where('tenant', '=', value('tenant'))
    .where('file', '=', value('file'))
    .orderBy('created_at', 'desc')
    .limit(1),
);

/** Makes the operator's tenant, or notes that the operator's address changed. */
export async function saveOperator(store: Store, email: string, now: number): Promise<void> {
  await store.write([insertTenant({ id: OPERATOR, name: 'Operator', email, plan: 'enterprise', created_at: now })]);
}

/** Keeps this content as the project's current revision and answers its id. */
export async function saveRevision(store: Store, project: ProjectSource, now: number): Promise<string> {
  const files = JSON.stringify(project.files);
  const hash = createHash('sha256').update(project.yaml).update('\0').update(files).digest('hex');
  const { tenant, slug, name, source, file, yaml } = project;
  const [{ rows }] = await store.write([
    insertRevision({ id: newId('rev', now), tenant, slug, file, yaml, files, hash, created_at: now }),
  ]);
  const revision = rows[0]?.id ?? '';
  await store.write([upsertProject({ id: newId('prj', now), tenant, slug, name, source, revision, created_at: now })]);
  return revision;
}

/** The revision with this id, or undefined. */
export async function findRevision(store: Store, id: string): Promise<Revision | undefined> {
  const [row] = await store.select(byId({ id }));
  return row && withFiles(row);
}

/** The newest revision that was accepted from this file, or undefined. */
export async function lastRevisionOfFile(store: Store, tenant: string, file: string): Promise<Revision | undefined> {
  const [row] = await store.select(lastOfFile({ tenant, file }));
  return row && withFiles(row);
}

function withFiles(row: RevisionRow): Revision {
  return { ...row, files: JSON.parse(row.files) as Record<string, string> };
}
