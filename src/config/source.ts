/**
 * The configuration that is in force, and its reload. What is invalid changes nothing: server.yml, each project file and
 * each pushed project keep their last good version on their own, and `problems` of the snapshot says so. Reloads never
 * overlap, and a snapshot is swapped as a whole, only after every revision in it is committed.
 */
import { errorFields, messageOf, UserError } from '../lib/errors.ts';
import type { Log } from '../lib/log.ts';
import { assembleProjects, type Assembled, type Revisions } from './assemble.ts';
import type { BundleReader } from './bundle.ts';
import { loadServer, type Reading } from './load.ts';
import { formatProblem } from './problem.ts';
import { applicable } from './restart.ts';
import type { ServerConfig } from './schema.ts';
import type { Snapshot } from './snapshot.ts';
import {
  changesBetween,
  stateOf,
  storedChanges,
  takenBy,
  type FileChange,
  type ServerState,
  type State,
} from './state.ts';
import { readStored, type Kept, type StoredProjects } from './stored.ts';

export interface ConfigSourceOptions {
  /** Path of server.yml; projects lie beside it. */
  readonly file: string;
  /** What `loadServer` made of it: the daemon opened its database by that. */
  readonly server: ServerConfig;
  /** The tenant that owns projects on disk. */
  readonly tenant: string;
  readonly reading: Reading;
  readonly revisions: Revisions;
  /** The projects that live in the database. */
  readonly stored: StoredProjects;
  /** Reads what was pushed. */
  readonly reader: BundleReader;
  readonly log: Log;
}

export type Reload =
  | { readonly kind: 'unchanged' }
  /** Something new is in force; `problems` may say what of it is not. */
  | { readonly kind: 'applied'; readonly changes: readonly FileChange[]; readonly problems: readonly string[] }
  /** Nothing new is in force. */
  | { readonly kind: 'refused'; readonly problems: readonly string[] };

export interface ConfigSource {
  /** What is in force now. */
  current(): Snapshot;
  /** Reads all files again, and what the database says of projects. Never rejects: what cannot be read is a refusal. */
  reload(): Promise<Reload>;
  /** Takes over what the database says of projects and domains now. Rejects where it cannot be read. */
  refresh(): Promise<void>;
  /** Calls `listener` after each reload that changed something, until the function it answers is called. */
  onChange(listener: (snapshot: Snapshot, before: Snapshot) => void): () => void;
}

/** Reads the projects for the first time. Rejects where the folder or the store cannot be read. */
export async function createConfigSource(options: ConfigSourceOptions): Promise<ConfigSource> {
  const { log } = options;
  const listeners = new Set<(snapshot: Snapshot, before: Snapshot) => void>();
  let state = await firstState(options);
  let last: Promise<unknown> = Promise.resolve();
  report(options, state);
  return { current: () => state.snapshot, reload, refresh, onChange };

  function reload(): Promise<Reload> {
    return oneAfterAnother(async () => {
      try {
        return await once();
      } catch (error) {
        log.error('config.reload_failed', errorFields(error));
        return { kind: 'refused', problems: [`the configuration cannot be read: ${messageOf(error)}`] } as const;
      }
    });
  }

  function refresh(): Promise<void> {
    return oneAfterAnother(async () => {
      const before = state;
      const after = await refreshed(options, before);
      const changed = storedChanges(before, after);
      if (changed.length === 0) return;
      state = after;
      log.info('config.refreshed', { changed: changed.slice(0, MOST_LOGGED), count: changed.length });
      for (const problem of newProblems(before, after)) log.error('config.problem', { problem });
      tell(after.snapshot, before.snapshot);
    });
  }

  function oneAfterAnother<T>(step: () => Promise<T>): Promise<T> {
    const next = last.then(step);
    last = next.catch(() => undefined);
    return next;
  }

  async function once(): Promise<Reload> {
    const before = state;
    const after = await nextState(options, before);
    const changes = changesBetween(options.file, before, after);
    const { problems } = after.snapshot;
    const sameProblems = JSON.stringify(problems) === JSON.stringify(before.snapshot.problems);
    const elsewhere = storedChanges(before, after).length > 0;
    // A new comment is a new revision as well, although it changes nothing.
    state = after;
    if (changes.length > 0 || elsewhere) tell(after.snapshot, before.snapshot);
    if (changes.length === 0 && sameProblems && after.refused === 0) return { kind: 'unchanged' };
    report(options, after);
    if (changes.length === 0 && after.refused > 0) return { kind: 'refused', problems };
    log.info('config.applied', { changes: changes.map(({ op, file, path }) => `${file}: ${op} ${path}`) });
    return { kind: 'applied', changes, problems };
  }

  function tell(snapshot: Snapshot, before: Snapshot): void {
    for (const listener of listeners) {
      try {
        listener(snapshot, before);
      } catch (error) {
        log.error('config.listener_failed', errorFields(error));
      }
    }
  }

  function onChange(listener: (snapshot: Snapshot, before: Snapshot) => void): () => void {
    listeners.add(listener);
    return () => {
      listeners.delete(listener);
    };
  }
}

