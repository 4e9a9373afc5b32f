/** `postern projects …` and `postern rollback`: what is in force, what was, and the way back. */
import { z } from 'zod';
import { PUSHED_FILE } from '../config/bundle.ts';
import { writtenProject } from '../config/diff.ts';
import { glanceAtProject, parseProject } from '../config/parse.ts';
import { NO_SECRETS } from '../config/secrets.ts';
import { UserError } from '../lib/errors.ts';
import type { Client } from './client.ts';
import type { PageFlags } from './commands/asking.ts';
import { isConfirmed } from './confirm.ts';
import { writeFacts, writePage, writeTable } from './list.ts';
import { configPath, isAgreed, planOf, readPlan, unchanged } from './plan.ts';
import { readLocalProject } from './project-folder.ts';
import { EXIT, queryOf, run, shortTime, UsageError, writeJson, type CommandOptions } from './run.ts';
import { counted } from './words.ts';

const project = z.object({
  id: z.string(),
  name: z.string(),
  slug: z.string(),
  source: z.string(),
  managed_by: z.object({ machine: z.string(), file: z.string() }).nullish(),
  file_missing: z.boolean().nullish(),
  revision: z.string().nullable(),
  created_at: z.string(),
});
const listing = z.object({ projects: z.array(project), count: z.number(), next_cursor: z.string().nullable() });
const configuration = z.object({
  config: z.string().nullable(),
  files: z.record(z.string(), z.string()),
  revision: z.string().nullable(),
  revisions: z.array(z.object({ id: z.string(), created_at: z.string(), current: z.boolean() })),
});

const SOURCES: ReadonlyMap<string, string> = new Map([
  ['file', 'file'],
  ['push', 'pushed'],
  ['api', 'API'],
]);

/** Lists the projects, newest first. Answers the exit code, as all of these do. */
export function projectsList(options: CommandOptions, filter: PageFlags): Promise<number> {
  return run(options, async ({ client, terminal, json }) => {
    const data = await client.get(`/projects${queryOf(filter)}`);
    if (json) return writeJson(terminal, data);
    const { projects, ...page } = listing.parse(data);
    const rows = projects.map(({ slug, source, revision, created_at, name }) => [
      slug,
      SOURCES.get(source) ?? source,
      revision ?? '-',
      shortTime(created_at),
      name,
    ]);
    const nothing = 'There is no project yet; postern init and postern push make one.';
    writePage(terminal, { headings: ['PROJECT', 'SOURCE', 'REVISION', 'SINCE', 'NAME'], rows }, { ...page, nothing });
  });
}

/** Shows a project. */
export function projectsShow(options: CommandOptions, slug: string): Promise<number> {
  return run(options, async ({ client, terminal, json }) => {
    const data = await client.get(`/projects/${encodeURIComponent(slug)}`);
    if (json) return writeJson(terminal, data);
    const {
      name,
      source,
      managed_by: managed,
      file_missing: missing,
      revision,
      created_at: since,
    } = project.parse(data);
    const { config, revisions } = configuration.parse(await client.get(configPath(slug)));
    const { domains, collections } = glanceAtProject(config ?? '{}');
    writeFacts(terminal, [
      ['project', slug],
      ['name', name],
      ['since', shortTime(since)],
      ['source', SOURCES.get(source) ?? source],
      ...(managed
        ? [['file', `${managed.file} on ${managed.machine}${missing === true ? ' (missing)' : ''}`] as const]
        : []),
      ['revision', revision === null ? '-' : `${revision}, one of ${revisions.length}`],
      ['domains', domains.join(', ') || '-'],
      ['collections', collections.join(', ') || '-'],
    ]);
  });
}

/** Removes a project, after confirmation. */
export function projectsRemove(
  options: CommandOptions,
  slug: string,
  { yes, force }: { readonly yes: boolean; readonly force: boolean },
): Promise<number> {
  return run(options, async ({ client, terminal, json }) => {
    const path = `/projects/${encodeURIComponent(slug)}`;
    project.parse(await client.get(path));
    const question = `Remove ${slug}? Its domains and forms will no longer be served. Submissions stay, and queued mail is still sent.`;
    if (!(await isConfirmed(terminal, question, yes))) return EXIT.failed;
    const data = await client.delete(force ? `${path}?force=true` : path);
    if (json) return writeJson(terminal, data);
    terminal.write(`Removed ${slug}.\n`);
  });
}

