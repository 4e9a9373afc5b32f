/**
 * A configuration that is pushed, or an old one that comes back: read, compared with what is active, and deployed in
 * one unit, or refused with the reason. Of several at a time each sees what it replaces.
 */
import { normalize } from 'node:path/posix';
import { z } from 'zod';
import { fanOutErrors } from '../config/checks.ts';
import { PUSHED_FILE, type Bundle, type BundleReader, type DomainEdit } from '../config/bundle.ts';
import { namedRecipientsOf, type NamedRecipient, type Snapshot } from '../config/snapshot.ts';
import { diffConfig, writtenProject, type Change } from '../config/diff.ts';
import type { Finding, Problem } from '../config/problem.ts';
import type { ProjectConfig } from '../config/schema.ts';
import type { Clock } from '../lib/clock.ts';
import { newId, claimId } from '../lib/ids.ts';
import { askNames, type NameParts, type Names } from './collection-names.ts';
import { objectsIn, type ObjectLimits, type OverLimit } from './object-limits.ts';
import { releaseDomain } from '../store/domains.ts';
import { recordEvent } from '../store/events.ts';
import { findProject, putInForce, revisionWith, findRevision } from '../store/projects.ts';
import { OPERATOR } from '../store/tenants.ts';
import { UnmetError, type Store } from '../store/store.ts';
import type { ProjectRow, RevisionRow } from '../store/tables.ts';
import type { Consent } from './consent.ts';
import type { Principal } from './principal.ts';
import { readRevision, type RevisionReading } from '../config/active-projects.ts';
import { LruMap } from '../lib/lru.ts';

const authorSchema = z.object({
  kind: z.enum(['key', 'session', 'operator', 'file']),
  /** Of the key or the session. */
  id: z.string().nullable(),
  /** Of the key or the account; the machine and its file. */
  name: z.string().nullable(),
});

/** Who puts an active revision: an API key, a session of the console, the operator on the machine, or a file. */
export type RevisionAuthor = Readonly<z.output<typeof authorSchema>>;

/** Who asks, as the author of a revision. */
export function authorFor({ key, tenant, session }: Pick<Principal, 'key' | 'tenant' | 'session'>): RevisionAuthor {
  if (session !== undefined) return { kind: 'session', id: session.id, name: tenant.name };
  if (key !== undefined) return { kind: 'key', id: key.id, name: key.name };
  return { kind: 'operator', id: null, name: tenant.name };
}

/** The author of a revision as it is kept. */
export function writeAuthor(author: RevisionAuthor): string {
  return JSON.stringify(author);
}

/** Who put an active revision last; null where that is not known. */
export function readAuthor({ author }: Pick<RevisionRow, 'author'>): RevisionAuthor | null {
  return author === null ? null : authorSchema.parse(JSON.parse(author));
}

export interface PushParts extends NameParts {
  readonly clock: Clock;
  readonly reader: BundleReader;
  readonly consent: Consent;
  readonly objects: ObjectLimits;
  /** Applies what the database says of projects now, here and elsewhere. */
  readonly takeOver: () => Promise<void>;
}

export interface Push {
  readonly tenant: string;
  readonly slug: string;
  readonly bundle: Bundle;
  /** The revision that it may replace, null for a project that has none; undefined: whichever is active. */
  readonly base?: string | null | undefined;
  /** `api`: the document was changed by another route than a push. */
  readonly source?: 'push' | 'api';
  /** Who pushes it. */
  readonly author: RevisionAuthor | undefined;
  /** Only tell what would happen. */
  readonly dryRun: boolean;
  /** Whether recipients that have to agree are mailed a link. */
  readonly asks: boolean;
  /** Whether whoever pushes may touch what belongs to this domain, or (undefined) to none. */
  readonly may: (domain: string | undefined) => boolean;
}

export type PushOutcome =
  | {
      readonly kind: 'done';
      readonly changes: readonly Change[];
      readonly warnings: readonly Problem[];
      /** The active one from now on; of a dry run the one that still is. */
      readonly revision: string | null;
    }
  | { readonly kind: 'invalid'; readonly problems: readonly Problem[] }
  | { readonly kind: 'conflict'; readonly message: string; readonly problems: readonly Problem[] }
  /** The plan of the account does not allow all that it makes. */
  | OverLimit
  | Extract<Names, { kind: 'too-often' }>
  /** It touches this domain, which the asker may not; undefined where it belongs to none. */
  | { readonly kind: 'forbidden'; readonly domain: string | undefined };

