/** `postern init`, `push`, `rollback` and `projects …`: shows what a deployment changes, asks, and deploys it. */
import { isDeepStrictEqual } from 'node:util';
import { PUSHED_FILE, type Bundle } from '../config/bundle.ts';
import { writtenProject } from '../config/diff.ts';
import { glanceAtProject, parseProject } from '../config/parse.ts';
import { formatProblem } from '../config/problem.ts';
import type { ProjectConfig } from '../config/schema.ts';
import { NO_SECRETS } from '../config/secrets.ts';
import { projects as routes } from '../contract/projects.ts';
import type { AnswerOf } from '../contract/route.ts';
import { UserError } from '../lib/errors.ts';
import { type Client, type OnSent, FilesRefused, RequestRefused, UsageError } from './client.ts';
import type { CliCommand } from './command.ts';
import { everyDomain } from './dns-records.ts';
import { init, type InitFlags } from './init.ts';
import { readLocalProject, validProject } from './local-project.ts';
import { barText, counted, listing, print, shortTime, writeFacts, writeJson, writeTable } from './output.ts';
import { planLines } from './plan-text.ts';
import { EXIT, isConfirmed, type Api } from './run.ts';
import { printable } from '../lib/printable.ts';
import type { Terminal } from './terminal.ts';
import { domainName, mailAddress } from './values.ts';

const SLUG = ['<project>', 'Slug of the project, from `postern projects list`'] as const;
const DRY_RUN = ['--dry-run', 'Show the changes without deploying them', false] as const;

interface DecidingFlags {
  readonly yes: boolean;
  readonly dryRun: boolean;
}

/** Adds `init`, `push`, `rollback` and `projects …`. */
export function addCommands(program: CliCommand): void {
  const { terminal, exit } = program.cli;
  program
    .command('init')
    .argument('[folder]', 'Folder, created if missing (default: the current folder)')
    .description('Create a project: postern.yml and a template')
    .option('--name <name>', 'Name of the project')
    .option('--slug <slug>', 'Short name for URLs and commands (default: derived from the name)')
    .option('--domain <domain>', 'Domain of the website', domainName)
    .option('--email <address>', 'Recipient of submissions', mailAddress)
    .option('--form <id>', 'ID of the first form (default: contact)')
    .option('--yes', 'Accept all defaults without asking', false)
    .option('--force', 'Overwrite existing files', false)
    .option('--json', 'Print JSON', false)
    .example('init', 'Create a project interactively')
    .example('init shop --domain example.com --email you@example.com --yes', 'Create a project from a script')
    .action(async (folder: string | undefined, flags: InitFlags) => exit(await init(terminal, folder, flags)));
  program
    .command('push')
    .argument('[path]', 'Project folder or file (default: the nearest postern.yml, here or in a parent folder)')
    .description('Deploy this project after showing what changes')
    .confirmed()
    .option(...DRY_RUN)
    .example('push', 'Show the changes and ask for confirmation')
    .example('push --yes', 'Deploy without confirmation, for scripts')
    .account(push);
  program
    .command('rollback')
    .description('Deploy an earlier revision of a project')
    .option('--revision <revision>', 'Revision ID (rev_…), or the number of revisions to go back', '1')
    .option('--project <project>', 'Slug of the project (default: the project in this folder)')
    .confirmed()
    .option(...DRY_RUN)
    .example('rollback', 'Return to the previous revision')
    .account(rollback);
  const projects = program.command('projects').description('Manage projects');
  projects
    .command('list')
    .description('List projects, newest first')
    .pages()
    .account(
      listing(routes.list, {
        rows: ({ projects }) => projects,
        columns: {
          PROJECT: 'slug',
          SOURCE: ({ source }) => SOURCES.get(source) ?? source,
          REVISION: 'revision',
          CREATED: 'created_at',
          NAME: 'name',
        },
        nothing: 'No projects found. Create one with postern init and postern push.',
      }),
    );
  projects
    .command('show')
    .argument(...SLUG)
    .description('Show a project with its domains and collections')
    .account(show);
  projects
    .command('revisions')
    .argument('[project]', 'Slug of the project (default: the project in this folder)')
    .description('List the revisions of a project, for `postern rollback`')
    .account(revisionsOf);
  projects
    .command('remove')
    .alias('delete')
    .argument(...SLUG)
    .description('Remove a project. Its domains and forms stop working')
    .option('--force', 'Remove the project even if its project file may still exist', false)
    .confirmed()
    .account(async (api, slug: string, { yes, force }: { yes: boolean; force: boolean }) => {
      await api.client.call({ route: routes.show, params: { slug } });
      const question = `Remove ${slug}? Its domains and forms stop working. Submissions are kept, and queued mail is still sent.`;
      if (!(await isConfirmed(api.terminal, question, yes))) return EXIT.failed;
      const query = force ? { force } : {};
      return print(api, { route: routes.remove, params: { slug }, query }, () =>
        api.terminal.write(`Removed ${slug}\n`),
      );
    });
}