/** Lists the revisions of a project, the latest in force first. */
export function projectsRevisions(options: CommandOptions, slug: string | undefined): Promise<number> {
  return run(options, async ({ client, terminal, json }) => {
    const data = await client.get(configPath(slug ?? (await slugHere(terminal.folder))));
    const { revisions } = configuration.parse(data);
    if (json) return writeJson(terminal, { revisions });
    if (revisions.length === 0) return terminal.write('It has no configuration yet; postern push gives it one.\n');
    let back = 0;
    const rows = revisions.map(({ id, created_at, current }) => [
      current ? 'in force' : String(++back),
      id,
      shortTime(created_at),
    ]);
    writeTable(terminal, { headings: ['BACK', 'REVISION', 'ACCEPTED'], rows });
  });
}

export interface RollbackOptions {
  /** `--project`; else that of this folder. */
  readonly project?: string | undefined;
  /** `rev_…`, or how many back; the one before unless told. */
  readonly revision: string;
  readonly yes: boolean;
  readonly dryRun: boolean;
}

/** Puts an earlier revision in force again, after a look at what that changes. */
export function rollback(options: CommandOptions, given: RollbackOptions): Promise<number> {
  return run(options, async ({ client, terminal, json }) => {
    const { yes, dryRun } = given;
    const slug = given.project ?? (await slugHere(terminal.folder));
    const wanted = await revisionToRestore(client, slug, given.revision);
    const { yaml, files } = wanted;
    const plan = await planOf({ client, slug, bundle: { yaml, files } });
    if (plan.revision === wanted.id) {
      if (json) writeJson(terminal, plan.data);
      else terminal.write(`${wanted.id} is in force already.\n`);
      return EXIT.done;
    }
    const read = parseProject(yaml, PUSHED_FILE, { files, env: NO_SECRETS });
    const after = 'ok' in read ? writtenProject(read.ok) : {};
    const agreed = await isAgreed(options, { slug, plan, after, file: wanted.id, yes, dryRun });
    if (!agreed) return unchanged(options, plan, dryRun);
    const body = { revision: wanted.id, base_revision: plan.revision };
    const done = readPlan(await client.post(`/projects/${encodeURIComponent(slug)}/rollback`, body));
    if (json) return writeJson(terminal, done.data);
    terminal.write(
      `${slug} is in force as ${done.revision}. postern.yml is as it was: the next push puts that in force.\n`,
    );
  });
}

interface Restored {
  readonly id: string;
  readonly yaml: string;
  readonly files: Readonly<Record<string, string>>;
}

/** Throws UserError where there is none such. */
async function revisionToRestore(client: Client, slug: string, asked: string): Promise<Restored> {
  const { revisions } = configuration.parse(await client.get(configPath(slug)));
  const others = revisions.filter(({ current }) => !current);
  const id = /^\d+$/.test(asked) ? others[Number(asked) - 1]?.id : asked;
  if (id === undefined) {
    if (others.length === 0) throw new UsageError(`${slug} has no earlier revision to go back to`);
    const there = counted(others.length, 'earlier revision');
    throw new UsageError(`${slug} has ${there}: postern projects revisions ${slug} lists them`);
  }
  const { config, files } = configuration.parse(await client.get(`${configPath(slug)}${queryOf({ revision: id })}`));
  return { id, yaml: config ?? '', files };
}

/** The slug that the project of this folder has, whether it is valid or not. */
async function slugHere(folder: string): Promise<string> {
  const { yaml, file } = await readLocalProject(folder, undefined).catch((error: unknown) => {
    if (!(error instanceof UserError)) throw error;
    throw new UsageError(`which project? Name it, or stand in the folder of its ${PUSHED_FILE}`);
  });
  const { slug } = glanceAtProject(yaml);
  if (slug === undefined) throw new UserError(`${file} has no project.slug`);
  return slug;
}
