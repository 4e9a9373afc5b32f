/**
 * Which version of each project file is served: what stands in the file, or where that is invalid the last good revision
 * of it, or where there is none nothing, loudly. One file's error never touches another file's project.
 */
import { parseDomain } from '../lib/addresses.ts';
import { conflicts, holdings, loopsAcross, type Claimant } from './claims.ts';
import { loadProjects, type ProjectFile, type Reading } from './load.ts';
import { glanceAtProject, parseProject } from './parse.ts';
import { formatProblem } from './problem.ts';
import type { ProjectConfig } from './schema.ts';

import type { Project } from './forms.ts';

/** Errors of one file that are listed; the rest is counted. */
const LISTED = 20;

/** The text of a project and what it names, as the store keeps it. */
export interface Revision {
  /** `rev_…` */
  readonly id: string;
  readonly yaml: string;
  readonly files: Readonly<Record<string, string>>;
}

/** What the store does for projects on disk. */
export interface Revisions {
  /** Keeps the content and answers its revision's id; the same content has the same id. */
  save(project: NewRevision): Promise<string>;
  /** The newest revision that was accepted from this file (`projects/example.yml`), or undefined. */
  lastGood(file: string): Promise<Revision | undefined>;
}

export interface NewRevision extends Omit<Revision, 'id'> {
  readonly slug: string;
  readonly name: string;
  /** Relative to the configuration folder: `projects/example.yml`. */
  readonly file: string;
}

/** A project as it is served now, and the text that it came from. */
export interface Served extends Claimant {
  readonly files: Readonly<Record<string, string>>;
  readonly project: Project;
}

export interface Assembled {
  readonly served: readonly Served[];
  /** Domains, and collections as `c/<name>`, that are out of service, each with the file to mend. */
  readonly unavailable: ReadonlyMap<string, string>;
  /** Whose projects these are, where one of them is out of service, whatever it holds. */
  readonly unread: readonly string[];
  readonly problems: readonly string[];
  readonly warnings: readonly string[];
}

export interface AssembleOptions {
  readonly serverFile: string;
  /** The tenant that owns projects on disk. */
  readonly tenant: string;
  readonly reading: Reading;
  readonly revisions: Revisions;
  /** What is served so far; empty at start. */
  readonly before: readonly Served[];
  /** Claims that pushed projects have, and which project that is: no file gets them. */
  readonly taken: ReadonlyMap<string, string>;
}

/** Reads all project files and decides. Rejects only where the folder or the store cannot be read. */
export async function assembleProjects(options: AssembleOptions): Promise<Assembled> {
  const files = await loadProjects(options.serverFile, options.reading);
  const entries = await Promise.all(files.map((file) => enter(file, options)));
  await settle(entries, options);
  const served: Served[] = [];
  for (const entry of entries) {
    if (entry.version !== undefined) served.push(await serve(entry.version, options));
  }
  const taken = new Set(served.flatMap(({ config }) => placesIn(config)));
  const lost = entries.filter(({ version }) => version === undefined).flatMap(({ file }) => placesOf(file));
  return {
    served,
    unavailable: new Map(lost.filter(([place]) => !taken.has(place))),
    unread: entries.some(({ version }) => version === undefined) ? [options.tenant] : [],
    problems: entries.flatMap(problemsOf),
    warnings: [...files.flatMap(({ result }) => result.warnings.map(formatProblem)), ...loopsAcross(served)],
  };
}

interface Entry {
  readonly file: ProjectFile;
  readonly problems: string[];
  /** What is to be served: with `revision` one that was accepted before, without what stands in the file. */
  version: Version | undefined;
}

type Version = Claimant & Pick<ProjectFile, 'files'> & { readonly revision?: string };

async function enter(file: ProjectFile, options: AssembleOptions): Promise<Entry> {
  const { result, ...source } = file;
  if ('ok' in result) return { file, problems: [], version: { ...source, config: result.ok } };
  return { file, problems: result.errors.map(formatProblem), version: await lastGood(file, options) };
}

async function lastGood({ file, shown }: ProjectFile, options: AssembleOptions): Promise<Version | undefined> {
  const running = options.before.find((served) => served.file === file);
  if (running !== undefined) return { ...running, revision: running.project.revision };
  const stored = await options.revisions.lastGood(file);
  if (stored === undefined) return undefined;
  const { id: revision, yaml: text, files } = stored;
  const result = parseProject(text, shown, { files, env: options.reading.secrets, accepted: true });
  return 'ok' in result ? { file, shown, text, files, config: result.ok, revision } : undefined;
}

/** Whoever loses a conflict falls back to its last good version, and where that loses too, is left out. */
async function settle(entries: readonly Entry[], options: AssembleOptions): Promise<void> {
  const holders = holdings(options.before);
  for (;;) {
    const lost = conflicts(
      entries.flatMap(({ version }) => version ?? []),
      { holders, taken: options.taken },
    );
    if (lost.length === 0) return;
    for (const { loser, problem } of lost) {
      const entry = entries.find(({ version }) => version === loser);
      if (entry === undefined) continue;
      entry.problems.push(problem);
      entry.version = entry.version?.revision !== undefined ? undefined : await lastGood(entry.file, options);
    }
  }
}

async function serve(version: Version, { before, revisions, tenant }: AssembleOptions): Promise<Served> {
  const { file, shown, text, files, config } = version;
  const { slug, name } = config.project;
  const same = before.find((served) => served.file === file && served.text === text && sameFiles(served.files, files));
  const revision =
    version.revision ??
    (same?.config.project.slug === slug ? same.project.revision : undefined) ??
    (await revisions.save({ slug, name, file, yaml: text, files }));
  return { file, shown, text, files, config, project: { revision, slug, tenant, source: 'file', config } };
}

function sameFiles(a: Readonly<Record<string, string>>, b: Readonly<Record<string, string>>): boolean {
  const names = Object.keys(a);
  return names.length === Object.keys(b).length && names.every((name) => Object.hasOwn(b, name) && a[name] === b[name]);
}

/** Where forms are: domains, and collections as `c/<name>`. */
function placesIn({ domains, collections }: ProjectConfig): string[] {
  return [...Object.keys(domains), ...Object.keys(collections).map((name) => `c/${name}`)];
}

function placesOf({ text, shown }: ProjectFile): [place: string, file: string][] {
  const { domains, collections } = glanceAtProject(text);
  const places = [...domains.map((name) => parseDomain(name)), ...collections.map((name) => `c/${name}`)];
  return places.flatMap((place) => (place === undefined ? [] : [[place, shown]]));
}

function problemsOf({ file, problems, version }: Entry): string[] {
  if (problems.length === 0) return [];
  const places = placesOf(file).map(([place]) => place);
  const outcome =
    version === undefined
      ? `no good revision of it is known, so ${places.join(', ') || 'its project'} is out of service until it is mended`
      : `its last good revision ${version.revision ?? ''} goes on`;
  const rest = problems.length > LISTED ? [`${file.shown}: and ${problems.length - LISTED} errors more`] : [];
  return [`${file.shown}: ${outcome}`, ...problems.slice(0, LISTED), ...rest];
}
