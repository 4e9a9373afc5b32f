/** What is in force, put together: server.yml, the projects on disk and those of the database, and who holds which domain. */
import { dirname, join } from 'node:path';
import { environmentOf } from '../lib/ids.ts';
import type { Assembled } from './assemble.ts';
import { claimsIn, contested, holdersOf } from './claims.ts';
import { diffConfig, writtenProject, writtenServer, type Change } from './diff.ts';
import type { ServerConfig } from './schema.ts';
import { buildSnapshot, type Snapshot } from './snapshot.ts';
import type { Project } from './forms.ts';
import { projectName, type Kept, type StoredProjects } from './stored.ts';

/** A key that a reload changed; values stay out of logs. */
export type FileChange = Pick<Change, 'op' | 'path'> & { readonly file: string };

export interface ServerState {
  readonly server: ServerConfig;
  readonly problems: readonly string[];
  readonly warnings: readonly string[];
  readonly refused?: true;
}

export interface Parts {
  readonly server: ServerState;
  readonly files: Assembled;
  readonly stored: readonly Kept[];
}

export interface State extends Parts {
  readonly snapshot: Snapshot;
  /** Files of which another version than what stands there is in force, or none. */
  readonly refused: number;
  /** By domain that several tenants claim. */
  readonly holders: ReadonlyMap<string, string>;
}

/** Puts the parts together. Rejects where the store cannot be asked who holds what. */
export async function stateOf(parts: Parts, standings: StoredProjects['standings']): Promise<State> {
  const { server, files, stored } = parts;
  // Files come first: where nothing else decides, they have what they claim.
  const projects = [...files.served.map(({ project }) => project), ...stored.flatMap(({ project }) => project ?? [])];
  const holders = await findHolders(projects, standings);
  const served = new Set(projects.flatMap(({ config }) => Object.keys(config.domains)));
  const lost = stored.flatMap(({ row, unavailable }) => unavailable.map((name) => [name, projectName(row)] as const));
  return {
    ...parts,
    holders,
    refused: (server.refused === true ? 1 : 0) + files.problems.length,
    snapshot: buildSnapshot({
      server: server.server,
      projects,
      holders,
      unavailable: new Map([...lost, ...files.unavailable].filter(([place]) => !served.has(place))),
      unread: new Set([...files.unread, ...stored.flatMap(({ row, project }) => (project ? [] : [row.tenant]))]),
      problems: [
        ...server.problems,
        ...files.problems,
        ...displaced(files, holders),
        ...stored.flatMap(({ problems }) => problems),
      ],
    }),
  };
}

/** Domains of files that another tenant has, because their DNS says so. */
function displaced({ served }: Assembled, holders: ReadonlyMap<string, string>): string[] {
  return served.flatMap(({ shown, project }) =>
    Object.keys(project.config.domains).flatMap((name) => {
      const holder = holders.get(name) ?? project.tenant;
      if (holder === project.tenant) return [];
      return [`${shown}: the domain ${name} is served for ${holder}, whose token its DNS publishes`];
    }),
  );
}

async function findHolders(
  projects: readonly Project[],
  standings: StoredProjects['standings'],
): Promise<ReadonlyMap<string, string>> {
  const live = projects.filter(({ tenant }) => environmentOf(tenant) === 'live');
  const claims = live.flatMap(({ tenant, source, config }) =>
    Object.keys(config.domains).map((name) => ({ name, tenant, source })),
  );
  const names = new Set(contested(claims));
  if (names.size === 0) return new Map();
  const known = await standings([...names]);
  return holdersOf(
    claims.filter(({ name }) => names.has(name)),
    known,
  );
}

/** What no file may claim, because a pushed project has it: the tenant's own slugs and domains, and everybody's collections. */
export function takenBy(stored: readonly Kept[], tenant: string): ReadonlyMap<string, string> {
  return new Map(
    stored.flatMap(({ row, project }) => {
      const own = row.tenant === tenant;
      const claims = project === undefined ? [`slug ${row.slug}`] : claimsIn(project.config);
      return claims
        .filter((claim) => own || claim.startsWith('collection '))
        .map((claim) => [claim, projectName(row)] as const);
    }),
  );
}

/** What differs between two states that came from files. */
export function changesBetween(file: string, before: State, after: State): FileChange[] {
  const folder = dirname(file);
  const server = diffConfig(writtenServer(before.server.server), writtenServer(after.server.server));
  const projects = new Set([...before.files.served, ...after.files.served].map((served) => served.file));
  return [
    ...server.map(({ op, path }) => ({ op, path, file })),
    ...[...projects].flatMap((name) => {
      const [old, now] = [before, after].map(
        ({ files }) => files.served.find((project) => project.file === name)?.config,
      );
      if (old === now) return [];
      const changes = diffConfig(
        old === undefined ? undefined : writtenProject(old),
        now === undefined ? undefined : writtenProject(now),
      );
      return changes.map(({ op, path }) => ({ op, path, file: join(folder, name) }));
    }),
  ];
}

/** Projects of the database, and domains, that are not what they were, as the log names them. */
export function storedChanges(before: State, after: State): string[] {
  const old = new Map(before.stored.map((kept) => [projectName(kept.row), kept]));
  const now = new Map(after.stored.map((kept) => [projectName(kept.row), kept]));
  const projects = [...new Set([...old.keys(), ...now.keys()])].filter((name) => old.get(name) !== now.get(name));
  const contestedNames = new Set([...before.holders.keys(), ...after.holders.keys()]);
  return [...projects, ...[...contestedNames].filter((name) => holderIn(before, name) !== holderIn(after, name))];
}

function holderIn({ snapshot }: State, name: string): string | undefined {
  return snapshot.domains.get(name)?.project.tenant;
}
