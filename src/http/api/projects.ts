/** Projects of a tenant; those that a file manages are changed in their file. */
import type { z } from 'zod';
import { accountIdOf, mayTouch, type Principal, readableTenants } from '../../accounts/principal.ts';
import {
  authorFor,
  emptyProject,
  managedByFile,
  placesIn,
  push,
  type Push,
  type PushOutcome,
  readAuthor,
  writeAuthor,
} from '../../accounts/projects.ts';
import { diffConfig, writtenProject, type Change } from '../../config/diff.ts';
import type { ProjectConfig } from '../../config/schema.ts';
import type { Project, Snapshot } from '../../config/snapshot.ts';
import type { Problem } from '../../config/problem.ts';
import { slugOf } from '../../config/scalars.ts';
import * as contract from '../../contract/projects.ts';
import { environmentOf, newId } from '../../lib/ids.ts';
import { releaseDomainsOf } from '../../store/domains.ts';
import {
  countProjects,
  countRevisions,
  deleteProject,
  findProject,
  forgetProjectFiles,
  listProjects,
  listRevisions,
  putInForce,
  findRevision,
  findRevisionOf,
  revisionsOf,
} from '../../store/projects.ts';
import { writeIfMet } from '../../store/store.ts';
import type { ProjectRow } from '../../store/tables.ts';
import { overLimit, rateLimited } from '../context.ts';
import { type Detail, type Refusal, refuse } from '../answer.ts';
import { type DataOf, implement, success, notFound, type Outcome, pageOf, type Route, type Services } from './route.ts';

/** Names that are tried where a slug was not asked for by name. */
const MAX_NAMES = 50;
const MAX_DETAILS = 100;

