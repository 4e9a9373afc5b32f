/** `postern push`, `rollback` and `projects …`: shows what a deployment changes, asks, and deploys it. */
import { projects as routes } from '../contract/projects.ts';
import type { AnswerOf } from '../contract/route.ts';
import {
  readAnswer,
  isConfirmed,
  EXIT,
  queryOf,
  run,
  shortTime,
  UsageError,
  writeJson,
  type CommandOptions,
} from './run.ts';
import { PUSHED_FILE, type Bundle } from '../config/bundle.ts';
import { writtenProject } from '../config/diff.ts';
import { glanceAtProject, parseProject } from '../config/parse.ts';
import { NO_SECRETS } from '../config/secrets.ts';
import { UserError } from '../lib/errors.ts';
import { type Client, RequestRefused, type OnSent } from './client.ts';
import type { PageFlags } from './commands/options.ts';
import { type Terminal, printable } from './terminal.ts';

import { writeFacts, writePage, writeTable, counted, barText } from './output.ts';

import { readLocalProject, validProject } from './local-project.ts';

import type { ProjectConfig } from '../config/schema.ts';
import { everyDomain } from './dns-records.ts';
import { formatProblem, type Problem } from '../config/problem.ts';
import { type PlanLine, planLines } from './plan-text.ts';

const SOURCES: ReadonlyMap<string, string> = new Map([
  ['file', 'file'],
  ['push', 'pushed'],
  ['api', 'API'],
]);

/** Lists the projects, newest first. Returns the exit code, as all of these do. */
export function projectsList(options: CommandOptions, filter: PageFlags): Promise<number> {
  return run(options, async ({ client, terminal, json }) => {
    const data = await client.get(`/projects${queryOf(filter)}`);
    if (json) return writeJson(terminal, data);
    const { projects, ...page } = readAnswer(routes.list, data);
    const rows = projects.map(({ slug, source, revision, created_at, name }) => [
      slug,
      SOURCES.get(source) ?? source,
      revision ?? '-',
      shortTime(created_at),
      name,
    ]);
    const nothing = 'No projects found. Create one with postern init and postern push.';
    writePage(terminal, { headings: ['PROJECT', 'SOURCE', 'REVISION', 'CREATED', 'NAME'], rows }, { ...page, nothing });
  });
}

/** Shows a project. */
export function projectsShow(options: CommandOptions, slug: string): Promise<number> {
  return run(options, async ({ client, terminal, json }) => {
    const data = await client.get(`/projects/${encodeURIComponent(slug)}`);
    if (json) return writeJson(terminal, data);
    const project = readAnswer(routes.show, data);
    const { name, source, managed_by: managed, file_missing: missing, revision, created_at: since } = project;
    const { config, revisions } = readAnswer(routes.config, await client.get(configPath(slug)));
    const { domains, collections } = glanceAtProject(config ?? '{}');
    writeFacts(terminal, [
      ['project', slug],
      ['name', name],
      ['created', shortTime(since)],
      ['source', SOURCES.get(source) ?? source],
      ...(managed ? [['file', `${managed.file} on ${managed.machine}${missing ? ' (missing)' : ''}`] as const] : []),
      ['revision', revision === null ? '-' : `${revision}, one of ${revisions.length}`],
      ['domains', domains.join(', ') || '-'],
      ['collections', collections.join(', ') || '-'],
    ]);
  });
}

/** Removes a project after confirmation. */
export function projectsRemove(
  options: CommandOptions,
  slug: string,
  { yes, force }: { readonly yes: boolean; readonly force: boolean },
): Promise<number> {
  return run(options, async ({ client, terminal, json }) => {
    const path = `/projects/${encodeURIComponent(slug)}`;
    readAnswer(routes.show, await client.get(path));
    const question = `Remove ${slug}? Its domains and forms stop working. Submissions are kept, and queued mail is still sent.`;
    if (!(await isConfirmed(terminal, question, yes))) return EXIT.failed;
    const data = await client.delete(force ? `${path}?force=true` : path);
    if (json) return writeJson(terminal, data);
    terminal.write(`Removed ${slug}\n`);
  });
}

/** Lists the revisions of a project, newest first. */
export function projectsRevisions(options: CommandOptions, slug: string | undefined): Promise<number> {
  return run(options, async ({ client, terminal, json }) => {
    const data = await client.get(configPath(slug ?? (await localSlug(terminal.folder))));
    const { revisions } = readAnswer(routes.config, data);
    if (json) return writeJson(terminal, { revisions });
    if (revisions.length === 0) return terminal.write('No revisions found. Deploy one with: postern push\n');
    let back = 0;
    const rows = revisions.map(({ id, created_at, current }) => [
      current ? 'current' : String(++back),
      id,
      shortTime(created_at),
    ]);
    writeTable(terminal, { headings: ['BACK', 'REVISION', 'DEPLOYED'], rows });
  });
}

