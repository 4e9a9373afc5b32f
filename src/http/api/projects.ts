/** Projects of a tenant; those that a file manages are changed in their file. */
import { z } from 'zod';
import { mayTouch, readableTenants, type Principal } from '../../accounts/principal.ts';
import { emptyProject, managedByFile, placesIn } from '../../accounts/projects.ts';
import { slugOf, SLUG } from '../../config/scalars.ts';
import type { Snapshot } from '../../config/snapshot.ts';
import type { Project } from '../../config/forms.ts';
import type { ObjectLimits } from '../../accounts/object-limits.ts';
import { isoTime, type Clock } from '../../lib/clock.ts';
import { environmentOf, newId } from '../../lib/ids.ts';
import { releaseDomainsOf } from '../../store/domains.ts';
import {
  countProjects,
  deleteProject,
  findProject,
  forgetProjectFiles,
  listProjects,
  putInForce,
} from '../../store/projects.ts';
import { UnmetError, type Store } from '../../store/store.ts';
import type { ProjectRow } from '../../store/tables.ts';
import { json } from '../answer.ts';
import { refuse } from '../errors.ts';
import { overLimit } from '../context.ts';
import { environment, label } from './account-shapes.ts';
import { listing, listOf, pageOf } from './listing.ts';
import { defineRoute, type Outcome, type Route } from './route.ts';

export interface ProjectsParts {
  readonly store: Store;
  readonly clock: Clock;
  readonly objects: ObjectLimits;
  readonly snapshot: () => Snapshot;
  /** Puts in force what the database says of projects now, here and elsewhere. */
  readonly takeOver: () => Promise<void>;
}

const project = z.object({
  id: z.string(),
  name: z.string(),
  slug: z.string(),
  environment,
  source: z.enum(['file', 'push', 'api']).describe('A file on a server, a push, or POST /projects.'),
  managed_by: z
    .object({ machine: z.string(), file: z.string() })
    .nullable()
    .describe(
      'The file that manages the project, and the machine that has it; null where a push may change the project.',
    ),
  file_missing: z.boolean().describe('That file is gone. The project stays in force until it is deleted.'),
  revision: z.string().describe('In force.'),
  created_at: z.iso.datetime(),
});

const newProject = z.strictObject({
  name: label.describe('For people.'),
  slug: z
    .string()
    .regex(SLUG, 'must be 1 to 63 lower-case letters, digits and hyphens, such as my-site')
    .optional()
    .describe('Its name in addresses and commands; made from the name unless told.'),
});

const READ = { permission: 'projects.read', domains: 'narrow', tag: 'Projects' } as const;
const WRITE = { ...READ, permission: 'projects.write' } as const;
/** Names that are tried where a slug was not asked for by name. */
const MOST_NAMES = 50;

