/**
 * The active projects, each as its revision in the database says it. What has not changed is not read again. A revision
 * that cannot be read takes its own project out of service, or leaves in service what ran before, and affects no other.
 */
import { parseDomain } from '../lib/addresses.ts';
import type { Bundle, BundleReader, ReadBundle } from './bundle.ts';
import type { Project } from './snapshot.ts';
import { glanceAtProject, parseProject } from './parse.ts';
import { formatProblem } from './problem.ts';
import type { SecretSource } from './secrets.ts';

/** A project's row. */
export interface ProjectRecord {
  readonly tenant: string;
  /** The tenant's own address. */
  readonly email: string;
  readonly slug: string;
  readonly source: Project['source'];
  readonly revision: string;
  /** Whose file manages it, and which; null where none does. */
  readonly machine: string | null;
  readonly file: string | null;
  /** 1: the file is gone. */
  readonly file_missing: number;
}

/** A revision's content. */
export interface StoredRevision extends Bundle {
  /** The file that it was made from: it may name secrets of the machine. Empty for a push. */
  readonly file: string;
}

/** How revisions are read. */
export interface RevisionReading {
  readonly reader: BundleReader;
  /** Of this machine. */
  readonly secrets: SecretSource;
}

/** A record, and what it stands for. */
export interface ActiveProjects {
  readonly record: ProjectRecord;
  /** Undefined where it is out of service. */
  readonly project: Project | undefined;
  readonly problems: readonly string[];
  /** Domains that are out of service. */
  readonly unavailable: readonly string[];
}

interface ReadInForce extends RevisionReading {
  readonly records: readonly ProjectRecord[];
  readonly revision: (id: string) => Promise<StoredRevision | undefined>;
  /** What was found the last time. */
  readonly before: readonly ActiveProjects[];
  /** Whether secrets may have changed: then what names them is read again. */
  readonly again: boolean;
}

/** Reads every project; those that have not changed are the very ones of `before`. */
export function readActiveProjects(options: ReadInForce): Promise<readonly ActiveProjects[]> {
  const known = new Map(options.before.map((one) => [projectName(one.record), one]));
  return Promise.all(options.records.map((record) => readProject(record, known.get(projectName(record)), options)));
}

async function readProject(
  record: ProjectRecord,
  last: ActiveProjects | undefined,
  options: ReadInForce,
): Promise<ActiveProjects> {
  const isSame = last !== undefined && JSON.stringify(last.record) === JSON.stringify(record);
  if (isSame && (record.source !== 'file' || !options.again)) return last;
  const { tenant, slug, source, email: contact } = record;
  const content = await options.revision(record.revision);
  const read = content && (await readRevision(content, tenant, options));
  if (read !== undefined && 'ok' in read.result) {
    const { ok: config } = read.result;
    if (isSame && JSON.stringify(last.project?.config) === JSON.stringify(config)) return last;
    const project: Project = { tenant, contact, slug, source, revision: record.revision, config };
    return { record, project, problems: missingFile(record), unavailable: [] };
  }
  const errors =
    read === undefined || 'ok' in read.result
      ? ['the revision is not in the database']
      : read.result.errors.map(formatProblem);
  const ran = last?.project;
  const outcome =
    ran === undefined ? 'out of service until it is pushed again' : `its revision ${ran.revision} stays active`;
  return {
    record,
    project: ran,
    problems: [
      ...missingFile(record),
      `${projectName(record)}: the revision ${record.revision} cannot be used: ${outcome}`,
      ...errors.slice(0, 5),
    ],
    unavailable: ran === undefined ? (read?.named.domains ?? []).flatMap((name) => parseDomain(name) ?? []) : [],
  };
}

/** Reads a revision that was accepted before. */
export async function readRevision(
  { yaml, files, file }: StoredRevision,
  tenant: string,
  { reader, secrets }: RevisionReading,
): Promise<ReadBundle> {
  if (file === '') return reader.read({ yaml, files }, { tenant, accepted: true });
  return { result: parseProject(yaml, file, { files, env: secrets, accepted: true }), named: glanceAtProject(yaml) };
}

function missingFile({ slug, file, machine, file_missing: missing }: ProjectRecord): string[] {
  if (missing === 0) return [];
  const cure = `restore the file, or delete the project with: postern projects remove ${slug}`;
  return [`${file}: the file is missing on ${machine}. The project ${slug} stays active: ${cure}`];
}

/** As the operator reads it. */
export function projectName({ tenant, slug }: Pick<ProjectRecord, 'tenant' | 'slug'>): string {
  return `project ${slug} of ${tenant}`;
}