export interface RollbackOptions {
  /** `--project`; else that of this folder. */
  readonly project?: string | undefined;
  /** `rev_…`, or how many revisions to go back. */
  readonly revision: string;
  readonly yes: boolean;
  readonly dryRun: boolean;
}

/** Deploys an earlier revision after showing what changes. */
export function rollback(options: CommandOptions, given: RollbackOptions): Promise<number> {
  return run(options, async ({ client, terminal, json }) => {
    const { yes, dryRun } = given;
    const slug = given.project ?? (await localSlug(terminal.folder));
    const wanted = await revisionToRestore(client, slug, given.revision);
    const { yaml, files } = wanted;
    const plan = await planOf({ client, slug, bundle: { yaml, files } });
    if (plan.revision === wanted.id) {
      if (json) writeJson(terminal, plan.data);
      else terminal.write(`${wanted.id} is already deployed.\n`);
      return EXIT.done;
    }
    const read = parseProject(yaml, PUSHED_FILE, { files, env: NO_SECRETS });
    const after = 'ok' in read ? writtenProject(read.ok) : {};
    const approved = await isApproved(options, { slug, plan, after, file: wanted.id, yes, dryRun });
    if (!approved) return unchanged(options, plan, dryRun);
    const body = { revision: wanted.id, base_revision: plan.revision };
    const done = readPlan(await client.post(`/projects/${encodeURIComponent(slug)}/rollback`, body));
    if (json) return writeJson(terminal, done.data);
    terminal.write(
      `Deployed ${slug} as ${done.revision}. postern.yml was not changed: the next postern push deploys it again.\n`,
    );
  });
}

interface Restored {
  readonly id: string;
  readonly yaml: string;
  readonly files: Readonly<Record<string, string>>;
}

/** Throws UserError where there is none such. */
async function revisionToRestore(client: Client, slug: string, review: string): Promise<Restored> {
  const { revisions } = readAnswer(routes.config, await client.get(configPath(slug)));
  const others = revisions.filter(({ current }) => !current);
  const id = /^\d+$/.test(review) ? others[Number(review) - 1]?.id : review;
  if (id === undefined) {
    if (others.length === 0) throw new UsageError(`${slug} has no earlier revision`);
    const there = counted(others.length, 'earlier revision');
    throw new UsageError(`${slug} has only ${there}. To list them, run: postern projects revisions ${slug}`);
  }
  const { config, files } = readAnswer(
    routes.config,
    await client.get(`${configPath(slug)}${queryOf({ revision: id })}`),
  );
  return { id, yaml: config ?? '', files };
}

/** The slug that the project of this folder has, whether it is valid or not. */
async function localSlug(folder: string): Promise<string> {
  const { yaml, file } = await readLocalProject(folder, undefined).catch((error: unknown) => {
    if (!(error instanceof UserError)) throw error;
    throw new UsageError(`Specify a project, or run the command in the folder of its ${PUSHED_FILE}`);
  });
  const { slug } = glanceAtProject(yaml);
  if (slug === undefined) throw new UserError(`${file} has no project.slug`);
  return slug;
}

export interface PushOptions {
  /** A folder or a file; else this folder, or the nearest above that has a postern.yml. */
  readonly where?: string | undefined;
  readonly yes: boolean;
  readonly dryRun: boolean;
}

/** Returns the exit code; a configuration that is not valid is 78. */
export function push(options: CommandOptions, { where, yes, dryRun }: PushOptions): Promise<number> {
  return run(options, async ({ client, terminal, json }) => {
    const { folder, progress, write } = terminal;
    const project = await readLocalProject(folder, where);
    const config = validProject(project, terminal);
    if (config === undefined) return EXIT.configuration;
    const { slug } = config.project;
    const { file, yaml, files } = project;
    const bundle = { yaml, files };
    return withPlaces(options, file, async () => {
      const onSent = uploadProgress('Comparing', progress);
      const plan = await planOf({ client, slug, bundle, onSent });
      progress('');
      if (plan.changes.length === 0 && plan.revision !== null && (await isDeployed(client, slug, bundle))) {
        if (json) writeJson(terminal, plan.data);
        else write(`${slug} at ${client.address} is up to date.\n`);
        return EXIT.done;
      }
      const after = writtenProject(config);
      const approved = await isApproved(options, { slug, plan, after, file, yes, dryRun });
      if (!approved) return unchanged(options, plan, dryRun);
      const body = { config: yaml, files, base_revision: plan.revision };
      const done = readPlan(await client.put(configPath(slug), body, uploadProgress('Deploying', progress)));
      progress('');
      if (json) return writeJson(terminal, done.data);
      const back = plan.revision === null ? '' : ' To undo this, run: postern rollback';
      write(`Deployed ${slug} as ${done.revision}.${back}\n`);
      await writeNextSteps(options, config);
    });
  });
}

/** Shows how far a bundle has gone out, and then that the server works on it. */
function uploadProgress(doing: string, progress: Terminal['progress']): OnSent {
  return (sent, total) => progress(`${doing} ${sent < total ? barText(sent, total) : '…'}`);
}