/** Changes that one line of the log names; the rest is counted. */
const MOST_LOGGED = 20;

async function firstState(options: ConfigSourceOptions): Promise<State> {
  const stored = await storedNow(options, []);
  const files = await assemble(options, { server: options.server, before: [], stored });
  return stateOf(
    { server: { server: options.server, problems: [], warnings: [] }, files, stored },
    options.stored.standings,
  );
}

async function nextState(options: ConfigSourceOptions, before: State): Promise<State> {
  const server = await readServer(options, before.snapshot.server);
  const stored = await storedNow(options, before.stored);
  const files = await assemble(options, { server: server.server, before: before.files.served, stored });
  return stateOf({ server, files, stored }, options.stored.standings);
}

/** The files as they are in force, and the rest as the database has it now. */
async function refreshed(options: ConfigSourceOptions, before: State): Promise<State> {
  const stored = await storedNow(options, before.stored);
  const isSame = stored.length === before.stored.length && stored.every((kept, i) => kept === before.stored[i]);
  // What a file could not have it may have now.
  const files =
    isSame || before.files.problems.length === 0
      ? before.files
      : await assemble(options, { server: before.server.server, before: before.files.served, stored });
  return stateOf({ server: before.server, files, stored }, options.stored.standings);
}

function storedNow({ stored, reader }: ConfigSourceOptions, before: readonly Kept[]): Promise<readonly Kept[]> {
  return readStored({ stored, reader, before });
}

interface Assembling {
  readonly server: ServerConfig;
  readonly before: Assembled['served'];
  readonly stored: readonly Kept[];
}

function assemble(
  { file, tenant, reading, revisions }: ConfigSourceOptions,
  { server, before, stored }: Assembling,
): Promise<Assembled> {
  const bounded = { ...reading, formRecipients: server.limits.form_recipients };
  return assembleProjects({
    serverFile: file,
    tenant,
    reading: bounded,
    revisions,
    before,
    taken: takenBy(stored, tenant),
  });
}

async function readServer({ file, reading }: ConfigSourceOptions, running: ServerConfig): Promise<ServerState> {
  try {
    const result = await loadServer(file, reading.secrets);
    if (!('ok' in result)) return refuse(result.errors.map(formatProblem));
    const { server, waiting } = applicable(running, result.ok);
    const problems = waiting.map((key) => `${file}: ${key}: the new value takes effect after a restart`);
    return { server, problems, warnings: result.warnings.map(formatProblem) };
  } catch (error) {
    if (error instanceof UserError) return refuse([error.message]);
    throw error;
  }

  function refuse(problems: readonly string[]): ServerState {
    return {
      server: running,
      problems: [`${file}: what was in force goes on`, ...problems],
      warnings: [],
      refused: true,
    };
  }
}

function report({ log }: ConfigSourceOptions, { snapshot, server, files }: State): void {
  for (const warning of [...server.warnings, ...files.warnings]) log.warn('config.warning', { warning });
  for (const problem of snapshot.problems) log.error('config.problem', { problem });
}

function newProblems(before: State, after: State): string[] {
  const known = new Set(before.snapshot.problems);
  return after.snapshot.problems.filter((problem) => !known.has(problem));
}