/** Pushes that may be decided anew because another one was committed meanwhile. */
const MAX_TRIES = 5;
/** Each of them gets a key, and is asked about in DNS. */
const MAX_DOMAINS = 250;
const MAX_LISTED = 100;
/** Bytes: some six thousand lines. What is active is compared with it, and indexed, between two requests. */
const MAX_YAML_BYTES = 256 * 1024;
const TOO_LARGE: Problem = {
  file: PUSHED_FILE,
  line: 1,
  column: 1,
  path: '',
  message: 'the file is larger than 256 KiB',
};

/** Takes the push; when it is done, it is active. */
export async function push(given: Push, parts: PushParts): Promise<PushOutcome> {
  const { tenant, slug, base, may, dryRun } = given;
  const managed = managedByFile(await findProject(parts.store, tenant, slug));
  if (managed !== undefined) return managed;
  const read = await readPush(given, parts);
  if (read.kind === 'invalid') return read;
  const { next, bundle } = read;
  const named = namedRecipientsOf(next);
  const warnings = [...read.warnings, ...(await unconfirmed(given, named, parts))];
  for (let tries = 1; ; tries++) {
    const row = await findProject(parts.store, tenant, slug);
    const current = row && (await currentOf(row, parts));
    const touched = [...(current === undefined ? [] : placesIn(current)), ...placesIn(next)];
    const refused = touched.findIndex((domain) => !may(domain));
    if (refused >= 0) return { kind: 'forbidden', domain: touched[refused] };
    const wrong = domainErrors(given, next, parts.snapshot());
    const taken = await parts.reader.locate(bundle.yaml, wrong, { tenant });
    if (taken.length > 0) return conflict(NOT_AVAILABLE, taken);

    const changes = diffConfig(current === undefined ? {} : writtenProject(current), writtenProject(next));
    const known = row?.revision ?? null;
    if (base !== undefined && base !== known) return conflict(MOVED_ON);
    const isKnown = known !== null && sameBundle(await findRevision(parts.store, known), bundle);
    const more = { ...objectsIn(next), projects: row === undefined ? 1 : 0 };
    const instead = current === undefined ? {} : objectsIn(current);
    try {
      // Behind the count: one push asks for no more names than the account may have.
      const outcome = await parts.objects.within(tenant, { more, instead }, async () => {
        const names = await askNames(Object.keys(next.collections), { tenant, slug }, parts);
        if (names.kind === 'too-often') return names;
        if (names.kind === 'unavailable') {
          const finding = { path: ['collections', names.name], message: names.message, key: true };
          return conflict(NOT_AVAILABLE, await parts.reader.locate(bundle.yaml, [finding], { tenant }));
        }
        if (dryRun || isKnown) return { kind: 'done', changes, warnings, revision: known } as const;
        const revision = await commit({ given: { ...given, bundle }, row, current, next, changes }, parts);
        await parts.takeOver();
        return { kind: 'done', changes, warnings, revision } as const;
      });
      if (outcome.kind === 'done' && !dryRun && !isKnown && given.asks)
        await parts.consent.ask({ tenant, addresses: named.map(({ address }) => address) });
      return outcome;
    } catch (error) {
      if (!(error instanceof UnmetError)) throw error;
      if (tries === MAX_TRIES) return conflict('Someone else is pushing this project at the same time. Try again.');
    }
  }
}

/** Adds a domain to a project, or takes one out: a push of the same document with that change. Undefined: no such project. */
export async function editDomains(
  { tenant, slug, author }: Pick<Push, 'tenant' | 'slug' | 'author'>,
  edit: DomainEdit,
  parts: PushParts,
): Promise<PushOutcome | undefined> {
  for (let tries = 1; ; tries++) {
    const row = await findProject(parts.store, tenant, slug);
    const revision = row && (await findRevision(parts.store, row.revision));
    if (row === undefined || revision === undefined) return undefined;
    const managed = managedByFile(row);
    if (managed !== undefined) return managed;
    const yaml = await parts.reader.edit(revision.yaml, edit, { tenant });
    if (yaml === undefined)
      return conflict(`The configuration of ${slug} cannot be edited automatically: change its YAML and push it.`);
    const bundle = { yaml, files: revision.files };
    const source = row.source === 'api' ? 'api' : 'push';
    const change = { tenant, slug, author, bundle, source, base: row.revision, dryRun: false, asks: false } as const;
    const outcome = await push({ ...change, may: () => true }, parts);
    // Another push came between.
    if (outcome.kind !== 'conflict' || outcome.message !== MOVED_ON || tries === MAX_TRIES) return outcome;
  }
}

