/** `instant …`, `forms …`, `recipients …` and `submissions …` */
import { Option } from 'commander';
import type { CliCommand } from '../command.ts';
import { STYLES, type Style } from '../snippet.ts';
import type { Export, SubmissionConditions } from '../forms.ts';
import { mailAddress } from '../values.ts';
import {
  apiCommand,
  apiOptions,
  accountCall,
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
    .action(({ url, config, json, ...conditions }: SubmissionConditions & ApiFlags) =>
      accountCall(cli, { url, config, json }, async (api) =>
        (await import('../forms.ts')).instantList(api, conditions),
      ),
    );
  apiCommand(withPages(instant.command('forms')))
    .description('List instant forms, newest first')
    .action(({ limit, cursor, ...flags }: PageFlags & ApiFlags) =>
      accountCall(cli, flags, async (api) => (await import('../forms.ts')).instantForms(api, { limit, cursor })),
    );
  apiCommand(instant.command('create'))
    .description('Create an instant form. Its recipient is asked to confirm')
    .requiredOption('--name <name>', 'Display name, also the sender name of notifications')
    .requiredOption('--email <address>', 'Recipient of notifications', mailAddress)
    .example('instant create --name Feedback --email you@example.com', 'Create a form in one step')
    .action(({ name, email, ...flags }: ApiFlags & { name: string; email: string }) =>
      accountCall(cli, flags, async (api) => (await import('../forms.ts')).instantCreate(api, { name, email })),
    );
}

/** Adds `forms …`. */
export function addFormsCommands(program: CliCommand, cli: Cli): void {
  const forms = program.command('forms').description('Show forms and generate HTML for them');
  apiCommand(withPages(forms.command('list')))
    .description('List the forms of domains and collections, then the forms created by the API')
    .option('--domain <domain>', 'Only this domain')
    .action(({ url, config, json, ...filter }: PageFlags & ApiFlags & { domain?: string }) =>
      accountCall(cli, { url, config, json }, async (api) => (await import('../forms.ts')).formsList(api, filter)),
    );
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
  apiCommand(snippet).action((form: string, { style, ...flags }: ApiFlags & { style: Style }) =>
    accountCall(cli, flags, async (api) => (await import('../forms.ts')).formsSnippet(api, form, style)),
  );
}

/** Adds `recipients …`. */
export function addRecipientsCommands(program: CliCommand, cli: Cli): void {
  const recipients = program.command('recipients').description('Manage the confirmation of recipients');
  apiCommand(withPages(recipients.command('list')))
    .description('List recipients and their confirmation status')
    .action(({ limit, cursor, ...flags }: PageFlags & ApiFlags) =>
      accountCall(cli, flags, async (api) => (await import('../forms.ts')).recipientsList(api, { limit, cursor })),
    );
  apiCommand(recipients.command('ask'))
    .argument('<address>', 'Unconfirmed recipient', mailAddress)
    .description('Send a new confirmation link (at most 3 per day and mailbox)')
    .action((address: string, flags: ApiFlags) =>
      accountCall(cli, flags, async (api) => (await import('../forms.ts')).recipientsAsk(api, address)),
    );
}

/** Adds `submissions …`. */
export function addSubmissionsCommands(program: CliCommand, cli: Cli): void {
  const submissions = program.command('submissions').description('Show and export form submissions');
  apiCommand(withPages(filtered(submissions.command('list'))))
    .argument(...FORM)
    .description('List the submissions of a form, newest first')
    .example('submissions list example.com/contact --status spam', 'Submissions classified as spam')
    .action((form: string, { url, config, json, ...conditions }: SubmissionConditions & ApiFlags) =>
      accountCall(cli, { url, config, json }, async (api) =>
        (await import('../forms.ts')).submissionsList(api, form, conditions),
      ),
    );
  apiCommand(submissions.command('show'))
    .argument('<id>', 'ID of the submission (sub_…)')
    .description('Show a submission with its fields, files and spam score')
    .action((id: string, flags: ApiFlags) =>
      accountCall(cli, flags, async (api) => (await import('../forms.ts')).submissionsShow(api, id)),
    );
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
