/** Projects, their active revision, and which file of which machine manages them. */
import { createHash } from 'node:crypto';
import { sql } from 'kysely';
import { newId } from '../lib/ids.ts';
import {
  countOf,
  deleteFrom,
  finder,
  insertInto,
  lister,
  newestFirst,
  query,
  reader,
  update,
  type Placeholders,
  type Statement,
} from './statement.ts';
import type { Store } from './store.ts';
import type { ProjectRow, RevisionRow } from './tables.ts';

/** A project with the address of its tenant. */
export type StoredProjectRow = ProjectRow & { readonly email: string };

// The account of a test partition, too.
/** All projects, the oldest first. */
export const storedProjects = reader(
  () => sql<StoredProjectRow>`select projects.*, tenants.email
    from projects join tenants on tenants.id = replace(projects.tenant, ':test', '')
    order by projects.created_at, projects.id`,
);

/** The project's row, or undefined. */
export const findProject = finder('projects', 'tenant', 'slug');

export interface ProjectFilter {
  readonly tenants: readonly string[];
  /** Only these; by default all. */
  readonly slugs?: readonly string[] | undefined;
}

/** One page of the tenants' projects, newest first. */
export function listProjects(
  store: Store,
  filter: ProjectFilter,
  page: { readonly before: string | undefined; readonly limit: number },
): Promise<ProjectRow[]> {
  return newestFirst(filtered(store, filter).selectAll(), page);
}

/** How many there are. */
export function countProjects(store: Store, filter: ProjectFilter): Promise<number> {
  return countOf(filtered(store, filter));
}

function filtered(store: Store, { tenants, slugs }: ProjectFilter) {
  const all = store.read.selectFrom('projects').where('tenant', 'in', [...tenants]);
  return slugs === undefined ? all : all.where('slug', 'in', [...slugs, '']);
}

/** The statement that deletes a project: one row, or none where it is no longer as it was read. */
export const deleteProject = deleteFrom('projects', 'id', 'revision', 'file_missing');

/** The statement that forgets what machines loaded for a project: a file that is still there, or comes back, deploys it again. */
export const forgetProjectFiles = deleteFrom('project_files', 'slug');

/** The statement that notes what a machine loaded from a file. */
export const insertProjectFile = insertInto(
  'project_files',
  sql`on conflict (machine, file) do update
    set slug = excluded.slug, hash = excluded.hash, loaded_at = excluded.loaded_at`,
);

/** The statement that notes whether the file of a project is there. */
export const setFileMissing = update('projects', ['file_missing'], ['tenant', 'slug', sql`source = 'file'`]);

/** What this machine loaded last from each of its files. */
export const loadedFiles = lister('project_files', ['machine']);

// The same content again is the same revision again.
const insertRevision = query<RevisionRow, { id: string }>(
  (value) => sql`insert into config_revisions (id, tenant, slug, file, yaml, files, hash, created_at, author, size)
    values (${value('id')}, ${value('tenant')}, ${value('slug')}, ${value('file')}, ${value('yaml')}, ${value('files')},
      ${value('hash')}, ${value('created_at')}, ${value('author')}, ${value('size')})
    on conflict (tenant, slug, hash) do update set created_at = excluded.created_at, file = excluded.file,
      author = excluded.author, size = excluded.size
    returning id`,
);

type Content = Pick<RevisionRow, 'tenant' | 'slug' | 'hash'>;

interface ActiveProjects extends Omit<ProjectRow, 'revision' | 'file_missing'>, Content {}

function withContent(value: Placeholders<Content>) {
  return sql<{ id: string }>`select id from config_revisions
    where tenant = ${value('tenant')} and slug = ${value('slug')} and hash = ${value('hash')}`;
}

const byContent = query<Content, { id: string }>(withContent);
const insertProject = query<ActiveProjects>(
  (
    value,
  ) => sql`insert into projects (id, tenant, slug, name, source, machine, file, file_missing, revision, created_at)
    values (${value('id')}, ${value('tenant')}, ${value('slug')}, ${value('name')}, ${value('source')},
      ${value('machine')}, ${value('file')}, 0, (${withContent(value)}), ${value('created_at')})
    on conflict (tenant, slug) do nothing`,
);
/** A push does not replace what a file manages: `unless` is `file` then. */
const updateProject = query<
  Omit<ActiveProjects, 'id' | 'created_at'> & { was: string; unless: ProjectRow['source'] | '' }
>(
  (value) => sql`update projects set name = ${value('name')}, source = ${value('source')},
      machine = ${value('machine')}, file = ${value('file')}, file_missing = 0, revision = (${withContent(value)})
    where tenant = ${value('tenant')} and slug = ${value('slug')} and revision = ${value('was')}
      and source <> ${value('unless')}`,
);