const NOT_AVAILABLE = 'The project names a domain or a collection that is not available to it.';
/**
 * The domains that a project is about; `undefined` among them where it is also about what belongs to none: collections, and
 * webhooks that are told of the whole project.
 */
export function placesIn(config: Pick<ProjectConfig, 'domains' | 'collections' | 'webhooks'>): (string | undefined)[] {
  const domains = Object.keys(config.domains);
  const isWider = Object.keys(config.collections).length > 0 || config.webhooks.length > 0 || domains.length === 0;
  return isWider ? [...domains, undefined] : domains;
}

const MOVED_ON = 'Another revision of the project has been deployed in the meantime: check the changes again.';
/** The refusal of a push to a project that a file manages. */
export function managedByFile(row: ProjectRow | undefined): Extract<PushOutcome, { kind: 'conflict' }> | undefined {
  if (row?.source !== 'file') return undefined;
  const where = row.machine === null || row.machine === '' ? '' : ` on ${row.machine}`;
  return conflict(`The file ${row.file}${where} manages this project: change it there.`);
}

/** The document of a project that has nothing but its name. */
export function emptyProject({ name, slug }: { readonly name: string; readonly slug: string }): Bundle {
  return { yaml: `project:\n  name: ${JSON.stringify(name)}\n  slug: ${JSON.stringify(slug)}\n`, files: {} };
}

function conflict(message: string, problems: readonly Problem[] = []): Extract<PushOutcome, { kind: 'conflict' }> {
  return { kind: 'conflict', message, problems };
}

/** The configuration that is pushed, and its bundle without files that nothing names. */
async function readPush({ tenant, slug, bundle }: Push, { reader, snapshot }: PushParts) {
  const { yaml, files } = bundle;
  if (Buffer.byteLength(yaml) > MAX_YAML_BYTES) return { kind: 'invalid', problems: [TOO_LARGE] } as const;
  const { result, named } = await reader.read(bundle, { tenant });
  if (!('ok' in result)) return { kind: 'invalid', problems: result.errors } as const;
  const { project, domains } = result.ok;
  const wrong: Finding[] = fanOutErrors(result.ok, snapshot().server.limits.form_recipients);
  if (project.slug !== slug) {
    const message = `expected ${slug}, the project that this is pushed to, found ${project.slug}`;
    wrong.push({ path: ['project', 'slug'], message });
  }
  if (Object.keys(domains).length > MAX_DOMAINS) {
    wrong.push({ path: ['domains'], message: `expected at most ${MAX_DOMAINS} domains` });
  }
  if (wrong.length > 0) return { kind: 'invalid', problems: await reader.locate(yaml, wrong, { tenant }) } as const;
  const names = new Set(named.files.map(normalize));
  const { used = [], unused = [] } = Object.groupBy(Object.entries(files), ([name]) =>
    names.has(normalize(name)) ? 'used' : 'unused',
  );
  const idle = unused.map(([name]) => ({ path: [], message: `no template or theme refers to the file ${name}` }));
  const warnings = [...result.warnings, ...(await reader.locate(yaml, idle, { tenant }))];
  return { next: result.ok, bundle: { yaml, files: Object.fromEntries(used) }, warnings };
}

function sameBundle(kept: Bundle | undefined, { yaml, files }: Bundle): boolean {
  return kept?.yaml === yaml && JSON.stringify(kept.files) === JSON.stringify(files);
}

/** What is active of the project; undefined where it cannot be read any more. */
async function currentOf({ tenant, slug, revision }: ProjectRow, parts: PushParts): Promise<ProjectConfig | undefined> {
  const served = parts.snapshot().projects.find((project) => project.tenant === tenant && project.slug === slug);
  if (served?.revision === revision) return served.config;
  const kept = await findRevision(parts.store, revision);
  const result = kept && (await parts.reader.read(kept, { tenant, accepted: true })).result;
  return result !== undefined && 'ok' in result ? result.ok : undefined;
}