/** `/projects…` */
export function projectsRoutes(services: Services): Route[] {
  const { store, clock, snapshot, takeOver, objects, reader } = services;

  /** Undefined where there is one of this slug. */
  async function make(principal: Principal, name: string, slug: string): Promise<ProjectRow | undefined> {
    const tenant = principal.tenant.id;
    const now = clock.now();
    const nobodys = { source: 'api', machine: null, file: null } as const;
    const made = { tenant, slug, name, ...nobodys, ...emptyProject({ name, slug }) };
    const inForce = putInForce(
      made,
      { was: undefined, id: newId('rev', now), author: writeAuthor(authorFor(principal)) },
      now,
    );
    // It begins without domains, whatever claims of another of this name are left.
    const written = await writeIfMet(store, [...inForce, releaseDomainsOf({ tenant, project: slug })]);
    if (written === undefined) return undefined;
    await takeOver();
    return findProject(store, tenant, slug);
  }

  async function end(
    principal: Principal,
    slug: string,
    force: boolean,
  ): Promise<Outcome<DataOf<typeof contract.projects.remove>>> {
    const tenant = principal.tenant.id;
    const row = await findProject(store, tenant, slug);
    if (row === undefined) return notFound('project', slug);
    const managed = managedByFile(row);
    if (managed !== undefined && row.file_missing === 0 && !force) {
      return refuse('CONFLICT', { message: `${managed.message} Remove the file first, then delete the project.` });
    }
    if (!mayTouchProject(principal, row)) return refuse('AUTH_DOMAIN_NOT_ALLOWED');
    const forgotten = managed === undefined ? [] : [forgetProjectFiles({ slug })];
    const unit = [deleteProject(row, 1), releaseDomainsOf({ tenant, project: slug }), ...forgotten];
    // Where it was changed, or ended, meanwhile, it is looked at again.
    if ((await writeIfMet(store, unit)) === undefined) return end(principal, slug, force);
    await takeOver();
    return success(shown(row));
  }

  function served({ tenant, slug }: Pick<ProjectRow, 'tenant' | 'slug'>): Project | undefined {
    return snapshot().projects.find((one) => one.tenant === tenant && one.slug === slug);
  }

  /** The tenant's project of this slug, if the principal may know of it. */
  async function findVisible(principal: Principal, slug: string): Promise<ProjectRow | undefined> {
    const row = await findProject(store, principal.tenant.id, slug);
    return row !== undefined && (!isNarrowed(principal) || touches(principal, served(row))) ? row : undefined;
  }

  /** Whether all that the project says may be touched; of one that is not served nothing is known. */
  function mayTouchProject(principal: Principal, row: ProjectRow): boolean {
    const found = served(row);
    const places = found === undefined ? [undefined] : placesIn(found.config);
    return places.every((domain) => mayTouch(principal, domain));
  }

  async function take(principal: Principal, given: Pick<Push, 'slug' | 'bundle' | 'base' | 'dryRun'>) {
    const tenant = await tenantOf(principal, given);
    if (tenant === undefined) return refuse('AUTH_TEST_KEY');
    const asks = principal.environment === 'live';
    const outcome = await push(
      {
        ...given,
        tenant,
        asks,
        author: authorFor(principal),
        may: (domain: string | undefined) => mayTouch(principal, domain),
      },
      services,
    );
    return answerOf(outcome);
  }

  /** Whose project it is; of a live one that a test key names, only where nothing is to change. */
  async function tenantOf(principal: Principal, { slug, dryRun }: Pick<Push, 'slug' | 'dryRun'>) {
    const { id } = principal.tenant;
    const live = accountIdOf(principal);
    if (id === live || (await findProject(store, id, slug)) !== undefined) return id;
    if ((await findProject(store, live, slug)) === undefined) return id;
    return dryRun ? live : undefined;
  }

  function answerOf(outcome: PushOutcome): Outcome<DataOf<typeof contract.projects.push>> {
    if (outcome.kind !== 'done') return refusalOfPush(outcome, snapshot(), clock.now());
    const { changes, warnings, revision } = outcome;
    return success({ changes: changes.map(shownChange), warnings: warnings.map(placeOf), revision });
  }

  /** What a revision says, or why it cannot be shown. */
  async function readRevisionOf(
    row: ProjectRow,
    id: string,
    principal: Principal,
  ): Promise<{ readonly config: ProjectConfig } | Refusal> {
    const revision = await findRevisionOf(store, row, id);
    if (revision === undefined) return unknownRevision(id);
    const { result } = await reader.read(revision, { tenant: row.tenant, accepted: true });
    if (!('ok' in result))
      return refuse('CONFLICT', { message: `This version of Postern cannot read revision ${id}.` });
    const isOwn = placesIn(result.ok).every((domain) => mayTouch(principal, domain));
    return isOwn ? { config: result.ok } : refuse('AUTH_DOMAIN_NOT_ALLOWED');
  }

  return implement(contract.projects, {
    async list({ principal, query: { limit, cursor } }) {
      const tenants = readableTenants(principal);
      const touched = snapshot().projects.filter((one) => tenants.includes(one.tenant) && touches(principal, one));
      const filter = { tenants, slugs: isNarrowed(principal) ? touched.map(({ slug }) => slug) : undefined };
      const rows = await listProjects(store, filter, { before: cursor, limit: limit + 1 });
      const { page, next_cursor } = pageOf(rows, limit, ({ id }) => id);
      return success({ projects: page.map(shown), count: await countProjects(store, filter), next_cursor });
    },
    async create({ principal, body: { name, slug } }) {
      const base = slug ?? slugOf(name);
      const names = slug === undefined ? Array.from({ length: MAX_NAMES }, (_, i) => `${base}-${i + 1}`) : [];
      for (const candidate of [base, ...names.slice(1)]) {
        const made = await objects.within(principal.tenant.id, { more: { projects: 1 } }, () =>
          make(principal, name, candidate),
        );
        if (made !== undefined && 'kind' in made) return overLimit(made, snapshot().server);
        if (made !== undefined) return success(shown(made));
      }
      return refuse('CONFLICT', { message: `The project ${base} already exists.` });
    },
    async show({ principal, params: { slug } }) {
      const row = await findVisible(principal, slug);
      return row === undefined ? notFound('project', slug) : success(shown(row));
    },
    remove: ({ principal, params: { slug }, query: { force } }) => end(principal, slug, force === 'true'),
    async revisions({ principal, params: { slug }, query: { limit, cursor } }) {
      const row = await findVisible(principal, slug);
      if (row === undefined) return notFound('project', slug);
      if (!mayTouchProject(principal, row)) return refuse('AUTH_DOMAIN_NOT_ALLOWED');
      const [at = '', id = ''] = cursor?.split('-') ?? [];
      const behind = cursor === undefined ? undefined : { created_at: Number(at), id };
      const rows = await listRevisions(store, row, { behind, limit: limit + 1 });
      const { page, next_cursor } = pageOf(rows, limit, (one) => `${one.created_at}-${one.id}`);
      const revisions = page.map((one) => ({ ...one, author: readAuthor(one), current: one.id === row.revision }));
      return success({ revisions, count: await countRevisions(store, row), next_cursor });
    },
    async changes({ principal, params: { slug, revision }, query: { from } }) {
      const row = await findVisible(principal, slug);
      if (row === undefined) return notFound('project', slug);
      if (!mayTouchProject(principal, row)) return refuse('AUTH_DOMAIN_NOT_ALLOWED');
      const [before, after] = [from ?? row.revision, revision];
      const read: ProjectConfig[] = [];
      for (const id of [before, after]) {
        const config = await readRevisionOf(row, id, principal);
        if ('kind' in config) return config;
        read.push(config.config);
      }
      const [one, other] = read.map((config) => writtenProject(config));
      return success({ from: before, to: after, changes: diffConfig(one, other).map(shownChange) });
    },
    async config({ principal, params: { slug }, query: { revision: asked } }) {
      const row = await findVisible(principal, slug);
      if (row === undefined) return notFound('project', slug);
      const { tenant } = row;
      if (!mayTouchProject(principal, row)) return refuse('AUTH_DOMAIN_NOT_ALLOWED');
      const wanted = await (asked === undefined
        ? findRevision(store, row.revision)
        : findRevisionOf(store, { tenant, slug }, asked));
      if (asked !== undefined) {
        if (wanted === undefined) return unknownRevision(asked);
        const { result, named } = await reader.read(wanted, { tenant, accepted: true });
        const places = 'ok' in result ? placesIn(result.ok) : [...named.domains, undefined];
        if (!places.every((domain) => mayTouch(principal, domain))) return refuse('AUTH_DOMAIN_NOT_ALLOWED');
      }
      const revisions = await revisionsOf(store, tenant, slug);
      return success({
        config: wanted?.yaml,
        files: wanted?.files ?? {},
        revision: wanted?.id,
        revisions: revisions.map((revision) => ({ ...revision, current: revision.id === row.revision })),
      });
    },
    push({ principal, params: { slug }, query: { dry_run }, body }) {
      const { config, files: named, base_revision: base } = body;
      return take(principal, { slug, bundle: { yaml: config, files: named }, base, dryRun: dry_run === 'true' });
    },
    async rollback({ principal, params: { slug }, body: { revision: id, base_revision: base } }) {
      const tenant = principal.tenant.id;
      const row = await findVisible(principal, slug);
      if (row === undefined) return notFound('project', slug);
      const managed = managedByFile(row);
      if (managed !== undefined) return answerOf(managed);
      const revision = await findRevisionOf(store, { tenant, slug }, id);
      if (revision === undefined) return unknownRevision(id);
      return take(principal, { slug, bundle: revision, base, dryRun: false });
    },
  });
}