/** `/projects…` */
export function projectsRoutes(parts: ProjectsParts): Route[] {
  const { store, clock, snapshot, takeOver, objects } = parts;

  async function make(principal: Principal, name: string, slug: string): Promise<ProjectRow | undefined> {
    const tenant = principal.tenant.id;
    const now = clock.now();
    const made = {
      tenant,
      slug,
      name,
      source: 'api',
      machine: null,
      file: null,
      ...emptyProject({ name, slug }),
    } as const;
    try {
      // It begins without domains, whatever claims of another of this name are left.
      const replacing = { was: undefined, id: newId('rev', now) };
      await store.write([...putInForce(made, replacing, now), releaseDomainsOf({ tenant, project: slug })]);
    } catch (error) {
      if (error instanceof UnmetError) return undefined;
      throw error;
    }
    await takeOver();
    return findProject(store, tenant, slug);
  }

  async function end(principal: Principal, slug: string, force: boolean): Promise<Outcome> {
    const tenant = principal.tenant.id;
    const row = await findProject(store, tenant, slug);
    if (row === undefined) return unknownProject(slug);
    const managed = managedByFile(row);
    if (managed !== undefined && row.file_missing === 0 && !force) {
      return refuse('CONFLICT', { message: `${managed.message} Remove the file first, then delete the project.` });
    }
    if (!mayTouchProject(principal, snapshot(), row)) return refuse('AUTH_DOMAIN_NOT_ALLOWED');
    try {
      const forgotten = managed === undefined ? [] : [forgetProjectFiles({ slug })];
      await store.write([deleteProject(row, 1), releaseDomainsOf({ tenant, project: slug }), ...forgotten]);
    } catch (error) {
      // It was changed, or ended, meanwhile.
      if (error instanceof UnmetError) return end(principal, slug, force);
      throw error;
    }
    await takeOver();
    return json(shownProject(row));
  }

  return [
    defineRoute({
      ...READ,
      method: 'GET',
      path: '/projects',
      summary: 'Lists the projects, newest first.',
      description: 'A test key sees the live projects and those that test keys made.',
      readsLive: true,
      query: z.strictObject(listing('prj')),
      answer: listOf('projects', project),
      async handle({ principal, query: { limit, cursor } }) {
        const tenants = readableTenants(principal);
        const all = snapshot().projects.filter((one) => tenants.includes(one.tenant));
        const filter = {
          tenants,
          slugs: isNarrowed(principal)
            ? all.filter((one) => touches(principal, one)).map(({ slug }) => slug)
            : undefined,
        };
        const rows = await listProjects(store, filter, { before: cursor, limit: limit + 1 });
        const { page, next_cursor } = pageOf(rows, limit);
        return json({ projects: page.map(shownProject), count: await countProjects(store, filter), next_cursor });
      },
    }),
    defineRoute({
      ...WRITE,
      domains: 'refuse',
      method: 'POST',
      path: '/projects',
      summary: 'Creates a project without domains.',
      description: 'Add domains with `POST /domains`, or push a YAML file.',
      body: newProject,
      answer: project,
      async handle({ principal, body: { name, slug } }) {
        const base = slug ?? slugOf(name);
        const names = slug === undefined ? Array.from({ length: MOST_NAMES }, (_, i) => `${base}-${i + 1}`) : [];
        for (const candidate of [base, ...names.slice(1)]) {
          const made = await objects.within(principal.tenant.id, { more: { projects: 1 } }, () =>
            make(principal, name, candidate),
          );
          if (made !== undefined && 'kind' in made) return overLimit(made, snapshot().server);
          if (made !== undefined) return json(shownProject(made));
        }
        return refuse('CONFLICT', { message: `There is a project ${base} already.` });
      },
    }),
    defineRoute({
      ...READ,
      method: 'GET',
      path: '/projects/:slug',
      readsLive: true,
      summary: 'Shows a project.',
      answer: project,
      async handle({ principal, params: { slug } }) {
        const row = await findVisible(parts, principal, slug);
        return row === undefined ? unknownProject(slug) : json(shownProject(row));
      },
    }),
    defineRoute({
      ...WRITE,
      method: 'DELETE',
      path: '/projects/:slug',
      summary: 'Ends a project, and shows it as it was.',
      description:
        'Its domains and forms are served no longer. Submissions stay, and queued mail is still sent. A project that a file manages can be deleted once that file is gone.',
      query: z.strictObject({
        force: z
          .enum(['true', 'false'])
          .default('false')
          .describe(
            'Delete it although its file may still be there, such as on a machine that is gone. A file that is loaded again deploys it again.',
          ),
      }),
      answer: project,
      handle: ({ principal, params: { slug }, query: { force } }) => end(principal, slug, force === 'true'),
    }),
  ];
}

/** The tenant's project of this slug, if the principal may know of it. */
export async function findVisible(
  { store, snapshot }: Pick<ProjectsParts, 'store' | 'snapshot'>,
  principal: Principal,
  slug: string,
): Promise<ProjectRow | undefined> {
  const tenant = principal.tenant.id;
  const row = await findProject(store, tenant, slug);
  if (row === undefined) return undefined;
  const domains = domainsIn(snapshot(), tenant, slug);
  return !isNarrowed(principal) || domains.some((domain) => mayTouch(principal, domain)) ? row : undefined;
}

/** The domains that the project claims. */
export function domainsIn({ projects }: Snapshot, tenant: string, slug: string): string[] {
  const found = projects.find((one) => one.tenant === tenant && one.slug === slug);
  return Object.keys(found?.config.domains ?? {});
}

/** Whether all that the project says may be touched; of one that is not served nothing is known. */
export function mayTouchProject(
  principal: Principal,
  { projects }: Snapshot,
  { tenant, slug }: Pick<ProjectRow, 'tenant' | 'slug'>,
): boolean {
  const found = projects.find((one) => one.tenant === tenant && one.slug === slug);
  const places = found === undefined ? [undefined] : placesIn(found.config);
  return places.every((domain) => mayTouch(principal, domain));
}

export function unknownProject(slug: string): Outcome {
  return refuse('NOT_FOUND', { message: `There is no project ${slug.slice(0, 60)}.` });
}

function isNarrowed({ restrictions }: Principal): boolean {
  return restrictions.domain_restrictions !== undefined;
}

function touches(principal: Principal, { config }: Project): boolean {
  return Object.keys(config.domains).some((domain) => mayTouch(principal, domain));
}

function shownProject(row: ProjectRow): object {
  const { id, tenant, name, slug, source, revision, machine, file, file_missing: missing, created_at } = row;
  return {
    id,
    name,
    slug,
    environment: environmentOf(tenant),
    source,
    managed_by: machine === null || file === null ? null : { machine, file },
    file_missing: missing === 1,
    revision,
    created_at: isoTime(created_at),
  };
}
