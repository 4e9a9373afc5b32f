/**
 * The active configuration, and its reload. Active projects are revisions in the database; a project file is a push by
 * the operator, which makes a revision when the file differs from what this machine loaded last. What is invalid changes
 * nothing: server.yml and each project keep what is active, and `problems` of the snapshot says so. Reloads never overlap,
 * and a snapshot is swapped as a whole, only after every revision in it is committed.
 */
import { dirname } from 'node:path';
import { Turns } from '../lib/batch.ts';
import { errorFields, messageOf, UserError } from '../lib/errors.ts';
import { environmentOf } from '../lib/ids.ts';
import type { Log } from '../lib/log.ts';
import type { Bundle, BundleReader } from './bundle.ts';
import { diffConfig, writtenProject, writtenServer, type Change } from './diff.ts';
import {
  checkConfig,
  checkFolder,
  placesOf,
  type ConfigReport,
  type FolderCheck,
  type FolderContext,
  type RefusedFile,
  loadServer,
  type ProjectFile,
  type Reading,
} from './folder.ts';
import {
  projectName,
  readActiveProjects,
  type ActiveProjects,
  type ProjectRecord,
  type StoredRevision,
} from './active-projects.ts';
import { type Project, buildSnapshot, type Snapshot, freeze } from './snapshot.ts';
import { glanceAtProject } from './parse.ts';
import { formatProblem } from './problem.ts';
import type { ServerConfig } from './schema.ts';
import { valueAt, restartKeys } from './explain.ts';
import { serverSchema } from './schema-server.ts';
import { type ServerOrigin, type ShownSetting, shownSettings } from './shown.ts';

/** What a machine loaded last from a file. */
export interface LoadedFile {
  /** Its path. */
  readonly file: string;
  readonly slug: string;
  readonly hash: string;
}

/** What a load of the folder changes in the database, as one unit. */
export interface FolderLoad {
  /** Files whose content is to be deployed. */
  readonly deploy: readonly FileContent[];
  /** Projects whose file has gone (1), and those whose file is back (0). */
  readonly moved: readonly Pick<ProjectRecord, 'slug' | 'file_missing'>[];
}

/** A file's content, and where it comes from. */
export interface FileContent extends Bundle, Omit<LoadedFile, 'hash'> {
  readonly name: string;
  /** The revision that it replaces. */
  readonly was: string | undefined;
}

/** The projects in the database. */
export interface ProjectStore {
  /** All of them, the oldest first. */
  list(): Promise<readonly ProjectRecord[]>;
  revision(id: string): Promise<StoredRevision | undefined>;
  /** By domain: the tenant that owns it, where one does. */
  owners(domains: readonly string[]): Promise<ReadonlyMap<string, string>>;
  /** What this machine loaded last from its files. */
  loaded(): Promise<readonly LoadedFile[]>;
  hash(content: Bundle): string;
  /** False where another daemon changed one of the projects meanwhile: then nothing is written. */
  save(load: FolderLoad): Promise<boolean>;
}

export interface ConfigSourceOptions {
  /** Path of server.yml; projects lie beside it. */
  readonly file: string;
  /** What `loadServer` made of it: the daemon opened its database by that. */
  readonly server: ServerConfig;
  /** What it was made of. */
  readonly origin?: ServerOrigin;
  /** The tenant that owns the projects of files. */
  readonly tenant: string;
  /** As the database knows it. */
  readonly machine: string;
  readonly reading: Reading;
  readonly projects: ProjectStore;
  /** Reads what was pushed. */
  readonly reader: BundleReader;
  readonly log: Log;
}

/** A key that a reload changed; values stay out of logs. */
export type FileChange = Pick<Change, 'op' | 'path'> & { readonly file: string };

export type Reload =
  | { readonly kind: 'unchanged' }
  /** Something new is active or waits for a restart; `problems` may say what of it is not. */
  | {
      readonly kind: 'applied';
      readonly changes: readonly FileChange[];
      readonly waiting: readonly string[];
      readonly problems: readonly string[];
    }
  /** Nothing new is active. */
  | { readonly kind: 'refused'; readonly problems: readonly string[] };

