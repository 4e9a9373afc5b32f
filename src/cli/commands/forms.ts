/** `instant …`, `forms …`, `recipients …` and `submissions …` */
import { Option } from 'commander';
import type { CliCommand } from '../command.ts';
import { STYLES, type Style } from '../snippet.ts';
import type { Export, SubmissionConditions } from '../forms.ts';
import { mailAddress } from '../values.ts';
import {
  apiCommand,
  apiOptions,
  withPages,
  withTimeRange,
  type ApiFlags,
  type Cli,
  type PageFlags,
} from './options.ts';

const FORM = ['<form>', 'ID of the form: example.com/contact, c/partners/join or frm_…'] as const;

/** Adds `instant …`. */
export function addInstantCommands(program: CliCommand, cli: Cli): void {
  const instant = program.command('instant').description('Manage forms that need no domain');
  apiCommand(withPages(filtered(instant.command('list'))))
    .description('List submissions to instant forms, newest first')
    .action(async ({ url, config, json, ...conditions }: SubmissionConditions & ApiFlags) => {
      const { instantList } = await import('../forms.ts');
      cli.exit(await instantList(await apiOptions(cli, { url, config, json }), conditions));
    });
  apiCommand(withPages(instant.command('forms')))
    .description('List instant forms, newest first')
    .action(async ({ limit, cursor, ...flags }: PageFlags & ApiFlags) => {
      const { instantForms } = await import('../forms.ts');
      cli.exit(await instantForms(await apiOptions(cli, flags), { limit, cursor }));
    });
  apiCommand(instant.command('create'))
    .description('Create an instant form. Its recipient is asked to confirm')
    .requiredOption('--name <name>', 'Display name, also the sender name of notifications')
    .requiredOption('--email <address>', 'Recipient of notifications', mailAddress)
    .example('instant create --name Feedback --email you@example.com', 'Create a form in one step')
    .action(async ({ name, email, ...flags }: ApiFlags & { name: string; email: string }) => {
      const { instantCreate } = await import('../forms.ts');
      cli.exit(await instantCreate(await apiOptions(cli, flags), { name, email }));
    });
}

/** Adds `forms …`. */
export function addFormsCommands(program: CliCommand, cli: Cli): void {
  const forms = program.command('forms').description('Show forms and generate HTML for them');
  apiCommand(withPages(forms.command('list')))
    .description('List the forms of domains and collections, then the forms created by the API')
    .option('--domain <domain>', 'Only this domain')
    .action(async ({ url, config, json, ...filter }: PageFlags & ApiFlags & { domain?: string }) => {
      const { formsList } = await import('../forms.ts');
      cli.exit(await formsList(await apiOptions(cli, { url, config, json }), filter));
    });
  const snippet = forms
    .command('snippet')
    .argument(...FORM)
    .description('Print HTML for a form')
    .addOption(
      new Option('--style <style>', 'Plain HTML, HTML with a script, or HTML for the Formspree client')
        .choices(STYLES)
        .default('html'),
    )
    .example('forms snippet example.com/contact > contact.html', 'Create a ready-to-use form');
  apiCommand(snippet).action(async (form: string, { style, ...flags }: ApiFlags & { style: Style }) => {
    const { formsSnippet } = await import('../forms.ts');
    cli.exit(await formsSnippet(await apiOptions(cli, flags), form, style));
  });
}

/** Adds `recipients …`. */
export function addRecipientsCommands(program: CliCommand, cli: Cli): void {
  const recipients = program.command('recipients').description('Manage the confirmation of recipients');
  apiCommand(withPages(recipients.command('list')))
    .description('List recipients and their confirmation status')
    .action(async ({ limit, cursor, ...flags }: PageFlags & ApiFlags) => {
      const { recipientsList } = await import('../forms.ts');
      cli.exit(await recipientsList(await apiOptions(cli, flags), { limit, cursor }));
    });
  apiCommand(recipients.command('ask'))
    .argument('<address>', 'Unconfirmed recipient', mailAddress)
    .description('Send a new confirmation link (at most 3 per day and mailbox)')
    .action(async (address: string, flags: ApiFlags) => {
      const { recipientsAsk } = await import('../forms.ts');
      cli.exit(await recipientsAsk(await apiOptions(cli, flags), address));
    });
}

/** Adds `submissions …`. */
export function addSubmissionsCommands(program: CliCommand, cli: Cli): void {
  const submissions = program.command('submissions').description('Show and export form submissions');
  apiCommand(withPages(filtered(submissions.command('list'))))
    .argument(...FORM)
    .description('List the submissions of a form, newest first')
    .example('submissions list example.com/contact --status spam', 'Submissions classified as spam')
    .action(async (form: string, { url, config, json, ...conditions }: SubmissionConditions & ApiFlags) => {
      const { submissionsList } = await import('../forms.ts');
      cli.exit(await submissionsList(await apiOptions(cli, { url, config, json }), form, conditions));
    });
  apiCommand(submissions.command('show'))
    .argument('<id>', 'ID of the submission (sub_…)')
    .description('Show a submission with its fields, files and spam score')
    .action(async (id: string, flags: ApiFlags) => {
      const { submissionsShow } = await import('../forms.ts');
      cli.exit(await submissionsShow(await apiOptions(cli, flags), id));
    });
  const exported = submissions
    .command('export')
    .argument(...FORM)
    .description('Export all submissions of a form, newest first')
    .addOption(new Option('--format <format>', 'File format').choices(['csv', 'json']).default('csv').conflicts('json'))
    .option('--output <file>', 'File to write (default: standard output)')
    .example('submissions export example.com/contact --output contact.csv', 'Export for a spreadsheet');
  apiCommand(filtered(exported)).action(async (form: string, { url, config, json, ...flags }: Export & ApiFlags) => {
    const { submissionsExport } = await import('../forms.ts');
    const wanted = { ...flags, format: json ? 'json' : flags.format };
    cli.exit(await submissionsExport(await apiOptions(cli, { url, config, json }), form, wanted));
  });
}

function filtered(command: CliCommand): CliCommand {
  return withTimeRange(command)
    .addOption(new Option('--status <status>', 'Only this status').choices(['accepted', 'spam']))
    .option('--q <text>', 'Only submissions that contain this text');
}