const SOURCES: ReadonlyMap<string, string> = new Map([
  ['file', 'file'],
  ['push', 'pushed'],
  ['api', 'API'],
]);

/** Shows a project. */
async function show({ client, terminal, json }: Api, slug: string): Promise<void> {
  const { data, read } = await client.ask({ route: routes.show, params: { slug } });
  if (json) return writeJson(terminal, data);
  const { name, source, managed_by: managed, file_missing: missing, revision, created_at: since } = read();
  const { config, revisions } = await client.call({ route: routes.config, params: { slug } });
  const { domains, collections } = glanceAtProject(config ?? '{}');
  writeFacts(terminal, {
    project: slug,
    name,
    created: shortTime(since),
    source: SOURCES.get(source) ?? source,
    file: managed ? `${managed.file} on ${managed.machine}${missing ? ' (missing)' : ''}` : undefined,
    revision: revision === null ? '-' : `${revision}, one of ${revisions.length}`,
    domains: domains.join(', ') || '-',
    collections: collections.join(', ') || '-',
  });
}

/** Lists the revisions of a project, newest first. */
async function revisionsOf({ client, terminal, json }: Api, project: string | undefined): Promise<void> {
  const slug = project ?? (await localSlug(terminal.folder));
  const { revisions } = await client.call({ route: routes.config, params: { slug } });
  if (json) return writeJson(terminal, { revisions });
  if (revisions.length === 0) return terminal.write('No revisions found. Deploy one with: postern push\n');
  let back = 0;
  const rows = revisions.map((row) => ({ ...row, back: row.current ? 'current' : ++back }));
  writeTable(terminal, { BACK: 'back', REVISION: 'id', DEPLOYED: 'created_at' }, rows);
}

interface RollbackFlags extends DecidingFlags {
  readonly project?: string;
  /** `rev_…`, or how many revisions to go back. */
  readonly revision: string;
}

/** Deploys an earlier revision after showing what changes. */
async function rollback(api: Api, { project, revision, yes, dryRun }: RollbackFlags): Promise<number | void> {
  const { client, terminal, json } = api;
  const slug = project ?? (await localSlug(terminal.folder));
  const { id, yaml, files } = await revisionToRestore(client, slug, revision);
  const plan = await planOf(client, slug, { yaml, files });
  if (plan.revision === id) {
    if (json) return writeJson(terminal, plan.data);
    return terminal.write(`${id} is already deployed.\n`);
  }
  const read = parseProject(yaml, PUSHED_FILE, { files, env: NO_SECRETS });
  const after = 'ok' in read ? writtenProject(read.ok) : {};
  const refused = await review(api, { slug, plan, after, file: id, yes, dryRun });
  if (refused !== undefined) return refused;
  const body = { revision: id, base_revision: plan.revision };
  return print(api, { route: routes.rollback, params: { slug }, body }, (done) =>
    terminal.write(
      `Deployed ${slug} as ${done.revision}. postern.yml was not changed: the next postern push deploys it again.\n`,
    ),
  );
}

