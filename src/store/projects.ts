/**
 * Projects: where each lives and which revision is in force. Those on the server's disk have rows for their ids alone;
 * pushed ones and those that the API made live here.
 */
import { createHash } from 'node:crypto';
import { newId } from '../lib/ids.ts';
import { sql } from 'kysely';
import { define, type Statement } from './statement.ts';
import type { Store } from './store.ts';
import type { ProjectRow, RevisionRow } from './tables.ts';

/** A project that lives in the database. */
export interface StoredProjectRow extends Omit<ProjectRow, 'source'> {
  readonly source: 'push' | 'api';
  /** Its tenant's. */
  readonly email: string;
  /** What was added to it, where the API made it. */
  readonly domains: readonly string[];
}

const stored = define<object>()((db) =>
  db
    .selectFrom('projects')
    // The account of a test partition, too.
    .innerJoin('tenants', (join) => join.on('tenants.id', '=', sql<string>`replace(projects.tenant, ':test', '')`))
    .selectAll('projects')
    .select('tenants.email')
    .where('projects.source', 'in', ['push', 'api'])
    .orderBy('projects.created_at')
    .orderBy('projects.id'),
);
const added = define<object>()((db) =>
  db
    .selectFrom('domains')
    .innerJoin('projects', (join) =>
      join.onRef('projects.tenant', '=', 'domains.tenant').onRef('projects.slug', '=', 'domains.project'),
    )
    .select(['domains.tenant', 'domains.project', 'domains.name'])
    .where('projects.source', '=', 'api')
    .orderBy('domains.created_at')
    .orderBy('domains.name'),
);
const bySlug = define<{ tenant: string; slug: string }>()((db, value) =>
  db.selectFrom('projects').selectAll().where('tenant', '=', value('tenant')).where('slug', '=', value('slug')),
);

/** All projects that live in the database, the oldest first. */
export async function storedProjects(store: Store): Promise<StoredProjectRow[]> {
  const rows = await store.select(stored({}));
  const domains = Map.groupBy(await store.select(added({})), ({ tenant, project }) => `${tenant} ${project}`);
  return rows.flatMap(({ source, ...row }) => {
    const names = domains.get(`${row.tenant} ${row.slug}`)?.map(({ name }) => name) ?? [];
    return source === 'file' ? [] : [{ ...row, source, domains: names }];
  });
}

/** The project's row, or undefined. */
export async function findProject(store: Store, tenant: string, slug: string): Promise<ProjectRow | undefined> {
  const [row] = await store.select(bySlug({ tenant, slug }));
  return row;
}

export interface ProjectFilter {
  readonly tenants: readonly string[];
  /** Slugs of the projects on disk: rows of others that lay there once are left out. */
  readonly onDisk: readonly string[];
  /** Only these; all unless told. */
  readonly slugs?: readonly string[] | undefined;
}

/** One page of the tenants' projects, newest first. */
export function listProjects(
  store: Store,
  filter: ProjectFilter,
  { before, limit }: { readonly before: string | undefined; readonly limit: number },
): Promise<ProjectRow[]> {
  const page = filtered(store, filter).selectAll().orderBy('id', 'desc').limit(limit);
  return (before === undefined ? page : page.where('id', '<', before)).execute();
}

/** How many there are. */
export async function countProjects(store: Store, filter: ProjectFilter): Promise<number> {
  const { count } = await filtered(store, filter)
    .select(({ fn }) => fn.countAll<number>().as('count'))
    .executeTakeFirstOrThrow();
  return count;
}

function filtered(store: Store, { tenants, onDisk, slugs }: ProjectFilter) {
  const all = store.read
    .selectFrom('projects')
    .where('tenant', 'in', [...tenants])
    .where((eb) => eb.or([eb('source', '<>', 'file'), eb('slug', 'in', [...onDisk, ''])]));
  return slugs === undefined ? all : all.where('slug', 'in', [...slugs, '']);
}

/** The statement that makes a project without a configuration; touches no row where the slug is taken. */
export const insertApiProject = define<Pick<ProjectRow, 'id' | 'tenant' | 'slug' | 'name' | 'created_at'>>()(
  (db, value) =>
    db
      .insertInto('projects')
      .values({
        id: value('id'),
        tenant: value('tenant'),
        slug: value('slug'),
        name: value('name'),
        source: 'api',
        revision: '',
        created_at: value('created_at'),
      })
      .onConflict((conflict) =>
        conflict
          .columns(['tenant', 'slug'])
          // A file lay there once.
          .doUpdateSet({
            id: value('id'),
            name: value('name'),
            source: 'api',
            revision: '',
            created_at: value('created_at'),
          })
          .where('projects.source', '=', 'file'),
      ),
);

