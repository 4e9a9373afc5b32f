/** `postern forms …`, `instant …`, `recipients …` and `submissions …`. */
import { Option } from 'commander';
import {
  forms as routes,
  formTools,
  instantForms as instantRoutes,
  recipients as recipientRoutes,
  SNIPPET_STYLES,
  type SnippetStyle,
} from '../contract/forms.ts';
import type { AnswerOf } from '../contract/route.ts';
import { submissions as submissionRoutes } from '../contract/submissions.ts';
import type { CliCommand } from './command.ts';
import { counted, print, save, shortTime, sizeText, writeFacts, writeJson, listing, showing } from './output.ts';
import { EXIT, isConfirmed, type Api } from './run.ts';
import { printable } from '../lib/printable.ts';
import type { Terminal } from './terminal.ts';
import { mailAddress } from './values.ts';

const FORM = ['<form>', 'ID of the form: example.com/contact, c/partners/join or frm_…'] as const;

/** Adds `instant …`, `forms …`, `recipients …` and `submissions …`. */
export function addCommands(program: CliCommand): void {
  addInstant(program);
  addForms(program);
  addRecipients(program);
  addSubmissions(program);
}

const STATES = { confirmed: 'confirmed', pending: 'unconfirmed', refused: 'refused' } as const;

function addInstant(program: CliCommand): void {
  const instant = program.command('instant').description('Manage forms that need no domain');
  filtered(instant.command('list'))
    .description('List submissions to instant forms, newest first')
    .pages()
    .account(listing(submissionRoutes.listInstant, SUBMISSIONS));
  instant
    .command('forms')
    .description('List instant forms, newest first')
    .pages()
    .account(
      listing(instantRoutes.list, {
        rows: ({ forms }) => forms,
        columns: {
          FORM: 'id',
          NAME: 'name',
          RECIPIENT: 'email',
          STATE: ({ recipient_status }) => STATES[recipient_status],
          SUBMISSIONS: 'submissions',
          URL: 'endpoint',
        },
        nothing: 'No instant forms found.',
      }),
    );
  instant
    .command('create')
    .description('Create an instant form. Its recipient is asked to confirm')
    .requiredOption('--name <name>', 'Display name, also the sender name of notifications')
    .requiredOption('--email <address>', 'Recipient of notifications', mailAddress)
    .example('instant create --name Feedback --email you@example.com', 'Create a form in one step')
    .account((api, { name, email }: { name: string; email: string }) =>
      print(api, { route: instantRoutes.create, body: { name, email } }, (form) => writeInstant(api.terminal, form)),
    );
}

/** Writes a new form: where it is posted to, and whether its recipient gets mail. */
function writeInstant(terminal: Terminal, form: AnswerOf<typeof instantRoutes.create>): void {
  const { id, endpoint, email, recipient_status: status } = form;
  writeFacts(terminal, { form: id, url: endpoint, 'mail to': email });
  if (status === 'pending')
    terminal.writeError(
      `Mail is held until ${email} opens the confirmation link. To send a new link, run: postern recipients ask ${email}\n`,
    );
  if (status === 'refused')
    terminal.writeError(`${email} has declined mail from this server. Choose another recipient.\n`);
  if (terminal.width !== undefined) terminal.write(`\nTo get its HTML, run: postern forms snippet ${id}\n`);
}

function addForms(program: CliCommand): void {
  const forms = program.command('forms').description('Show forms and generate HTML for them');
  forms
    .command('list')
    .pages()
    .description('List the forms of domains and collections, then the forms created with the API')
    .option('--domain <domain>', 'Only this domain')
    .account(
      listing(routes.list, {
        rows: ({ forms }) => forms,
        columns: {
          FORM: 'id',
          NAME: 'name',
          RECIPIENT: ({ recipients }) => recipients.map(recipientText).join(', '),
          SUBMISSIONS: 'submissions',
          URL: 'endpoint',
        },
        nothing: 'No forms found. Create a project with: postern init',
      }),
    );
  forms
    .command('snippet')
    .argument(...FORM)
    .description('Print HTML for a form')
    .addOption(
      new Option(
        '--style <style>',
        'Plain HTML, HTML with a script, a React component, or HTML for htmx or the Formspree client',
      )
        .choices(SNIPPET_STYLES)
        .default('html'),
    )
    .example('forms snippet example.com/contact > contact.html', 'Create a ready-to-use form')
    .account(snippet);
}

/** A recipient of a form in a list: with its status, where it gets no mail. */
function recipientText({ address, status }: { readonly address: string; readonly status: string }): string {
  return status === 'confirmed' ? address : `${address} (${status})`;
}

/** Prints code for a page with the form. */
async function snippet(api: Api, form: string, { style }: { style: SnippetStyle }): Promise<void> {
  const { id, endpoint, snippets } = await api.client.call({ route: formTools.snippets, params: { id: form } });
  const code = snippets.find((one) => one.style === style)?.code ?? '';
  if (api.json) writeJson(api.terminal, { id, endpoint, style, code });
  else api.terminal.write(code);
}

function addRecipients(program: CliCommand): void {
  const recipients = program.command('recipients').description('Manage the confirmation of recipients');
  recipients
    .command('list')
    .pages()
    .description('List recipients and their confirmation status')
    .account(
      listing(recipientRoutes.list, {
        rows: ({ recipients }) => recipients,
        columns: { ADDRESS: 'address', STATUS: 'status', ASKED: 'asked_at', CONFIRMED: 'confirmed_at' },
        nothing: 'No recipients found.',
      }),
    );
  recipients
    .command('ask')
    .argument('<address>', 'Unconfirmed recipient', mailAddress)
    .description('Send a new confirmation link (at most 3 per day and mailbox)')
    .account((api, address: string) =>
      print(api, { route: recipientRoutes.ask, body: { address } }, (asked) =>
        api.terminal.write(
          asked.status === 'pending'
            ? `Sent a confirmation link to ${printable(asked.address)}. Mail to this address is held until the link is opened.\n`
            : `${printable(asked.address)} is already confirmed.\n`,
        ),
      ),
    );
}