/** A document that is to become active. */
export interface ProjectSource extends Pick<ProjectRow, 'tenant' | 'slug' | 'name' | 'source' | 'machine' | 'file'> {
  readonly yaml: string;
  readonly files: Readonly<Record<string, string>>;
}

export interface Replacing {
  /** The revision that is replaced; undefined for a new project. */
  readonly was: string | undefined;
  /** Of the revision, unless this content has one. */
  readonly id: string;
  /** JSON: who deploys it. */
  readonly author?: string | undefined;
}

/** The id of the revision of the project that has this content, or undefined. */
export async function revisionWith(store: Store, project: ProjectSource): Promise<string | undefined> {
  const { tenant, slug } = project;
  return (await store.select(byContent({ tenant, slug, hash: hashOf(project) })))[0]?.id;
}

/** What tells one content of a project from another. */
export function hashOf({ yaml, files }: Pick<ProjectSource, 'yaml' | 'files'>): string {
  return createHash('sha256').update(yaml).update('\0').update(JSON.stringify(files)).digest('hex');
}

/**
 * The statements that keep the content and make it active. Where another revision than `was` is active by then, the unit
 * fails with UnmetError. The first result has the revision's id.
 */
export function putInForce(
  project: ProjectSource,
  { was, id, author }: Replacing,
  now: number,
): readonly [Statement<{ id: string }>, Statement] {
  const { tenant, slug, name, source, machine, file, yaml } = project;
  const hash = hashOf(project);
  const files = JSON.stringify(project.files);
  const keep = insertRevision({
    id,
    tenant,
    slug,
    file: file ?? '',
    yaml,
    files,
    hash,
    created_at: now,
    author: author ?? null,
    size: sizeOf(project),
  });
  const next = { tenant, slug, name, source, machine, file, hash };
  if (was === undefined) return [keep, insertProject({ ...next, id: newId('prj', now), created_at: now }, 1)];
  return [keep, updateProject({ ...next, was, unless: source === 'file' ? '' : 'file' }, 1)];
}

function sizeOf({ yaml, files }: Pick<ProjectSource, 'yaml' | 'files'>): number {
  return Object.values(files).reduce((sum, text) => sum + Buffer.byteLength(text), Buffer.byteLength(yaml));
}

/** A revision with its files by name. */
export type Revision = Omit<RevisionRow, 'files'> & { readonly files: Readonly<Record<string, string>> };

const revisionById = finder('config_revisions', 'id');

/** The revision with this id, or undefined; kept because what came in under it is rendered under it. */
export async function findRevision(store: Store, id: string): Promise<Revision | undefined> {
  const row = await revisionById(store, id);
  return row && { ...row, files: JSON.parse(row.files) as Record<string, string> };
}

/** The revision of this project with this id, or undefined. */
export async function findRevisionOf(
  store: Store,
  { tenant, slug }: { readonly tenant: string; readonly slug: string },
  id: string,
): Promise<Revision | undefined> {
  const found = await findRevision(store, id);
  return found?.tenant === tenant && found.slug === slug ? found : undefined;
}

/** Up to 100 revisions of a project, the latest accepted first. */
export const revisionsOf = reader(
  (tenant: string, slug: string) => sql<Pick<RevisionRow, 'id' | 'created_at'>>`
    select id, created_at from config_revisions
    where tenant = ${tenant} and slug = ${slug} order by created_at desc, id desc limit 100`,
);

export type ListedRevision = Pick<RevisionRow, 'id' | 'created_at' | 'author' | 'size'>;

const listed = query<{ tenant: string; slug: string; at: number; id: string; limit: number }, ListedRevision>(
  (value) => sql`select id, created_at, author, size from config_revisions
    where tenant = ${value('tenant')} and slug = ${value('slug')} and created_at <= ${value('at')}
      and (created_at < ${value('at')} or id < ${value('id')})
    order by created_at desc, id desc limit ${value('limit')}`,
);

/** One page of the revisions of a project, the latest accepted first, behind this one. */
export function listRevisions(
  store: Store,
  { tenant, slug }: Pick<RevisionRow, 'tenant' | 'slug'>,
  { behind, limit }: { readonly behind: Pick<RevisionRow, 'id' | 'created_at'> | undefined; readonly limit: number },
): Promise<ListedRevision[]> {
  const { created_at: at, id } = behind ?? { created_at: Number.MAX_SAFE_INTEGER, id: '' };
  return store.select(listed({ tenant, slug, at, id, limit }));
}

/** How many revisions a project has. */
export function countRevisions(store: Store, { tenant, slug }: Pick<RevisionRow, 'tenant' | 'slug'>): Promise<number> {
  return countOf(store.read.selectFrom('config_revisions').where('tenant', '=', tenant).where('slug', '=', slug));
}
