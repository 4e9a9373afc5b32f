/** `init`, `push`, `rollback`, `projects …`, `templates …` and `test …`. */
import type { CliCommand } from '../command.ts';
import type { InitFlags } from '../init.ts';
import { domainName, mailAddress } from '../values.ts';
import {
  apiCommand,
  apiOptions,
  accountCall,
  withPages,
  YES,
  type ApiFlags,
  type Cli,
  type PageFlags,
  JSON_OUT,
  timeoutOption,
} from './options.ts';
import type { PreviewFlags } from '../templates.ts';
import type { SendOptions } from '../test.ts';

const SLUG = ['<project>', 'Slug of the project, from `postern projects list`'] as const;
const DRY_RUN = ['--dry-run', 'Show the changes without deploying them', false] as const;

interface DecidingFlags extends ApiFlags {
  readonly yes: boolean;
  readonly dryRun: boolean;
}

/** Adds `init`, `push` and `rollback`. */
export function addPushCommands(program: CliCommand, { terminal, exit }: Cli): void {
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
    .action(async (folder: string | undefined, flags: InitFlags) => {
      const { init } = await import('../init.ts');
      exit(await init(terminal, folder, flags));
    });
  apiCommand(
    program
      .command('push')
      .argument('[path]', 'Project folder or file (default: the nearest postern.yml, here or in a parent folder)')
      .description('Deploy this project after showing what changes')
      .option(...YES)
      .option(...DRY_RUN)
      .example('push', 'Show the changes and ask for confirmation')
      .example('push --yes', 'Deploy without confirmation, for scripts'),
  ).action((where: string | undefined, { yes, dryRun, ...flags }: DecidingFlags) =>
    accountCall({ terminal, exit }, flags, async (api) =>
      (await import('../projects.ts')).push(api, { where, yes, dryRun }),
    ),
  );
  apiCommand(
    program
      .command('rollback')
      .description('Deploy an earlier revision of a project')
      .option('--revision <revision>', 'Revision ID (rev_…), or the number of revisions to go back', '1')
      .option('--project <project>', 'Slug of the project (default: the project in this folder)')
      .option(...YES)
      .option(...DRY_RUN)
      .example('rollback', 'Return to the previous revision'),
  ).action(({ yes, dryRun, revision, project, ...flags }: DecidingFlags & { revision: string; project?: string }) =>
    accountCall({ terminal, exit }, flags, async (api) =>
      (await import('../projects.ts')).rollback(api, { revision, project, yes, dryRun }),
    ),
  );
}

/** Adds `projects …`. */
export function addProjectsCommands(program: CliCommand, cli: Cli): void {
  const projects = program.command('projects').description('Manage projects');
  apiCommand(withPages(projects.command('list').description('List projects, newest first'))).action(
    ({ limit, cursor, ...flags }: PageFlags & ApiFlags) =>
      accountCall(cli, flags, async (api) => (await import('../projects.ts')).projectsList(api, { limit, cursor })),
  );
  apiCommand(
    projects
      .command('show')
      .argument(...SLUG)
      .description('Show a project with its domains and collections'),
  ).action((slug: string, flags: ApiFlags) =>
    accountCall(cli, flags, async (api) => (await import('../projects.ts')).projectsShow(api, slug)),
  );
  apiCommand(
    projects
      .command('revisions')
      .argument('[project]', 'Slug of the project (default: the project in this folder)')
      .description('List the revisions of a project, for `postern rollback`'),
  ).action((slug: string | undefined, flags: ApiFlags) =>
    accountCall(cli, flags, async (api) => (await import('../projects.ts')).projectsRevisions(api, slug)),
  );
  apiCommand(
    projects
      .command('remove')
      .alias('delete')
      .argument(...SLUG)
      .description('Remove a project. Its domains and forms stop working')
      .option('--force', 'Remove the project even if its project file may still exist', false)
      .option(...YES),
  ).action((slug: string, { yes, force, ...flags }: ApiFlags & { yes: boolean; force: boolean }) =>
    accountCall(cli, flags, async (api) => (await import('../projects.ts')).projectsRemove(api, slug, { yes, force })),
  );
}

const PATH = [
  '--path <path>',
  'Project folder or file (default: the nearest postern.yml, here or in a parent folder)',
] as const;

/** Adds `templates …`, which need no server. */
export function addTemplatesCommands(program: CliCommand, { terminal, exit }: Cli): void {
  const templates = program.command('templates').description('Preview the mail of this project; needs no server');
  templates
    .command('preview')
    .argument('<name>', 'Name of the template. `default` and `acknowledgment` are built in')
    .description('Render a template with a sample submission: subject, text and HTML')
    .option('--form <id>', 'Form to render for (default: the first form that uses the template)')
    .option('--data <file>', 'JSON file with template variables; `form` holds the submitted fields')
    .option('--html <file>', 'Write the HTML part to this file')
    .option('--open', 'Open the HTML part in the browser', false)
    .option(...PATH)
    .option(...JSON_OUT)
    .example('templates preview contact --open', 'Open the HTML part in the browser')
    .action(async (name: string, flags: PreviewFlags) => {
      const { templatesPreview } = await import('../templates.ts');
      exit(await templatesPreview(terminal, name, flags));
    });
  templates
    .command('list')
    .description('List templates and the forms that use them')
    .option(...PATH)
    .option(...JSON_OUT)
    .action(async (flags: Pick<PreviewFlags, 'path' | 'json'>) => {
      const { templatesList } = await import('../templates.ts');
      exit(await templatesList(terminal, flags));
    });
}

/** Adds `test …`. */
export function addTestCommands(program: CliCommand, cli: Cli): void {
  const test = program.command('test').description('Test the configuration and mail delivery');
  apiCommand(
    test
      .command('config')
      .argument('[path]', 'Project folder or file (default: the nearest postern.yml, here or in a parent folder)')
      .description('Check the project configuration')
      .option(
        '--check-api',
        'Also check API key, deployment, domains and forms on the server. Implied by --url and --config',
        false,
      )
      .example('test config --check-api', 'Check everything before `postern push`'),
  ).action(async (where: string | undefined, { checkApi, ...flags }: ApiFlags & { checkApi: boolean }) => {
    const { testConfig } = await import('../test.ts');
    const isAsked = checkApi || flags.url !== undefined || flags.config !== undefined;
    const api = isAsked ? await apiOptions(cli, flags) : undefined;
    cli.exit(await testConfig(cli.terminal, { where, json: flags.json, api }));
  });
  apiCommand(
    test
      .command('send')
      .argument('<address>', 'Recipient', mailAddress)
      .description(
        'Send a test message and show the reply of the receiving server. Exits with 1 if it is not delivered',
      )
      .option('--from <address>', 'Sender address in a verified domain')
      .option('--domain <domain>', 'Domain to send from (default: the first verified domain)', domainName)
      .option('--form <id>', 'Send what this form of the local project would send for a sample submission')
      .option('--no-wait', 'Do not wait for delivery')
      .addOption(timeoutOption().default(60).conflicts('wait'))
      .example('test send you@example.com', 'Check the delivery to your own inbox'),
  ).action(async (to: string, flags: ApiFlags & Omit<SendOptions, 'to'>) => {
    const { testSend } = await import('../test.ts');
    const { from, domain, form, wait, timeout, ...asked } = flags;
    cli.exit(await testSend(await apiOptions(cli, asked), { to, from, domain, form, wait, timeout }));
  });
}
