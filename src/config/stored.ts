/**
 * The projects that live in the database: pushed ones, each under the revision in force, and those that the API made,
 * which have domains and no YAML. What has not changed since the last look is not read again; a revision that this version
 * of the program does not take puts its own project out of service, or lets what ran go on, and touches no other.
 */
import { parseDomain } from '../lib/addresses.ts';
import type { Bundle, BundleReader } from './bundle.ts';
import type { Standing } from './claims.ts';
import { formatProblem } from './problem.ts';
import { type ProjectConfig } from './schema.ts';
import { projectSchema } from './schema-project.ts';
import type { Project } from './forms.ts';

/** A project as its row says it. */
export interface StoredProject {
  readonly tenant: string;
  /** The tenant's own address. */
  readonly email: string;
  readonly slug: string;
  readonly name: string;
  readonly source: 'push' | 'api';
  /** The one in force; empty for source `api`. */
  readonly revision: string;
  /** For source `api`: what was added to it. */
  readonly domains: readonly string[];
}

/** What the store knows of projects. */
export interface StoredProjects {
  /** All of them, the oldest first. */
  list(): Promise<readonly StoredProject[]>;
  revision(id: string): Promise<Bundle | undefined>;
  /** How the claims to these domains stand. */
  standings(domains: readonly string[]): Promise<readonly Standing[]>;
}

/** A row, and what it stands for. */
export interface Kept {
  readonly row: StoredProject;
  /** Undefined where it is out of service. */
  readonly project: Project | undefined;
  readonly problems: readonly string[];
  /** Out of service, or behind. */
  readonly unavailable: readonly string[];
}

export interface ReadStored {
  readonly stored: StoredProjects;
  readonly reader: BundleReader;
  /** What was found the last time. */
  readonly before: readonly Kept[];
}

/** All projects of the store; those whose rows have not changed are the very ones of `before`. Rejects where the store cannot be read. */
export async function readStored({ stored, reader, before }: ReadStored): Promise<readonly Kept[]> {
  const known = new Map(before.map((kept) => [nameOf(kept.row), kept]));
  const rows = await stored.list();
  return Promise.all(
    rows.map(async (row) => {
      const last = known.get(nameOf(row));
      if (last !== undefined && sameRow(last.row, row)) return last;
      if (row.source === 'api') return kept(row, projectOf(row, madeByApi(row)));
      const revision = await stored.revision(row.revision);
      const read = revision && (await reader.read(revision, { tenant: row.tenant, accepted: true }));
      const result = read?.result;
      if (result !== undefined && 'ok' in result) return kept(row, projectOf(row, result.ok));
      const problems = result?.errors.map(formatProblem) ?? ['it is not in the database'];
      return outOfService({ row, last, problems, domains: read?.named.domains ?? [] });
    }),
  );
}

/** The configuration of a project that has none: its domains, with everything at its default. */
export function madeByApi({ name, slug, domains }: Pick<StoredProject, 'name' | 'slug' | 'domains'>): ProjectConfig {
  return projectSchema.parse({
    project: { name, slug },
    domains: Object.fromEntries(domains.map((domain) => [domain, {}])),
  });
}

function nameOf({ tenant, slug }: StoredProject): string {
  return `${tenant} ${slug}`;
}

function sameRow(a: StoredProject, b: StoredProject): boolean {
  return (
    a.revision === b.revision &&
    a.source === b.source &&
    a.name === b.name &&
    a.email === b.email &&
    a.domains.join() === b.domains.join()
  );
}

function projectOf({ tenant, email, slug, source, revision }: StoredProject, config: ProjectConfig): Project {
  return { tenant, contact: email, slug, source, revision, config };
}

function kept(row: StoredProject, project: Project): Kept {
  return { row, project, problems: [], unavailable: [] };
}

interface Fallen {
  readonly row: StoredProject;
  readonly last: Kept | undefined;
  readonly problems: readonly string[];
  readonly domains: readonly string[];
}

function outOfService({ row, last, problems, domains }: Fallen): Kept {
  const project = last?.project;
  const outcome =
    project === undefined ? 'out of service until it is pushed again' : `its revision ${project.revision} goes on`;
  return {
    row,
    project,
    problems: [`${projectName(row)}: the revision ${row.revision} cannot be used: ${outcome}`, ...problems.slice(0, 5)],
    unavailable: project === undefined ? domains.flatMap((name) => parseDomain(name) ?? []) : [],
  };
}

/** As the operator reads it. */
export function projectName({ tenant, slug }: Pick<Project, 'tenant' | 'slug'>): string {
  return `project ${slug} of ${tenant}`;
}
