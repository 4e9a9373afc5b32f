/** Projects of a tenant; those that a file manages are changed in their file. */
import type { z } from 'zod';
import type { ObjectLimits } from '../../accounts/object-limits.ts';
import { accountIdOf, mayTouch, type Principal, readableTenants } from '../../accounts/principal.ts';
import {
  emptyProject,
  managedByFile,
  placesIn,
  push,
  type Push,
  type PushOutcome,
  type PushParts,
} from '../../accounts/projects.ts';
import type { Project } from '../../config/forms.ts';
import type { Problem } from '../../config/problem.ts';
import { slugOf } from '../../config/scalars.ts';
import type { Snapshot } from '../../config/snapshot.ts';
import * as contract from '../../contract/projects.ts';
import { type Clock, isoTime } from '../../lib/clock.ts';
import { environmentOf, newId } from '../../lib/ids.ts';
import { releaseDomainsOf } from '../../store/domains.ts';
import {
  countProjects,
  deleteProject,
  findProject,
  forgetProjectFiles,
  listProjects,
  putInForce,
  findRevision,
  findRevisionOf,
  revisionsOf,
} from '../../store/projects.ts';
import { type Store, UnmetError } from '../../store/store.ts';
import type { ProjectRow } from '../../store/tables.ts';
import { json } from '../answer.ts';
import { type Detail, type Refusal, refuse } from '../errors.ts';
import { overLimit, rateLimited } from '../context.ts';
import { type BodyOf, type Handlers, implement, type Outcome, pageOf, type Route } from './route.ts';

export interface ProjectsParts extends PushParts {
  readonly store: Store;
  readonly clock: Clock;
  readonly objects: ObjectLimits;
  readonly snapshot: () => Snapshot;
  /** Puts in force what the database says of projects now, here and elsewhere. */
  readonly takeOver: () => Promise<void>;
}

/** Names that are tried where a slug was not asked for by name. */
const MOST_NAMES = 50;

/** `/projects…` */
export function projectsRoutes(parts: ProjectsParts): Route[] {
  return implement(contract.projects, { ...projectHandlers(parts), ...configHandlers(parts) });
}