export interface ConfigSource {
  /** What is active now. */
  current(): Snapshot;
  /** What server.yml says of it. */
  server(): ServerConfig;
  /** The active settings of server.yml, without secrets. */
  settings(): readonly ShownSetting[];
  /** Reads all files again, and what the database says of projects. Never rejects: what cannot be read is a refusal. */
  reload(): Promise<Reload>;
  /** Takes over what the database says of projects and domains now. Rejects where it cannot be read. */
  refresh(): Promise<void>;
  /** Checks the files as they are on disk now, and changes nothing. */
  check(): Promise<ConfigReport>;
  /** Calls `listener` after each reload that changed something. */
  onChange(listener: Listener): void;
}

type Listener = (snapshot: Snapshot, before: Snapshot) => void;

interface ServerState {
  readonly server: ServerConfig;
  readonly origin: ServerOrigin;
  /** Why nothing of server.yml was taken over; empty where it was. */
  readonly problems: readonly string[];
  readonly warnings: readonly string[];
  /** Keys that wait for a restart. */
  readonly waiting: readonly string[];
}

interface State {
  readonly server: ServerState;
  readonly refused: readonly RefusedFile[];
  readonly inForce: readonly ActiveProjects[];
  readonly snapshot: Snapshot;
}

/** Changes that one line of the log names; the rest is counted. */
const MAX_LOGGED = 20;
/** Loads that may find each time that another daemon was faster. */
const MAX_TRIES = 10;
/** Errors of one file that are listed; the rest is counted. */
const MAX_LISTED = 20;

/** Loads the projects for the first time. Rejects where the folder or the database cannot be read. */
export async function createConfigSource(options: ConfigSourceOptions): Promise<ConfigSource> {
  const { log, file } = options;
  const listeners: Listener[] = [];
  const turns = new Turns();
  const { server, origin = { references: [], data: undefined } } = options;
  const first = await load(options, { server, origin, problems: [], warnings: [], waiting: [] }, []);
  let state: State = first;
  report(first);
  return {
    current: () => state.snapshot,
    server: () => state.snapshot.server,
    settings: () => shownSettings(state.server.server, state.server.origin),
    reload,
    refresh,
    check,
    onChange: (listener) => void listeners.push(listener),
  };

  function reload(): Promise<Reload> {
    return turns.run('', async () => {
      try {
        return await once();
      } catch (error) {
        log.error('config.reload_failed', errorFields(error));
        return { kind: 'refused', problems: [`the configuration cannot be read: ${messageOf(error)}`] } as const;
      }
    });
  }

  async function check(): Promise<ConfigReport> {
    const found = await checkConfig(file, options.reading, contextOf(options, state.inForce));
    const { waiting } = await readServer(options, state.server);
    const warnings = waiting.map((key) => `${file}: ${key}: the new value takes effect after a restart`);
    return { ...found, warnings: [...found.warnings, ...warnings] };
  }

  function refresh(): Promise<void> {
    return turns.run('', async () => {
      const before = state;
      const inForce = await readStored(options, before.inForce, false);
      const after = await stateOf(options, { ...before, inForce });
      const changed = changedProjects(before, after);
      if (changed.length === 0) return;
      // What a file could not have it may have now.
      state = before.refused.length === 0 ? after : await load(options, before.server, inForce);
      log.info('config.refreshed', { changed: changed.slice(0, MAX_LOGGED), count: changed.length });
      const known = new Set(before.snapshot.problems);
      for (const problem of state.snapshot.problems) if (!known.has(problem)) log.error('config.problem', { problem });
      notify(state.snapshot, before.snapshot);
    });
  }

  async function once(): Promise<Reload> {
    const before = state;
    const server = await readServer(options, before.server);
    const after = await load(options, server, before.inForce);
    const changes = [
      ...changesIn(file, writtenServer(before.server.server), writtenServer(after.server.server)),
      ...after.deployed.flatMap(({ file: path, slug }) =>
        changesIn(path, writtenOf(before, slug), writtenOf(after, slug)),
      ),
    ];
    const { problems, waiting } = after.snapshot;
    const isSame =
      JSON.stringify([problems, waiting]) === JSON.stringify([before.snapshot.problems, before.snapshot.waiting]);
    state = after;
    if (changes.length > 0 || changedProjects(before, after).length > 0) notify(after.snapshot, before.snapshot);
    const isRefused = after.server.problems.length > 0 || after.refused.length > 0;
    if (changes.length === 0 && isSame && !isRefused) return { kind: 'unchanged' };
    report(after);
    if (changes.length === 0 && isRefused) return { kind: 'refused', problems };
    log.info('config.applied', { changes: changes.map(({ op, file: at, path }) => `${at}: ${op} ${path}`) });
    return { kind: 'applied', changes, waiting, problems };
  }

  function writtenOf({ inForce }: State, slug: string): unknown {
    const own = inForce.find(({ record }) => record.tenant === options.tenant && record.slug === slug);
    return own?.project && writtenProject(own.project.config);
  }

  function report({ server, warnings, snapshot }: Loaded): void {
    for (const warning of [...server.warnings, ...warnings]) log.warn('config.warning', { warning });
    if (snapshot.waiting.length > 0) log.warn('config.restart_needed', { keys: snapshot.waiting });
    for (const problem of snapshot.problems) log.error('config.problem', { problem });
  }

  function notify(snapshot: Snapshot, before: Snapshot): void {
    for (const listener of listeners) {
      try {
        listener(snapshot, before);
      } catch (error) {
        log.error('config.listener_failed', errorFields(error));
      }
    }
  }
}