/** Which recipients get no mail of the project yet, or never will. */
async function unconfirmed(
  { tenant, bundle }: Push,
  named: readonly NamedRecipient[],
  { consent, reader }: PushParts,
): Promise<readonly Problem[]> {
  const statuses = await consent.statuses({ tenant, addresses: named.map(({ address }) => address) });
  const found = named.flatMap(({ path, address }) => {
    const status = statuses.get(address);
    if (status !== 'pending' && status !== 'refused') return [];
    const message =
      status === 'pending'
        ? `mail for ${address} waits for confirmation: a link is emailed to this address`
        : `${address} has declined mail from this server and gets none`;
    return [{ path, message }];
  });
  return found.length === 0 ? [] : reader.locate(bundle.yaml, found.slice(0, MAX_LISTED), { tenant });
}

/** Domains that another project of the tenant has. Of several tenants' claims the first that verifies owns the domain. */
function domainErrors({ tenant, slug }: Push, next: ProjectConfig, { claims, server }: Snapshot): Finding[] {
  return Object.keys(next.domains).flatMap((name) => {
    const other = claims.get(claimId(tenant, name))?.project.slug;
    const isOthers = other !== undefined && other !== slug;
    if (!isOthers && (name !== server.server.hostname || tenant === OPERATOR)) return [];
    const message = isOthers ? `the domain belongs to the project ${other}` : 'this is the name of the server itself';
    return [{ path: ['domains', name], message, key: true }];
  });
}

interface Decided {
  readonly given: Push;
  readonly row: ProjectRow | undefined;
  readonly current: ProjectConfig | undefined;
  readonly next: ProjectConfig;
  readonly changes: readonly Change[];
}

/** Writes all of it, and answers the revision's id. Rejects with UnmetError where another push came between. */
async function commit({ given, row, current, next, changes }: Decided, parts: PushParts): Promise<string> {
  const { tenant, slug, bundle } = given;
  const { store, clock } = parts;
  const now = clock.now();
  const source = given.source ?? 'push';
  const project = { tenant, slug, name: next.project.name, source, machine: null, file: null, ...bundle };
  const was = row?.revision;
  const id = (await revisionWith(store, project)) ?? newId('rev', now);
  const [keep, put] = putInForce(project, { was, id, author: given.author && writeAuthor(given.author) }, now);
  const gone = Object.keys(current?.domains ?? {}).filter((name) => !Object.hasOwn(next.domains, name));
  const listed = changes.slice(0, MAX_LISTED).map(({ op, path }) => ({ op, path }));
  const data = { project: slug, revision: id, changes: listed, count: changes.length };
  const [{ rows }] = await store.write([
    keep,
    put,
    ...gone.map((name) => releaseDomain({ tenant, name, project: slug })),
    recordEvent({ type: 'config.pushed', tenant, at: now, data }),
  ]);
  return rows[0]?.id ?? id;
}

export interface Revision {
  /** `rev_…` */
  readonly id: string;
  readonly config: ProjectConfig;
}

/** The revision with this id (`rev_…`); undefined where it cannot be read (any more). */
export type RevisionOf = (id: string) => Promise<Revision | undefined>;

const REVISIONS = 100;

/** Revisions as the store has them, read with the code that accepts them. */
export function createRevisions({ store, ...reading }: RevisionReading & { readonly store: Store }): RevisionOf {
  return keepRecent(async (id) => {
    const row = await findRevision(store, id);
    if (row === undefined) return undefined;
    const { result } = await readRevision(row, row.tenant, reading);
    return 'ok' in result ? { id, config: result.ok } : undefined;
  });
}

/** The same function, which is called once for what is in use; what it rejects with is forgotten. */
export function keepRecent(load: RevisionOf): RevisionOf {
  const known = new LruMap<Promise<Revision | undefined>>(REVISIONS);
  return (id) => {
    const kept = known.get(id);
    if (kept !== undefined) return kept;
    const loading = load(id).catch((error: unknown) => {
      known.delete(id);
      throw error;
    });
    known.set(id, loading);
    return loading;
  };
}
