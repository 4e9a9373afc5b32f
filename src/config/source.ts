/**
 * The configuration that is in force, and its reload. What is invalid changes nothing: server.yml and each project file
 * keep their last good version on their own, and `problems` of the snapshot says so. Reloads never overlap, and a
 * snapshot is swapped only after every revision in it is committed.
 */
import { dirname, join } from 'node:path';
import { errorFields, messageOf, UserError } from '../lib/errors.ts';
import type { Log } from '../lib/log.ts';
import { assembleProjects, type Assembled, type Revisions, type Served } from './assemble.ts';
import { diffConfig, writtenProject, writtenServer, type Change } from './diff.ts';
import { loadServer, type Reading } from './load.ts';
import { formatProblem } from './problem.ts';
import { applicable } from './restart.ts';
import type { ServerConfig } from './schema.ts';
import { buildSnapshot, type Snapshot } from './snapshot.ts';

export interface ConfigSourceOptions {
  /** Path of server.yml; projects lie beside it. */
  readonly file: string;
  /** What `loadServer` made of it: the daemon opened its database by that. */
  readonly server: ServerConfig;
  /** The tenant that owns projects on disk. */
  readonly tenant: string;
  readonly reading: Reading;
  readonly revisions: Revisions;
  readonly log: Log;
}

/** A key that a reload changed; values stay out of logs. */
export type FileChange = Pick<Change, 'op' | 'path'> & { readonly file: string };

export type Reload =
  | { readonly kind: 'unchanged' }
  /** Something new is in force; `problems` may say what of it is not. */
  | { readonly kind: 'applied'; readonly changes: readonly FileChange[]; readonly problems: readonly string[] }
  /** Nothing new is in force. */
  | { readonly kind: 'refused'; readonly problems: readonly string[] };

export interface ConfigSource {
  /** What is in force now. */
  current(): Snapshot;
  /** Reads all files again. Never rejects: what cannot be read is a refusal. */
  reload(): Promise<Reload>;
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
  return { current: () => state.snapshot, reload, onChange };

  function reload(): Promise<Reload> {
    const next = last.then(async () => {
      try {
        return await once();
      } catch (error) {
        log.error('config.reload_failed', errorFields(error));
        return { kind: 'refused', problems: [`the configuration cannot be read: ${messageOf(error)}`] } as const;
      }
    });
    last = next;
    return next;
  }

  async function once(): Promise<Reload> {
    const before = state;
    const after = await nextState(options, before);
    const changes = changesBetween(options.file, before, after);
    const { problems } = after.snapshot;
    const sameProblems = JSON.stringify(problems) === JSON.stringify(before.snapshot.problems);
    // A new comment is a new revision as well, although it changes nothing.
    state = after;
    if (changes.length === 0 && sameProblems && after.refused === 0) return { kind: 'unchanged' };
    report(options, after);
    if (changes.length === 0 && after.refused > 0) return { kind: 'refused', problems };
    log.info('config.applied', { changes: changes.map(({ op, file, path }) => `${file}: ${op} ${path}`) });
    if (changes.length > 0) tell(after.snapshot, before.snapshot);
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

interface State {
  readonly served: readonly Served[];
  readonly snapshot: Snapshot;
  readonly warnings: readonly string[];
  /** Files of which another version than what stands there is in force, or none. */
  readonly refused: number;
}

async function firstState(options: ConfigSourceOptions): Promise<State> {
  const projects = await assemble(options, []);
  return stateOf({ server: options.server, problems: [], warnings: [] }, projects);
}

async function nextState(options: ConfigSourceOptions, before: State): Promise<State> {
  const server = await readServer(options, before.snapshot.server);
  return stateOf(server, await assemble(options, before.served));
}

function assemble({ file, tenant, reading, revisions }: ConfigSourceOptions, before: readonly Served[]) {
  return assembleProjects({ serverFile: file, tenant, reading, revisions, before });
}

interface ServerState {
  readonly server: ServerConfig;
  readonly problems: readonly string[];
  readonly warnings: readonly string[];
  readonly refused?: true;
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

function stateOf({ server, problems, warnings, refused }: ServerState, projects: Assembled): State {
  return {
    served: projects.served,
    snapshot: buildSnapshot({
      server,
      projects: projects.served.map(({ project }) => project),
      unavailable: projects.unavailable,
      problems: [...problems, ...projects.problems],
    }),
    warnings: [...warnings, ...projects.warnings],
    refused: (refused === true ? 1 : 0) + projects.problems.length,
  };
}

function changesBetween(file: string, before: State, after: State): FileChange[] {
  const folder = dirname(file);
  const server = diffConfig(writtenServer(before.snapshot.server), writtenServer(after.snapshot.server));
  const projects = new Set([...before.served, ...after.served].map((served) => served.file));
  return [
    ...server.map(({ op, path }) => ({ op, path, file })),
    ...[...projects].flatMap((name) => {
      const [old, now] = [before, after].map(({ served }) => served.find((project) => project.file === name)?.config);
      if (old === now) return [];
      const changes = diffConfig(
        old === undefined ? undefined : writtenProject(old),
        now === undefined ? undefined : writtenProject(now),
      );
      return changes.map(({ op, path }) => ({ op, path, file: join(folder, name) }));
    }),
  ];
}

function report({ log }: ConfigSourceOptions, { snapshot, warnings }: State): void {
  for (const warning of warnings) log.warn('config.warning', { warning });
  for (const problem of snapshot.problems) log.error('config.problem', { problem });
}