interface Loaded extends State {
  /** What was deployed from files. */
  readonly deployed: readonly FileContent[];
  readonly warnings: readonly string[];
}

/** Deploys the files that have changed, and reads what is active then. */
async function load(
  options: ConfigSourceOptions,
  server: ServerState,
  before: readonly ActiveProjects[],
): Promise<Loaded> {
  let inForce = before;
  for (let tries = 1; tries <= MAX_TRIES; tries++) {
    inForce = await readStored(options, inForce, true);
    const bounded = { ...options.reading, formRecipients: server.server.limits.form_recipients };
    const { refused, warnings, ...check } = await checkFolder(options.file, bounded, contextOf(options, inForce));
    const change = await loadOf(options, check, inForce);
    const isSame = change.deploy.length + change.moved.length === 0;
    if (!isSame && !(await options.projects.save(change))) continue;
    if (!isSame) inForce = await readStored(options, inForce, false);
    return { ...(await stateOf(options, { server, refused, inForce })), deployed: change.deploy, warnings };
  }
  throw new Error('other daemons keep changing the same projects');
}

async function readStored(
  { projects, reader, reading }: ConfigSourceOptions,
  before: readonly ActiveProjects[],
  again: boolean,
): Promise<readonly ActiveProjects[]> {
  const records = await projects.list();
  return readActiveProjects({ records, revision: projects.revision, reader, secrets: reading.secrets, before, again });
}

function contextOf({ tenant, projects }: ConfigSourceOptions, inForce: readonly ActiveProjects[]): FolderContext {
  return { tenant, inForce: inForce.flatMap(({ project }) => project ?? []), owners: projects.owners };
}

