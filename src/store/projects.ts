/** Projects, their revision in force, and which file of which machine manages them. */
import { createHash } from 'node:crypto';
import { sql } from 'kysely';
import { newId } from '../lib/ids.ts';
import { define, type Statement } from './statement.ts';
import type { Store } from './store.ts';
import type { ProjectFileRow, ProjectRow, RevisionRow } from './tables.ts';

/** A project with the address of its tenant. */
export type StoredProjectRow = ProjectRow & { readonly email: string };

const stored = define<object>()((db) =>
  db
    .selectFrom('projects')
    // The account of a test partition, too.
    .innerJoin('tenants', (join) => join.on('tenants.id', '=', sql<string>`replace(projects.tenant, ':test', '')`))
    .selectAll('projects')
    .select('tenants.email')
    .orderBy('projects.created_at')
    .orderBy('projects.id'),
);
const bySlug = define<{ tenant: string; slug: string }>()((db, value) =>
  db.selectFrom('projects').selectAll().where('tenant', '=', value('tenant')).where('slug', '=', value('slug')),
);

/** All projects, the oldest first. */
export function storedProjects(store: Store): Promise<StoredProjectRow[]> {
  return store.select(stored({}));
}

/** The project's row, or undefined. */
export async function findProject(store: Store, tenant: string, slug: string): Promise<ProjectRow | undefined> {
  const [row] = await store.select(bySlug({ tenant, slug }));
  return row;
}

export interface ProjectFilter {
  readonly tenants: readonly string[];
  /** Only these; by default all. */
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

function filtered(store: Store, { tenants, slugs }: ProjectFilter) {
  const all = store.read.selectFrom('projects').where('tenant', 'in', [...tenants]);
  return slugs === undefined ? all : all.where('slug', 'in', [...slugs, '']);
}

/** The statement that deletes a project: one row, or none where it is no longer as it was read. */
export const deleteProject = define<Pick<ProjectRow, 'id' | 'revision' | 'file_missing'>>()((db, value) =>
  db
    .deleteFrom('projects')
    .where('id', '=', value('id'))
    .where('revision', '=', value('revision'))
    .where('file_missing', '=', value('file_missing')),
);

/** The statement that forgets what machines loaded for a project: a file that is still there, or comes back, deploys it again. */
export const forgetProjectFiles = define<{ slug: string }>()((db, value) =>
  db.deleteFrom('project_files').where('slug', '=', value('slug')),
);

/** The statement that notes what a machine loaded from a file. */
export const insertProjectFile = define<ProjectFileRow>()((db, value) =>
  db
    .insertInto('project_files')
    .values({
      machine: value('machine'),
      file: value('file'),
      slug: value('slug'),
      hash: value('hash'),
      loaded_at: value('loaded_at'),
    })
    .onConflict((conflict) =>
      conflict
        .columns(['machine', 'file'])
        .doUpdateSet({ slug: value('slug'), hash: value('hash'), loaded_at: value('loaded_at') }),
    ),
);

/** The statement that notes whether the file of a project is there. */
export const setFileMissing = define<Pick<ProjectRow, 'tenant' | 'slug' | 'file_missing'>>()((db, value) =>
  db
    .updateTable('projects')
    .set({ file_missing: value('file_missing') })
    .where('tenant', '=', value('tenant'))
    .where('slug', '=', value('slug'))
    .where('source', '=', 'file'),
);

const loaded = define<{ machine: string }>()((db, value) =>
  db.selectFrom('project_files').selectAll().where('machine', '=', value('machine')),
);

/** What this machine loaded last from each of its files. */
export function loadedFiles(store: Store, machine: string): Promise<ProjectFileRow[]> {
  return store.select(loaded({ machine }));
}

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

interface InForce extends Omit<ProjectRow, 'revision' | 'file_missing'> {
  /** Of the revision that is to be in force. */
  readonly hash: string;
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
      machine: value('machine'),
      file: value('file'),
      file_missing: 0,
      revision: db
        .selectFrom('config_revisions')
        .select('config_revisions.id')
        .where('tenant', '=', value('tenant'))
        .where('slug', '=', value('slug'))
        .where('hash', '=', value('hash')),
      created_at: value('created_at'),
    })
    .onConflict((conflict) => conflict.columns(['tenant', 'slug']).doNothing()),
);
/** A push does not replace what a file manages: `unless` is `file` then. */
const updateProject = define<Omit<InForce, 'id' | 'created_at'> & { was: string; unless: ProjectRow['source'] | '' }>()(
  (db, value) =>
    db
      .updateTable('projects')
      .set({
        name: value('name'),
        source: value('source'),
        machine: value('machine'),
        file: value('file'),
        file_missing: 0,
        revision: db
          .selectFrom('config_revisions')
          .select('config_revisions.id')
          .where('tenant', '=', value('tenant'))
          .where('slug', '=', value('slug'))
          .where('hash', '=', value('hash')),
      })
      .where('tenant', '=', value('tenant'))
      .where('slug', '=', value('slug'))
      .where('revision', '=', value('was'))
      .where('source', '<>', sql<ProjectRow['source']>`${value('unless')}`),
);