type Submission = AnswerOf<typeof submissionRoutes.list>['submissions'][number];

const SUBMISSIONS = {
  rows: (answer: AnswerOf<typeof submissionRoutes.list>): readonly Submission[] => answer.submissions,
  columns: {
    SUBMISSION: 'id',
    AT: 'created_at',
    STATUS: 'status',
    FORM: 'form',
    FROM: ({ fields }: Submission) => textOf(fields['email'] ?? fields['name'] ?? ''),
    MESSAGE: ({ fields }: Submission) => textOf(fields['message'] ?? Object.values(fields).at(-1) ?? ''),
  },
  nothing: 'No matching submissions.',
} as const;

function addSubmissions(program: CliCommand): void {
  const submissions = program
    .command('submissions')
    .description('Show, export, classify, resend and delete submissions');
  filtered(submissions.command('list'))
    .pages()
    .argument(...FORM)
    .description('List the submissions of a form, newest first')
    .example('submissions list example.com/contact --status spam', 'Submissions classified as spam')
    .account(listing(submissionRoutes.list, SUBMISSIONS));
  submissions
    .command('show')
    .argument('<id>', 'ID of the submission (sub_…)')
    .description('Show a submission with its fields, files and spam score')
    .account(showing(submissionRoutes.show, writeSubmission));
  for (const [name, route, description, done] of DECISIONS) {
    submissions
      .command(name)
      .argument('<id...>', 'IDs of submissions (sub_…)')
      .description(description)
      .account((api, ids: string[]) => forEach(api, ids, { route, done }));
  }
  submissions
    .command('delete')
    .argument('<id...>', 'IDs of submissions (sub_…)')
    .confirmed()
    .description('Delete submissions with their files and the bodies of their mail')
    .account(async (api, ids: string[], { yes }: { yes: boolean }) => {
      const question = `Delete ${counted(ids.length, 'submission')}? This cannot be undone.`;
      if (!(await isConfirmed(api.terminal, question, yes))) return EXIT.failed;
      return forEach(api, ids, { route: submissionRoutes.remove, done: 'deleted' });
    });
  const exported = submissions
    .command('export')
    .argument(...FORM)
    .description('Export all submissions of a form, newest first')
    .addOption(new Option('--format <format>', 'File format').choices(['csv', 'json']).default('csv').conflicts('json'))
    .option('--output <file>', 'File to write (default: standard output)')
    .example('submissions export example.com/contact --output contact.csv', 'Export for a spreadsheet');
  filtered(exported).account(async (api, form: string, flags: { format: string; output?: string }) => {
    const query = { ...flags, format: api.json ? 'json' : flags.format };
    const call = { route: submissionRoutes.export, params: { form }, query };
    await save(api.terminal, await api.client.open(call), flags.output);
  });
}

const DECISIONS = [
  ['spam', submissionRoutes.spam, 'Mark submissions as spam and cancel their queued mail', 'marked as spam'],
  ['ham', submissionRoutes.ham, 'Release spam or pending submissions, and send their notifications', 'accepted'],
  ['resend', submissionRoutes.resend, 'Send the notifications of submissions again', 'sent again'],
] as const;

type Deciding = (typeof DECISIONS)[number][1] | typeof submissionRoutes.remove;

/** Does it to each, one after the other; the first that is refused ends it. */
async function forEach(
  { client, terminal, json }: Api,
  ids: readonly string[],
  { route, done }: { readonly route: Deciding; readonly done: string },
): Promise<void> {
  const answers: unknown[] = [];
  for (const id of ids) {
    const { data } = await client.ask<typeof route.path, Submission>({ route, params: { id } });
    answers.push(data);
    if (!json) terminal.write(`${id} ${done}\n`);
  }
  if (json) writeJson(terminal, answers.length === 1 ? answers[0] : answers);
}

function filtered(command: CliCommand): CliCommand {
  return command
    .timeRange()
    .choice('--status <status>', 'Only this status', ['accepted', 'spam', 'pending'])
    .option('--q <text>', 'Only submissions that contain these words');
}

/** Writes one with its fields, files and what the spam filter found. */
function writeSubmission(shown: AnswerOf<typeof submissionRoutes.show>, terminal: Terminal): void {
  const { id, form, fields, files, stored, ip, user_agent, referer, status, spam, created_at, messages } = shown;
  const { write, style } = terminal;
  writeFacts(terminal, {
    submission: id,
    form,
    at: shortTime(created_at),
    status: [
      spam.reasons.length === 0 ? status : `${status}, spam score ${spam.score}`,
      ...spam.reasons.map(({ name, score, detail }) => `${score} ${name} ${detail}`),
    ],
    from: [ip, referer, user_agent].filter((part) => part !== '').join('  '),
    mail: messages.join(' ') || 'none',
    stored: stored === 'all' ? undefined : 'metadata only: the fields and files were deleted after delivery',
  });
  for (const [name, text] of Object.entries(fields)) {
    const lines = textOf(text).split(/\r?\n/);
    write(`\n${style('bold', printable(name))}\n${lines.map((line) => `  ${printable(line)}\n`).join('')}`);
  }
  if (files.length > 0) write(`\n${style('bold', 'files')}\n`);
  for (const file of files) write(`  ${file.id}  ${printable(file.filename)}  ${sizeText(file.size)}\n`);
}

function textOf(text: string | readonly string[]): string {
  return typeof text === 'string' ? text : text.join(', ');
}