/** The statement that ends a project: one row, or none where it is no longer as it was read. */
export const deleteProject = define<Pick<ProjectRow, 'id' | 'revision'>>()((db, value) =>
  db
    .deleteFrom('projects')
    .where('id', '=', value('id'))
    .where('revision', '=', value('revision'))
    .where('source', '<>', 'file'),
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
    // The same content again is the same revision again.
    .onConflict((conflict) =>
      conflict
        .columns(['tenant', 'slug', 'hash'])
        .doUpdateSet({ created_at: value('created_at'), file: value('file') }),
    )
    .returning('id'),
);

interface InForce {
  readonly id: string;
  readonly tenant: string;
  readonly slug: string;
  readonly name: string;
  readonly source: 'file' | 'push';
  /** Of the revision that is to be in force. */
  readonly hash: string;
  readonly created_at: number;
}

const byHash = define<{ tenant: string; slug: string; hash: string }>()((db, value) =>
  db
    .selectFrom('config_revisions')
    .select('id')
    .where('tenant', '=', value('tenant'))
    .where('slug', '=', value('slug'))
    .where('hash', '=', value('hash')),
);
const insertProject = define<InForce>()((db, value) =>
  db
    .insertInto('projects')
    .values({
      id: value('id'),
      tenant: value('tenant'),
      slug: value('slug'),
      name: value('name'),
      source: value('source'),
      revision: db
        .selectFrom('config_revisions')
        .select('config_revisions.id')
        .where('tenant', '=', value('tenant'))
        .where('slug', '=', value('slug'))
        .where('hash', '=', value('hash')),
      created_at: value('created_at'),
    })
    // What lies, or lay, on disk gives way; what lives here does not.
    .onConflict((conflict) =>
      conflict
        .columns(['tenant', 'slug'])
        .doUpdateSet((eb) => ({
          name: eb.ref('excluded.name'),
          source: eb.ref('excluded.source'),
          revision: eb.ref('excluded.revision'),
        }))
        .where('projects.source', '=', 'file'),
    ),
);
const updateProject = define<Pick<InForce, 'tenant' | 'slug' | 'name' | 'hash'> & { was: string }>()((db, value) =>
  db
    .updateTable('projects')
    .set({
      name: value('name'),
      source: 'push',
      revision: db
        .selectFrom('config_revisions')
        .select('config_revisions.id')
        .where('tenant', '=', value('tenant'))
        .where('slug', '=', value('slug'))
        .where('hash', '=', value('hash')),
    })
    .where('tenant', '=', value('tenant'))
    .where('slug', '=', value('slug'))
    .where('source', '<>', 'file')
    .where('revision', '=', value('was')),
);

/** What is to be in force of a project. */
export interface ProjectSource {
  readonly tenant: string;
  readonly slug: string;
  readonly name: string;
  readonly source: 'file' | 'push';
  /** The file's name as the operator knows it; empty where it was pushed. */
  readonly file: string;
  readonly yaml: string;
  readonly files: Readonly<Record<string, string>>;
}

export interface Replacing {
  /** The revision that is replaced, of a project that lives in the database; undefined where there is none. */
  readonly was: string | undefined;
  /** Of the revision, unless this content has one. */
  readonly id: string;
}

/** The id of the revision of the project that has this content, or undefined. */
export async function revisionWith(store: Store, project: ProjectSource): Promise<string | undefined> {
  const { tenant, slug } = project;
  const [row] = await store.select(byHash({ tenant, slug, hash: contentOf(project).hash }));
  return row?.id;
}

function contentOf({ yaml, files: named }: ProjectSource): { files: string; hash: string } {
  const files = JSON.stringify(named);
  return { files, hash: createHash('sha256').update(yaml).update('\0').update(files).digest('hex') };
}

/**
 * The statements that keep the content and put it in force. Where another revision than `was` is in force by then, the unit
 * fails with UnmetError. The first result has the revision's id.
 */
export function putInForce(
  project: ProjectSource,
  { was, id }: Replacing,
  now: number,
): readonly [Statement<{ id: string }>, Statement] {
  const { tenant, slug, name, source, file, yaml } = project;
  const { files, hash } = contentOf(project);
  const keep = insertRevision({ id, tenant, slug, file, yaml, files, hash, created_at: now });
  if (was !== undefined) return [keep, updateProject({ tenant, slug, name, hash, was }, 1)];
  const made = { id: newId('prj', now), tenant, slug, name, source, hash, created_at: now };
  return [keep, insertProject(made, 1)];
}