/** A document that is to be in force of a project. */
export interface ProjectSource extends Pick<ProjectRow, 'tenant' | 'slug' | 'name' | 'source' | 'machine' | 'file'> {
  readonly yaml: string;
  readonly files: Readonly<Record<string, string>>;
}

export interface Replacing {
  /** The revision that is replaced; undefined for a new project. */
  readonly was: string | undefined;
  /** Of the revision, unless this content has one. */
  readonly id: string;
}

/** The id of the revision of the project that has this content, or undefined. */
export async function revisionWith(store: Store, project: ProjectSource): Promise<string | undefined> {
  const { tenant, slug } = project;
  const [row] = await store.select(byHash({ tenant, slug, hash: hashOf(project) }));
  return row?.id;
}

/** What tells one content of a project from another. */
export function hashOf({ yaml, files }: Pick<ProjectSource, 'yaml' | 'files'>): string {
  return createHash('sha256').update(yaml).update('\0').update(JSON.stringify(files)).digest('hex');
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
  const { tenant, slug, name, source, machine, file, yaml } = project;
  const hash = hashOf(project);
  const files = JSON.stringify(project.files);
  const keep = insertRevision({ id, tenant, slug, file: file ?? '', yaml, files, hash, created_at: now });
  const next = { tenant, slug, name, source, machine, file, hash };
  if (was === undefined) return [keep, insertProject({ ...next, id: newId('prj', now), created_at: now }, 1)];
  return [keep, updateProject({ ...next, was, unless: source === 'file' ? '' : 'file' }, 1)];
}

// Revisions of projects: the YAML and its files as they were accepted, kept because what came in under one is rendered under it.

/** A revision with its files by name. */
export type Revision = Omit<RevisionRow, 'files'> & { readonly files: Readonly<Record<string, string>> };

/** The operator's tenant, which owns the projects of files. */
export const OPERATOR = 'ten_operator';

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
        trusted: 1,
        confirmed_at: value('created_at'),
        created_at: value('created_at'),
      })
      .onConflict((conflict) => conflict.column('id').doUpdateSet({ email: value('email') })),
);
const byId = define<{ id: string }>()((db, value) =>
  db.selectFrom('config_revisions').selectAll().where('id', '=', value('id')),
);

const ofProject = define<{ tenant: string; slug: string }>()((db, value) =>
  db
    .selectFrom('config_revisions')
    .select(['id', 'created_at'])
    .where('tenant', '=', value('tenant'))
    .where('slug', '=', value('slug'))
    .orderBy('created_at', 'desc')
    .orderBy('id', 'desc')
    .limit(100),
);

/** Makes the operator's tenant, or notes that the operator's address changed. */
export async function saveOperator(store: Store, email: string, now: number): Promise<void> {
  await store.write([insertTenant({ id: OPERATOR, name: 'Operator', email, plan: 'enterprise', created_at: now })]);
}

/** The revision with this id, or undefined. */
export async function findRevision(store: Store, id: string): Promise<Revision | undefined> {
  const [row] = await store.select(byId({ id }));
  return row && withFiles(row);
}

/** The revision of this project with this id, or undefined. */
export async function findRevisionOf(
  store: Store,
  { tenant, slug }: { readonly tenant: string; readonly slug: string },
  id: string,
): Promise<Revision | undefined> {
  const revision = await findRevision(store, id);
  return revision?.tenant === tenant && revision.slug === slug ? revision : undefined;
}

/** Up to 100 revisions of a project, the latest accepted first. */
export function revisionsOf(
  store: Store,
  { tenant, slug }: { readonly tenant: string; readonly slug: string },
): Promise<Pick<RevisionRow, 'id' | 'created_at'>[]> {
  return store.select(ofProject({ tenant, slug }));
}

function withFiles(row: RevisionRow): Revision {
  return { ...row, files: JSON.parse(row.files) as Record<string, string> };
}