/** What is to change: files that differ from what this machine loaded last, and those that have gone or are back. */
async function loadOf(
  { file: serverFile, tenant, machine, projects }: ConfigSourceOptions,
  { files, deployable }: Pick<FolderCheck, 'files' | 'deployable'>,
  inForce: readonly ActiveProjects[],
): Promise<FolderLoad> {
  const records = new Map(
    inForce.flatMap(({ record }) => (record.tenant === tenant ? [[record.slug, record] as const] : [])),
  );
  const loaded = new Map((await projects.loaded()).map((one) => [one.file, one]));
  const deploy = deployable.flatMap(({ shown: file, text: yaml, files, config }): FileContent[] => {
    const { slug, name } = config.project;
    const last = loaded.get(file);
    const record = records.get(slug);
    const isKnown = last?.slug === slug && last.hash === projects.hash({ yaml, files });
    return isKnown && record !== undefined ? [] : [{ file, slug, name, yaml, files, was: record?.revision }];
  });
  const slugs = new Map(files.map(({ shown, result }) => [shown, 'ok' in result ? result.ok.project.slug : undefined]));
  const moved = [...records.values()].filter(({ slug, ...record }) => {
    if (record.machine !== machine || record.file === null || deploy.some((one) => one.slug === slug)) return false;
    if (dirname(dirname(record.file)) !== dirname(serverFile)) return false;
    const isThere = slugs.has(record.file) && (slugs.get(record.file) ?? slug) === slug;
    return isThere === (record.file_missing === 1);
  });
  return { deploy, moved: moved.map(({ slug, file_missing }) => ({ slug, file_missing: 1 - file_missing })) };
}

async function readServer(
  { file, reading }: ConfigSourceOptions,
  { server: running, origin }: Pick<ServerState, 'server' | 'origin'>,
): Promise<ServerState> {
  try {
    const result = await loadServer(file, reading.secrets);
    if (!('ok' in result)) return refuse(result.errors.map(formatProblem));
    const { server, waiting } = applicable(running, result.ok);
    const { references, data } = result;
    // A value that waits for a restart is still what it was made of.
    const kept = origin.references.filter(({ path }) => waiting.some((key) => isWithin(path.join('.'), key)));
    return {
      server,
      origin: { references: [...references, ...kept], data },
      waiting,
      problems: [],
      warnings: result.warnings.map(formatProblem),
    };
  } catch (error) {
    if (error instanceof UserError) return refuse([error.message]);
    throw error;
  }

  function refuse(errors: readonly string[]): ServerState {
    const problems = [`${file}: the running configuration stays active`, ...errors];
    return { server: running, origin, problems, warnings: [], waiting: [] };
  }
}

/** Whether the one path is at or below the other, or above it. */
function isWithin(path: string, key: string): boolean {
  return path === key || path.startsWith(`${key}.`) || key.startsWith(`${path}.`);
}

/** Puts the parts together: the one place where a snapshot is made. Rejects where the database cannot be read. */
async function stateOf(
  { tenant, projects: { owners } }: ConfigSourceOptions,
  { server, refused, inForce }: Omit<State, 'snapshot'>,
): Promise<State> {
  const projects = inForce.flatMap(({ project }) => project ?? []);
  const live = projects.filter((project) => environmentOf(project.tenant) === 'live');
  const served = new Set(live.flatMap(({ config }) => Object.keys(config.domains)));
  const outOfService = inForce.flatMap(({ record, unavailable }) =>
    unavailable.map((name) => [name, projectName(record)] as const),
  );
  const refusals = refused.map((one) => ({ ...one, project: inForceOf(one.file, inForce, tenant) }));
  const undeployed = refusals.filter(({ project }) => project === undefined);
  const lost = undeployed.flatMap(({ file }) => placesOf(file).map((place) => [place, file.shown] as const));
  const collections = new Set(
    projects.flatMap(({ config }) => Object.keys(config.collections).map((name) => `c/${name}`)),
  );
  return {
    server,
    refused,
    inForce,
    snapshot: buildSnapshot({
      server: server.server,
      projects,
      owners: await owners(sharedNames(live)),
      unavailable: new Map(
        [...outOfService, ...lost].filter(([place]) => !served.has(place) && !collections.has(place)),
      ),
      unread: new Set([
        ...(undeployed.length > 0 ? [tenant] : []),
        ...inForce.flatMap(({ record, project }) => (project === undefined ? [record.tenant] : [])),
      ]),
      problems: [
        ...server.problems,
        ...refusals.flatMap((one) => problemsOf(one, one.project)),
        ...inForce.flatMap(({ problems }) => problems),
      ],
      waiting: server.waiting,
    }),
  };
}

