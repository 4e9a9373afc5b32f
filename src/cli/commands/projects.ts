/** `init`, `push`, `rollback` and `projects …`: from a folder to a configuration in force, and back. */
import type { CliCommand } from '../command.ts';
import type { InitFlags } from '../init.ts';
import { domainName, mailAddress } from '../values.ts';
import { asking, askingOptions, paged, YES, type AskingFlags, type Cli, type PageFlags } from './asking.ts';

const SLUG = ['<project>', 'its slug, as postern projects list shows it'] as const;
const DRY_RUN = ['--dry-run', 'only show what would change', false] as const;

interface DecidingFlags extends AskingFlags {
  readonly yes: boolean;
  readonly dryRun: boolean;
}

/** Adds `init`, `push` and `rollback`. */
export function addPushCommands(program: CliCommand, { terminal, exit }: Cli): void {
  program
    .command('init')
    .argument('[folder]', 'created if missing (default: the current folder)')
    .description('write a project that can be pushed as it is: postern.yml and a template')
    .option('--name <name>', 'of the project')
    .option('--slug <slug>', 'its name in addresses and commands (default: made from the name)')
    .option('--domain <domain>', 'of the site whose forms these are', domainName)
    .option('--email <address>', 'who gets what is submitted', mailAddress)
    .option('--form <id>', 'of the first form (default: contact)')
    .option('--yes', 'ask nothing: take what is proposed for all that is not given', false)
    .option('--force', 'write over files that are there', false)
    .option('--json', 'what was written, as JSON', false)
    .example('init', 'asks for what it has to know')
    .example('init shop --domain example.com --email you@example.com --yes', 'the same for a script')
    .action(async (folder: string | undefined, flags: InitFlags) => {
      const { init } = await import('../init.ts');
      exit(await init(terminal, folder, flags));
    });
  asking(
    program
      .command('push')
      .argument('[path]', 'folder or file; else this folder, or the nearest above that has a postern.yml')
      .description('put the project of this folder in force, after a look at what that changes')
      .option(...YES)
      .option(...DRY_RUN)
      .example('push', 'shows what would change, and asks')
      .example('push --yes', 'for a script: without a terminal nothing is put in force unasked'),
  ).action(async (where: string | undefined, { yes, dryRun, ...flags }: DecidingFlags) => {
    const { push } = await import('../push.ts');
    exit(await push(await askingOptions({ terminal, exit }, flags), { where, yes, dryRun }));
  });
  asking(
    program
      .command('rollback')
      .description('put an earlier revision of a project in force again')
      .option('--revision <revision>', 'rev_…, or how many back', '1')
      .option('--project <project>', 'its slug; else the project of this folder')
      .option(...YES)
      .option(...DRY_RUN)
      .example('rollback', 'back to what was in force before'),
  ).action(
    async ({ yes, dryRun, revision, project, ...flags }: DecidingFlags & { revision: string; project?: string }) => {
      const { rollback } = await import('../projects.ts');
      exit(await rollback(await askingOptions({ terminal, exit }, flags), { revision, project, yes, dryRun }));
    },
  );
}

/** Adds `projects …`. */
export function addProjectsCommands(program: CliCommand, cli: Cli): void {
  const projects = program.command('projects').description('show and remove projects');
  asking(paged(projects.command('list').description('projects, newest first'))).action(
    async ({ limit, cursor, ...flags }: PageFlags & AskingFlags) => {
      const { projectsList } = await import('../projects.ts');
      cli.exit(await projectsList(await askingOptions(cli, flags), { limit, cursor }));
    },
  );
  asking(
    projects
      .command('show')
      .argument(...SLUG)
      .description('a project and what it claims'),
  ).action(async (slug: string, flags: AskingFlags) => {
    const { projectsShow } = await import('../projects.ts');
    cli.exit(await projectsShow(await askingOptions(cli, flags), slug));
  });
  asking(
    projects
      .command('revisions')
      .argument('[project]', 'its slug; else the project of this folder')
      .description('revisions that were in force, for postern rollback'),
  ).action(async (slug: string | undefined, flags: AskingFlags) => {
    const { projectsRevisions } = await import('../projects.ts');
    cli.exit(await projectsRevisions(await askingOptions(cli, flags), slug));
  });
  asking(
    projects
      .command('remove')
      .alias('delete')
      .argument(...SLUG)
      .description('remove a project: its domains and forms are no longer served')
      .option('--force', 'although the file that manages it may still be there', false)
      .option(...YES),
  ).action(async (slug: string, { yes, force, ...flags }: AskingFlags & { yes: boolean; force: boolean }) => {
    const { projectsRemove } = await import('../projects.ts');
    cli.exit(await projectsRemove(await askingOptions(cli, flags), slug, { yes, force }));
  });
}