function projectHandlers(
  parts: ProjectsParts,
): Handlers<Pick<typeof contract.projects, 'list' | 'create' | 'show' | 'remove'>> {
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

  async function end(
    principal: Principal,
    slug: string,
    force: boolean,
  ): Promise<Outcome<z.output<typeof contract.project>>> {
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

  return {
    async list({ principal, query: { limit, cursor } }) {
      const tenants = readableTenants(principal);
      const all = snapshot().projects.filter((one) => tenants.includes(one.tenant));
      const filter = {
        tenants,
        slugs: isNarrowed(principal) ? all.filter((one) => touches(principal, one)).map(({ slug }) => slug) : undefined,
      };
      const rows = await listProjects(store, filter, { before: cursor, limit: limit + 1 });
      const { page, next_cursor } = pageOf(rows, limit);
      return json({ projects: page.map(shownProject), count: await countProjects(store, filter), next_cursor });
    },
    async create({ principal, body: { name, slug } }) {
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
    async show({ principal, params: { slug } }) {
      const row = await findVisible(parts, principal, slug);
      return row === undefined ? unknownProject(slug) : json(shownProject(row));
    },
    remove: ({ principal, params: { slug }, query: { force } }) => end(principal, slug, force === 'true'),
  };
}

/** The tenant's project of this slug, if the principal may know of it. */
async function findVisible(
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
function domainsIn({ projects }: Snapshot, tenant: string, slug: string): string[] {
  const found = projects.find((one) => one.tenant === tenant && one.slug === slug);
  return Object.keys(found?.config.domains ?? {});
}

/** Whether all that the project says may be touched; of one that is not served nothing is known. */
function mayTouchProject(
  principal: Principal,
  { projects }: Snapshot,
  { tenant, slug }: Pick<ProjectRow, 'tenant' | 'slug'>,
): boolean {
  const found = projects.find((one) => one.tenant === tenant && one.slug === slug);
  const places = found === undefined ? [undefined] : placesIn(found.config);
  return places.every((domain) => mayTouch(principal, domain));
}

export function unknownProject(slug: string): Refusal {
  return refuse('NOT_FOUND', { message: `There is no project ${slug.slice(0, 60)}.` });
}

function isNarrowed({ restrictions }: Principal): boolean {
  return restrictions.domain_restrictions !== undefined;
}

function touches(principal: Principal, { config }: Project): boolean {
  return Object.keys(config.domains).some((domain) => mayTouch(principal, domain));
}

function shownProject(row: ProjectRow) {
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

// The configuration of a project as it is pushed: shown, replaced, rolled back.

const MOST_DETAILS = 100;

function configHandlers(
  parts: ProjectsParts,
): Handlers<Pick<typeof contract.projects, 'config' | 'push' | 'rollback'>> {
  const { store, snapshot } = parts;

  async function take(principal: Principal, given: Pick<Push, 'slug' | 'bundle' | 'base' | 'dryRun'>) {
    const tenant = await tenantOf(principal, given);
    if (tenant === undefined) return refuse('AUTH_TEST_KEY');
    const whose = {
      tenant,
      asks: principal.environment === 'live',
      may: (domain: string | undefined) => mayTouch(principal, domain),
    };
    const outcome = await push({ ...given, ...whose }, parts);
    if (outcome.kind === 'over-limit') return overLimit(outcome, snapshot().server);
    return outcome.kind === 'too-often' ? rateLimited(outcome.verdict, parts.clock.now()) : answerOf(outcome);
  }

  /** Whose project it is; of a live one that a test key names, only where nothing is to change. */
  async function tenantOf(principal: Principal, { slug, dryRun }: Pick<Push, 'slug' | 'dryRun'>) {
    const { id } = principal.tenant;
    const live = accountIdOf(principal);
    if (id === live || (await findProject(store, id, slug)) !== undefined) return id;
    if ((await findProject(store, live, slug)) === undefined) return id;
    return dryRun ? live : undefined;
  }

  function revisionToShow({ tenant, slug, inForce }: InForce, asked: string | undefined) {
    if (asked !== undefined) return findRevisionOf(store, { tenant, slug }, asked);
    return findRevision(store, inForce);
  }

  return {
    async config({ principal, params: { slug }, query: { revision: asked } }) {
      const row = await findVisible(parts, principal, slug);
      if (row === undefined) return unknownProject(slug);
      const { tenant } = row;
      if (!mayTouchProject(principal, snapshot(), row)) return refuse('AUTH_DOMAIN_NOT_ALLOWED');
      const wanted = await revisionToShow({ tenant, slug, inForce: row.revision }, asked);
      if (asked !== undefined) {
        if (wanted === undefined) return unknownRevision(asked);
        const { result, named } = await parts.reader.read(wanted, { tenant, accepted: true });
        const places = 'ok' in result ? placesIn(result.ok) : [...named.domains, undefined];
        if (!places.every((domain) => mayTouch(principal, domain))) return refuse('AUTH_DOMAIN_NOT_ALLOWED');
      }
      const revisions = await revisionsOf(store, { tenant, slug });
      return json({
        config: wanted?.yaml ?? null,
        files: wanted?.files ?? {},
        revision: wanted?.id ?? null,
        revisions: revisions.map(({ id, created_at }) => ({
          id,
          created_at: isoTime(created_at),
          current: id === row.revision,
        })),
      });
    },
    async push({ principal, params: { slug }, query: { dry_run }, body }) {
      const { config, files: named, base_revision: base } = body;
      return take(principal, { slug, bundle: { yaml: config, files: named }, base, dryRun: dry_run === 'true' });
    },
    async rollback({ principal, params: { slug }, body: { revision: id, base_revision: base } }) {
      const tenant = principal.tenant.id;
      const row = await findVisible(parts, principal, slug);
      if (row === undefined) return unknownProject(slug);
      const managed = managedByFile(row);
      if (managed !== undefined) return answerOf(managed);
      const revision = await findRevisionOf(store, { tenant, slug }, id);
      if (revision === undefined) return unknownRevision(id);
      return take(principal, { slug, bundle: revision, base, dryRun: false });
    },
  };
}

interface InForce {
  readonly tenant: string;
  readonly slug: string;
  readonly inForce: string;
}

function unknownRevision(id: string): Refusal {
  return refuse('NOT_FOUND', { message: `The project has no revision ${id.slice(0, 60)}.` });
}

type Ended = Exclude<PushOutcome, { kind: 'over-limit' | 'too-often' }>;

function answerOf(outcome: Ended): Outcome<BodyOf<typeof contract.projects.push>> {
  if (outcome.kind !== 'done') return refusalOfPush(outcome);
  const { changes, warnings, revision } = outcome;
  const shownChanges = changes.map(({ op, path, keys, from, to }) => {
    return { op, path, keys: [...keys], from: from ?? null, to: to ?? null };
  });
  return json({ changes: shownChanges, warnings: warnings.map(placeOf), revision });
}

/** Why a push changed nothing. */
export function refusalOfPush(outcome: Exclude<Ended, { kind: 'done' }>): Refusal {
  switch (outcome.kind) {
    case 'invalid':
      return refuse('VALIDATION_FAILED', {
        message: sentenceFor(outcome.problems),
        errors: detailsOf(outcome.problems),
      });
    case 'conflict': {
      const errors = detailsOf(outcome.problems);
      return refuse('CONFLICT', { message: outcome.message, ...(errors.length === 0 ? {} : { errors }) });
    }
    case 'forbidden':
      return refuse('AUTH_DOMAIN_NOT_ALLOWED');
  }
}

function sentenceFor(problems: readonly Problem[]): string {
  const [first, ...others] = problems;
  if (first === undefined) return 'The configuration is not valid.';
  const { line, column, path, message } = placeOf(first);
  if (others.length > 0) return `The configuration has ${problems.length} errors.`;
  return `Line ${line}, column ${column}: ${path === '' ? '' : `${path}: `}${message}.`;
}

function detailsOf(problems: readonly Problem[]): Detail[] {
  return problems.slice(0, MOST_DETAILS).map((problem) => {
    const { path, ...rest } = placeOf(problem);
    return { field: path, code: 'TYPE_TEXT', ...rest };
  });
}

function placeOf({ path, message, suggestion, line, column }: Problem): z.output<typeof contract.finding> {
  const hint = suggestion === undefined ? '' : ` (did you mean "${suggestion}"?)`;
  return { path, message: message + hint, line, column };
}