/** Throws UserError where there is none such. */
async function revisionToRestore(client: Client, slug: string, wanted: string): Promise<Bundle & { id: string }> {
  const { revisions } = await client.call({ route: routes.config, params: { slug } });
  const earlier = revisions.filter(({ current }) => !current);
  const id = /^\d+$/.test(wanted) ? earlier[Number(wanted) - 1]?.id : wanted;
  if (id === undefined) {
    if (earlier.length === 0) throw new UsageError(`${slug} has no earlier revision`);
    const there = counted(earlier.length, 'earlier revision');
    throw new UsageError(`${slug} has only ${there}. To list them, run: postern projects revisions ${slug}`);
  }
  const { config, files } = await client.call({ route: routes.config, params: { slug }, query: { revision: id } });
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

/** Deploys the project of a folder or file, else of this folder or the nearest above that has a postern.yml. */
async function push(api: Api, where: string | undefined, { yes, dryRun }: DecidingFlags): Promise<number | void> {
  const { client, terminal, json } = api;
  const { progress, write } = terminal;
  const project = await readLocalProject(terminal.folder, where);
  const config = validProject(project);
  const { slug } = config.project;
  const { file, yaml, files } = project;
  try {
    const plan = await planOf(client, slug, { yaml, files, onSent: uploadProgress('Comparing', progress) });
    progress('');
    if (plan.changes.length === 0 && plan.revision !== null) {
      // A plan does not show changed comments or file names.
      const deployed = await client.call({ route: routes.config, params: { slug } });
      if (deployed.config === yaml && isDeepStrictEqual(deployed.files, files)) {
        if (json) return writeJson(terminal, plan.data);
        return write(`${slug} at ${client.address} is up to date.\n`);
      }
    }
    const after = writtenProject(config);
    const refused = await review(api, { slug, plan, after, file, yes, dryRun });
    if (refused !== undefined) return refused;
    const { data, read } = await client.ask({
      route: routes.push,
      params: { slug },
      body: { config: yaml, files, base_revision: plan.revision },
      onSent: uploadProgress('Deploying', progress),
    });
    progress('');
    if (json) return writeJson(terminal, data);
    const back = plan.revision === null ? '' : ' To undo this, run: postern rollback';
    write(`Deployed ${slug} as ${read().revision}.${back}\n`);
    return await writeNextSteps(api, config);
  } catch (error) {
    throw placed(file, error);
  }
}

/** What the server finds invalid as if it was found here; any other error as it is. */
function placed(file: string, error: unknown): unknown {
  if (!(error instanceof RequestRefused)) return error;
  const { status, details } = error.refused;
  const places = details.flatMap(({ line, column = 1, ...rest }) =>
    line === undefined ? [] : [{ file, line, column, ...rest }],
  );
  if (places.length === 0) return error;
  return status === 400 ? new FilesRefused('', places) : new FilesRefused(error.message, places, EXIT.failed);
}

/** Shows how far a bundle has gone out, and then that the server works on it. */
function uploadProgress(doing: string, progress: Terminal['progress']): OnSent {
  return (sent, total) => progress(`${doing} ${sent < total ? barText(sent, total) : '…'}`);
}

/** What is left to do so that its domains send and receive. A key that may push need not see domains. */
async function writeNextSteps({ client, terminal }: Api, { domains }: ProjectConfig): Promise<void> {
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

/** What a push of the bundle would change; `revision` is the deployed one. */
export async function planOf(
  client: Client,
  slug: string,
  { yaml, files, onSent }: Bundle & { readonly onSent?: OnSent },
): Promise<Plan> {
  const body = { config: yaml, files };
  const call = { route: routes.push, params: { slug }, query: { dry_run: true }, body, onSent };
  const { data, read } = await client.ask(call);
  return { ...read(), data };
}

interface PlanReview extends DecidingFlags {
  readonly slug: string;
  readonly plan: Plan;
  /** The whole configuration as it will be, written out with its defaults. */
  readonly after: unknown;
  /** The YAML's name in reports. */
  readonly file: string;
}

/** Shows the plan; undefined once it is confirmed, else the exit code. Throws UsageError if nobody can be asked. */
async function review({ terminal, client, json }: Api, reviewed: PlanReview): Promise<number | undefined> {
  const { slug, plan, after, file, yes, dryRun } = reviewed;
  const { writeError, style } = terminal;
  // With --json standard output holds JSON alone; the plan to confirm goes to standard error.
  const write = json ? writeError : terminal.write;
  if (!json || !(yes || dryRun)) {
    const lines = planLines(plan.changes, after);
    write(`${style('bold', slug)} at ${client.address}: ${counted(lines.length, 'change')}\n`);
    for (const { sign, text } of lines) write(`  ${style(COLOURS[sign], sign)} ${printable(text)}\n`);
    if (plan.changes.length === 0) write('  No settings change, only comments or files.\n');
    for (const warning of plan.warnings)
      write(`${style('yellow', 'warning:')} ${formatProblem({ file, ...warning })}\n`);
  }
  if (!dryRun) return (await isConfirmed(terminal, 'Deploy these changes?', yes)) ? undefined : EXIT.failed;
  if (json) writeJson(terminal, plan.data);
  else write('Dry run: nothing was changed.\n');
  return EXIT.done;
}

const COLOURS = { '+': 'green', '-': 'red', '~': 'yellow' } as const;