/** Domains that several accounts claim. */
function sharedNames(projects: readonly Project[]): string[] {
  const claims = projects.flatMap(({ tenant, config }) =>
    Object.keys(config.domains).map((name) => ({ name, tenant })),
  );
  const byName = Map.groupBy(claims, ({ name }) => name);
  return [...byName].flatMap(([name, by]) => (new Set(by.map(({ tenant }) => tenant)).size > 1 ? [name] : []));
}

/** The project that stays active where its file is refused. */
function inForceOf(
  { shown, text }: ProjectFile,
  inForce: readonly ActiveProjects[],
  tenant: string,
): Project | undefined {
  const { slug } = glanceAtProject(text);
  const own = inForce.filter(({ record }) => record.tenant === tenant);
  return (own.find(({ record }) => record.slug === slug) ?? own.find(({ record }) => record.file === shown))?.project;
}

function problemsOf({ file, errors }: RefusedFile, project: Project | undefined): string[] {
  const places = placesOf(file).join(', ') || 'its project';
  const outcome =
    project === undefined
      ? `no revision of it is active, so ${places} is out of service until it is corrected`
      : `its revision ${project.revision} stays active`;
  const rest = errors.length > MAX_LISTED ? [`${file.shown}: and ${errors.length - MAX_LISTED} more errors`] : [];
  return [`${file.shown}: ${outcome}`, ...errors.slice(0, MAX_LISTED), ...rest];
}

function changesIn(file: string, before: unknown, after: unknown): FileChange[] {
  return diffConfig(before, after).map(({ op, path }) => ({ op, path, file }));
}

/** Projects, and domains, that are not what they were, as the log names them. */
function changedProjects(before: State, after: State): string[] {
  const [old, now] = [before, after].map(
    ({ inForce }) => new Map(inForce.map((one) => [projectName(one.record), one])),
  );
  const projects = new Set([...(old?.keys() ?? []), ...(now?.keys() ?? [])]);
  const domains = new Set([...before.snapshot.domains.keys(), ...after.snapshot.domains.keys()]);
  return [
    ...[...projects].filter((name) => old?.get(name) !== now?.get(name)),
    ...[...domains].filter((name) => tenantOf(before, name) !== tenantOf(after, name)),
  ];
}

function tenantOf({ snapshot }: State, domain: string): string | undefined {
  return snapshot.domains.get(domain)?.project.tenant;
}

/**
 * The new configuration with the running values of what needs a restart, and the paths that wait for one. Where the two do
 * not go together, such as `tls.mode: files` without `tls.files`, all of the new waits.
 */
function applicable(running: ServerConfig, wanted: ServerConfig): { server: ServerConfig; waiting: string[] } {
  const now = writtenServer(running);
  const waiting = restartKeys(serverSchema).filter(
    (path) => diffConfig(valueAt(now, path), valueAt(writtenServer(wanted), path)).length > 0,
  );
  if (waiting.length === 0) return { server: wanted, waiting: [] };
  let written: unknown = writtenServer(wanted);
  for (const path of waiting) written = withValue(written, path, valueAt(now, path));
  const mixed = serverSchema.safeParse(written);
  if (mixed.success) return { server: freeze(mixed.data), waiting: waiting.map((path) => path.join('.')) };
  return { server: running, waiting: diffConfig(now, writtenServer(wanted)).map(({ path }) => path) };
}

function withValue(data: unknown, [key, ...rest]: readonly string[], value: unknown): unknown {
  if (key === undefined) return value;
  return { ...(typeof data === 'object' ? data : {}), [key]: withValue(valueAt(data, [key]), rest, value) };
}
