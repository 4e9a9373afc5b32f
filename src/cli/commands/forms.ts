/** `instant …`, `forms …`, `recipients …` and `submissions …` */
import { Option } from 'commander';
import type { CliCommand } from '../command.ts';
import { STYLES, type Style } from '../snippet.ts';
import type { Export, SubmissionConditions } from '../submissions.ts';
import { mailAddress } from '../values.ts';
import { asking, askingOptions, paged, spanned, type AskingFlags, type Cli, type PageFlags } from './asking.ts';

const FORM = ['<form>', 'its id: example.com/contact, c/partners/join or frm_…'] as const;

/** Adds `instant …`. */
export function addInstantCommands(program: CliCommand, cli: Cli): void {
  const instant = program.command('instant').description('forms that need no domain');
  asking(paged(filtered(instant.command('list'))))
    .description('list what was sent to instant forms, newest first')
    .action(async ({ url, config, json, ...conditions }: SubmissionConditions & AskingFlags) => {
      const { instantList } = await import('../instant.ts');
      cli.exit(await instantList(await askingOptions(cli, { url, config, json }), conditions));
    });
  asking(paged(instant.command('forms')))
    .description('list the instant forms, newest first')
    .action(async ({ limit, cursor, ...flags }: PageFlags & AskingFlags) => {
      const { instantForms } = await import('../instant.ts');
      cli.exit(await instantForms(await askingOptions(cli, flags), { limit, cursor }));
    });
  asking(instant.command('create'))
    .description('make an instant form; its recipient is asked to agree')
    .requiredOption('--name <name>', 'display name; notifications come from it')
    .requiredOption('--email <address>', 'who gets the notifications', mailAddress)
    .example('instant create --name Feedback --email you@example.com', 'a form address in one step')
    .action(async ({ name, email, ...flags }: AskingFlags & { name: string; email: string }) => {
      const { instantCreate } = await import('../instant.ts');
      cli.exit(await instantCreate(await askingOptions(cli, flags), { name, email }));
    });
}

/** Adds `forms …`. */
export function addFormsCommands(program: CliCommand, cli: Cli): void {
  const forms = program.command('forms').description('the forms of the account');
  asking(paged(forms.command('list')))
    .description('list forms of domains and collections, then those made by the API')
    .option('--domain <domain>', 'only those of this domain')
    .action(async ({ url, config, json, ...filter }: PageFlags & AskingFlags & { domain?: string }) => {
      const { formsList } = await import('../forms.ts');
      cli.exit(await formsList(await askingOptions(cli, { url, config, json }), filter));
    });
  const snippet = forms
    .command('snippet')
    .argument(...FORM)
    .description('write code for a web page that posts to a form')
    .addOption(
      new Option('--style <style>', 'plain HTML, HTML with a script, or for the clients of Formspree')
        .choices(STYLES)
        .default('html'),
    )
    .example('forms snippet example.com/contact > contact.html', 'a form that works as it is');
  asking(snippet).action(async (form: string, { style, ...flags }: AskingFlags & { style: Style }) => {
    const { formsSnippet } = await import('../forms.ts');
    cli.exit(await formsSnippet(await askingOptions(cli, flags), form, style));
  });
}

/** Adds `recipients …`. */
export function addRecipientsCommands(program: CliCommand, cli: Cli): void {
  const recipients = program.command('recipients').description('addresses that have to agree to mail of the account');
  asking(paged(recipients.command('list')))
    .description('list the addresses that were asked to agree, or did')
    .action(async ({ limit, cursor, ...flags }: PageFlags & AskingFlags) => {
      const { recipientsList } = await import('../recipients.ts');
      cli.exit(await recipientsList(await askingOptions(cli, flags), { limit, cursor }));
    });
  asking(recipients.command('ask'))
    .argument('<address>', 'a recipient whose mail waits', mailAddress)
    .description('mail an address a new link to agree by; a mailbox is asked at most 3 times a day')
    .action(async (address: string, flags: AskingFlags) => {
      const { recipientsAsk } = await import('../recipients.ts');
      cli.exit(await recipientsAsk(await askingOptions(cli, flags), address));
    });
}

/** Adds `submissions …`. */
export function addSubmissionsCommands(program: CliCommand, cli: Cli): void {
  const submissions = program.command('submissions').description('what visitors sent');
  asking(paged(filtered(submissions.command('list'))))
    .argument(...FORM)
    .description('list the submissions of a form, newest first')
    .example('submissions list example.com/contact --status spam', 'what was taken for spam')
    .action(async (form: string, { url, config, json, ...conditions }: SubmissionConditions & AskingFlags) => {
      const { submissionsList } = await import('../submissions.ts');
      cli.exit(await submissionsList(await askingOptions(cli, { url, config, json }), form, conditions));
    });
  asking(submissions.command('show'))
    .argument('<id>', 'of a submission: sub_…')
    .description('show a submission with its fields, its files and the signs of spam')
    .action(async (id: string, flags: AskingFlags) => {
      const { submissionsShow } = await import('../submissions.ts');
      cli.exit(await submissionsShow(await askingOptions(cli, flags), id));
    });
  const exported = submissions
    .command('export')
    .argument(...FORM)
    .description('write all submissions of a form to a file, newest first')
    .addOption(new Option('--format <format>', 'of the file').choices(['csv', 'json']).default('csv').conflicts('json'))
    .option('--output <file>', 'where to (else standard output)')
    .example('submissions export example.com/contact --output contact.csv', 'for a spreadsheet');
  asking(filtered(exported)).action(async (form: string, { url, config, json, ...flags }: Export & AskingFlags) => {
    const { submissionsExport } = await import('../submissions.ts');
    const wanted = { ...flags, format: json ? 'json' : flags.format };
    cli.exit(await submissionsExport(await askingOptions(cli, { url, config, json }), form, wanted));
  });
}

function filtered(command: CliCommand): CliCommand {
  return spanned(command)
    .addOption(new Option('--status <status>', 'only those').choices(['accepted', 'spam']))
    .option('--q <text>', 'only those with this text in a field');
}