/** Whether text and files are the deployed ones. A plan does not show changed comments or file names. */
async function isDeployed(client: Client, slug: string, { yaml, files }: Bundle): Promise<boolean> {
  const deployed = readAnswer(routes.config, await client.get(configPath(slug)));
  const names = Object.keys(files);
  return (
    deployed.config === yaml &&
    names.length === Object.keys(deployed.files).length &&
    names.every((name) => deployed.files[name] === files[name])
  );
}

/** What is left to do so that its domains send and receive. A key that may push need not see domains. */
async function writeNextSteps({ client, terminal }: CommandOptions, { domains }: ProjectConfig): Promise<void> {
  const names = Object.keys(domains);
  if (names.length === 0) return;
  const known = await everyDomain(client).catch((error: unknown) => {
    if (error instanceof RequestRefused && error.refused.status === 403) return undefined;
    throw error;
  });
  if (known === undefined)
    terminal.write('This API key cannot read domains. Use another key to check their DNS records.\n');
  for (const { domain, status } of known ?? []) {
    if (!names.includes(domain) || status === 'verified') continue;
    terminal.write(`${domain} is ${status}. To see the DNS records to add, run: postern domains setup ${domain}\n`);
  }
}

export interface Plan extends AnswerOf<typeof routes.push> {
  /** The server's answer as it came. */
  readonly data: unknown;
}

interface Question {
  readonly client: Client;
  readonly slug: string;
  readonly bundle: Bundle;
  readonly onSent?: OnSent;
}

/** What a push of the bundle would change; `revision` is the deployed one. */
export async function planOf({ client, slug, bundle, onSent }: Question): Promise<Plan> {
  const { yaml, files } = bundle;
  return readPlan(await client.put(`${configPath(slug)}?dry_run=true`, { config: yaml, files }, onSent));
}

/** Reads the server's answer to a push, dry or not. */
function readPlan(data: unknown): Plan {
  return { ...readAnswer(routes.push, data), data };
}

/** The address of a project's configuration. */
function configPath(slug: string): string {
  return `/projects/${encodeURIComponent(slug)}/config`;
}

export interface PlanReview {
  readonly slug: string;
  readonly plan: Plan;
  /** The whole configuration as it will be, written out with its defaults. */
  readonly after: unknown;
  /** The YAML's name in reports. */
  readonly file?: string | undefined;
  /** `--yes` */
  readonly yes: boolean;
  /** `--dry-run` */
  readonly dryRun: boolean;
}

/** Shows the plan; true once somebody has confirmed it. Throws UsageError if nobody can be asked. */
async function isApproved({ terminal, client, json }: CommandOptions, review: PlanReview): Promise<boolean> {
  const { slug, plan, after, file = PUSHED_FILE, yes, dryRun } = review;
  const { writeError, style } = terminal;
  // With --json standard output holds JSON alone; the plan to confirm goes to standard error.
  const print = json ? writeError : terminal.write;
  if (!json || !(yes || dryRun)) {
    const lines = planLines(plan.changes, after);
    print(`${style('bold', slug)} at ${client.address}: ${counted(lines.length, 'change')}\n`);
    for (const line of lines) print(`  ${coloured(line, style)}\n`);
    if (plan.changes.length === 0) print('  No settings change, only comments or files.\n');
    for (const warning of plan.warnings)
      print(`${style('yellow', 'warning:')} ${formatProblem(problem(file, warning))}\n`);
  }
  return !dryRun && isConfirmed(terminal, 'Deploy these changes?', yes);
}

/** Ends a deployment that was declined, or a dry run. Returns the exit code. */
function unchanged({ terminal, json }: CommandOptions, plan: Plan, dryRun: boolean): number {
  if (!dryRun) return EXIT.failed;
  if (json) writeJson(terminal, plan.data);
  else terminal.write('Dry run: nothing was changed.\n');
  return EXIT.done;
}

const COLOURS = { '+': 'green', '-': 'red', '~': 'yellow' } as const;

function coloured({ sign, text }: PlanLine, style: CommandOptions['terminal']['style']): string {
  return `${style(COLOURS[sign], sign)} ${printable(text)}`;
}

/** Does the work; a configuration that the server finds invalid is reported as one that is found so here. */
async function withPlaces(
  { terminal }: CommandOptions,
  file: string,
  work: () => Promise<number | void>,
): Promise<number | void> {
  try {
    return await work();
  } catch (error) {
    if (!(error instanceof RequestRefused)) throw error;
    const { status, details } = error.refused;
    const places = details.flatMap(({ line, column = 1, ...rest }) =>
      line === undefined ? [] : [problem(file, { ...rest, line, column })],
    );
    if (places.length === 0) throw error;
    terminal.progress('');
    for (const place of places) terminal.writeError(`${formatProblem(place)}\n`);
    if (status === 400) return EXIT.configuration;
    terminal.writeError(`${printable(error.message)}\n`);
    return EXIT.failed;
  }
}

function problem(file: string, place: Omit<Problem, 'file'>): Problem {
  return { file, ...place };
}