function isNarrowed({ restrictions }: Principal): boolean {
  return restrictions.domain_restrictions !== undefined;
}

function touches(principal: Principal, project: Project | undefined): boolean {
  return Object.keys(project?.config.domains ?? {}).some((domain) => mayTouch(principal, domain));
}

function shown(row: ProjectRow) {
  const { tenant, machine, file } = row;
  const managed_by = machine === null || file === null ? null : { machine, file };
  return { ...row, environment: environmentOf(tenant), managed_by };
}

function shownChange({ keys, from, to, ...change }: Change) {
  return { ...change, keys: [...keys], from: from ?? null, to: to ?? null };
}

function unknownRevision(id: string): Refusal {
  return refuse('NOT_FOUND', { message: `The project has no revision ${id.slice(0, 60)}.` });
}

/** Why a push changed nothing. */
export function refusalOfPush(
  outcome: Exclude<PushOutcome, { kind: 'done' }>,
  { server }: Snapshot,
  now: number,
): Refusal {
  switch (outcome.kind) {
    case 'over-limit':
      return overLimit(outcome, server);
    case 'too-often':
      return rateLimited(outcome.verdict, now);
    case 'forbidden':
      return refuse('AUTH_DOMAIN_NOT_ALLOWED');
    case 'invalid':
      return refuse('VALIDATION_FAILED', {
        message: sentenceFor(outcome.problems),
        errors: detailsOf(outcome.problems),
      });
    case 'conflict': {
      const errors = detailsOf(outcome.problems);
      return refuse('CONFLICT', { message: outcome.message, ...(errors.length > 0 && { errors }) });
    }
  }
}

function sentenceFor(problems: readonly Problem[]): string {
  const [first, ...rest] = problems;
  if (first === undefined) return 'The configuration is not valid.';
  const { line, column, path, message } = placeOf(first);
  if (rest.length > 0) return `The configuration has ${problems.length} errors.`;
  return `Line ${line}, column ${column}: ${path === '' ? '' : `${path}: `}${message}.`;
}

function detailsOf(problems: readonly Problem[]): Detail[] {
  return problems.slice(0, MAX_DETAILS).map((problem) => {
    const { path, ...rest } = placeOf(problem);
    return { field: path, code: 'TYPE_TEXT', ...rest };
  });
}

function placeOf({ path, message, suggestion, line, column }: Problem): z.output<typeof contract.finding> {
  const hint = suggestion === undefined ? '' : ` (did you mean "${suggestion}"?)`;
  return { path, message: message + hint, line, column };
}
