/** `postern forms …`, `instant …`, `recipients …` and `submissions …`. */
import { z } from 'zod';
import { forms as routes, instantForms as instantRoutes, recipients as recipientRoutes } from '../contract/forms.ts';
import { submissions as submissionRoutes } from '../contract/submissions.ts';
import type { AnswerOf } from '../contract/route.ts';
import { readAnswer, queryOf, run, writeJson, type CommandOptions, shortTime } from './run.ts';
import { labelOf } from '../config/forms.ts';
import { formSchema, type FormConfig } from '../config/schema.ts';
import { RequestRefused, type Client } from './client.ts';
import type { PageFlags, TimeRangeFlags } from './commands/options.ts';
import { writePage, writeFacts, save, sizeText } from './output.ts';
import { printable, type Terminal } from './terminal.ts';
import { snippetOf, type SnippetField, type Style } from './snippet.ts';

const shownForm = z.object({
  id: z.string(),
  endpoint: z.string(),
  // What an older or newer server says more is nothing to a page.
  settings: z
    .looseObject({})
    .default({})
    .transform((settings) => pick(settings))
    .pipe(formSchema),
});

export interface FormsFilter extends PageFlags {
  readonly domain?: string | undefined;
}

/** Lists them. Returns the exit code, as all of these do. */
export function formsList(options: CommandOptions, filter: FormsFilter): Promise<number> {
  return run(options, async ({ client, terminal, json }) => {
    const data = await client.get(`/forms${queryOf(filter)}`);
    if (json) return writeJson(terminal, data);
    const { forms, ...page } = readAnswer(routes.list, data);
    const rows = forms.map(({ id, name, recipients, submissions, endpoint }) => [
      id,
      name,
      recipients.map(recipientText).join(', '),
      String(submissions),
      endpoint,
    ]);
    const headings = ['FORM', 'NAME', 'RECIPIENT', 'SUBMISSIONS', 'ADDRESS'];
    writePage(
      terminal,
      { headings, rows },
      { ...page, nothing: 'No forms found. Create a project with: postern init' },
    );
  });
}

/** Writes code for a page with the form. */
export function formsSnippet(options: CommandOptions, id: string, style: Style): Promise<number> {
  return run(options, async ({ client, terminal, json }) => {
    const { settings, ...found } = shownForm.parse(await formData(client, id));
    const { honeypot } = settings.spam_protection;
    const code = snippetOf({ ...found, honeypot, fields: fieldsOf(settings) }, style);
    if (json) writeJson(terminal, { ...found, style, code });
    else terminal.write(code);
  });
}

/** The API keeps instant forms apart, which have ids of the same kind as those that it made itself. */
async function formData(client: Client, id: string): Promise<unknown> {
  const path = encodeURIComponent(id);
  try {
    return await client.get(`/forms/${path}`);
  } catch (error) {
    const isLost = error instanceof RequestRefused && error.refused.code === 'FORM_NOT_FOUND';
    if (!isLost || !id.startsWith('frm_')) throw error;
    return client.get(`/instant/forms/${path}`);
  }
}

/** What a page needs to know. */
function pick(settings: Readonly<Record<string, unknown>>): Record<string, unknown> {
  return Object.fromEntries(
    ['required', 'fields', 'uploads', 'spam_protection'].flatMap((name) =>
      name in settings ? [[name, settings[name]]] : [],
    ),
  );
}

const DEFAULT_FIELDS = ['name', 'email', 'message'];

/** Those that the form names, else the usual ones; one for files where it takes them; an address to answer to in any case. */
function fieldsOf({ required, fields, uploads }: FormConfig): SnippetField[] {
  const named = [...new Set([...Object.keys(fields), ...required])];
  const names = named.length === 0 ? DEFAULT_FIELDS : named;
  const isAnswerable = names.some((name) => name === 'email' || fields[name]?.type === 'email');
  const all = (isAnswerable ? names : ['email', ...names]).map((name): SnippetField => {
    const { type = name === 'email' ? 'email' : 'text', ...rest } = fields[name] ?? {};
    return { ...rest, name, type, label: labelOf({ fields }, name), isRequired: required.includes(name) };
  });
  const takesFiles = uploads?.enabled === true && !all.some(({ type }) => type === 'file');
  return takesFiles ? [...all, { name: 'files', label: 'Files', type: 'file', isRequired: false }] : all;
}

const STATES = { confirmed: 'confirmed', pending: 'unconfirmed', refused: 'refused' } as const;

/** Lists what was sent to instant forms, newest first. Returns the exit code, as all of these do. */
export function instantList(options: CommandOptions, conditions: SubmissionConditions): Promise<number> {
  return run(options, async ({ client, terminal, json }) => {
    const data = await client.get(`/instant/submissions${queryOf(conditions)}`);
    if (json) return writeJson(terminal, data);
    writeSubmissions(terminal, readAnswer(submissionRoutes.list, data));
  });
}

/** Lists the instant forms themselves. */
export function instantForms(options: CommandOptions, page: PageFlags): Promise<number> {
  return run(options, async ({ client, terminal, json }) => {
    const data = await client.get(`/instant/forms${queryOf(page)}`);
    if (json) return writeJson(terminal, data);
    const { forms, ...where } = readAnswer(instantRoutes.list, data);
    const rows = forms.map(({ id, name, email, endpoint, submissions, recipient_status }) => [
      id,
      name,
      email,
      STATES[recipient_status],
      String(submissions),
      endpoint,
    ]);
    const headings = ['FORM', 'NAME', 'RECIPIENT', 'STATE', 'SUBMISSIONS', 'ADDRESS'];
    writePage(terminal, { headings, rows }, { ...where, nothing: 'No instant forms found.' });
  });
}

/** Makes one, and says where it is posted to. */
export function instantCreate(options: CommandOptions, wanted: { name: string; email: string }): Promise<number> {
  return run(options, async ({ client, terminal, json }) => {
    const data = await client.post('/instant/forms', wanted);
    if (json) return writeJson(terminal, data);
    const { id, endpoint, email, recipient_status: status } = readAnswer(instantRoutes.create, data);
    writeFacts(terminal, [
      ['form', id],
      ['address', endpoint],
      ['mail to', email],
    ]);
    if (status === 'pending')
      terminal.writeError(
        `Mail is held until ${email} opens the confirmation link. To send a new link, run: postern recipients ask ${email}\n`,
      );
    if (status === 'refused')
      terminal.writeError(`${email} has declined mail from this server. Choose another recipient.\n`);
    if (terminal.width !== undefined) terminal.write(`\nTo get its HTML, run: postern forms snippet ${id}\n`);
  });
}

/** Lists recipients with their confirmation status. Returns the exit code, as all of these do. */
export function recipientsList(options: CommandOptions, page: PageFlags): Promise<number> {
  return run(options, async ({ client, terminal, json }) => {
    const data = await client.get(`/recipients${queryOf(page)}`);
    if (json) return writeJson(terminal, data);
    const { recipients, ...where } = readAnswer(recipientRoutes.list, data);
    const rows = recipients.map(({ address, status, asked_at, confirmed_at }) => [
      address,
      status,
      shortTime(asked_at),
      shortTime(confirmed_at),
    ]);
    const headings = ['ADDRESS', 'STATUS', 'ASKED', 'CONFIRMED'];
    writePage(terminal, { headings, rows }, { ...where, nothing: 'No recipients found.' });
  });
}

/** Mails an address a new link. */
export function recipientsAsk(options: CommandOptions, address: string): Promise<number> {
  return run(options, async ({ client, terminal, json }) => {
    const data = await client.post('/recipients', { address });
    if (json) return writeJson(terminal, data);
    const { status, address: confirmed } = readAnswer(recipientRoutes.ask, data);
    terminal.write(
      status === 'pending'
        ? `Sent a confirmation link to ${printable(confirmed)}. Mail to this address is held until the link is opened.\n`
        : `${printable(confirmed)} is already confirmed.\n`,
    );
  });
}

/** A recipient of a form in a list: with its status, where it gets no mail. */
function recipientText({ address, status }: { readonly address: string; readonly status: string }): string {
  return status === 'confirmed' ? address : `${address} (${status})`;
}

export interface SubmissionFilter extends TimeRangeFlags {
  readonly status?: string | undefined;
  /** Stands in a field. */
  readonly q?: string | undefined;
}

export interface SubmissionConditions extends SubmissionFilter, PageFlags {}

/** Writes a page of submissions as a table. */
function writeSubmissions(terminal: Terminal, { submissions, ...page }: AnswerOf<typeof submissionRoutes.list>): void {
  const rows = submissions.map(({ id, created_at, status, form, fields }) => [
    id,
    shortTime(created_at),
    status,
    form,
    textOf(fields['email'] ?? fields['name'] ?? ''),
    textOf(fields['message'] ?? Object.values(fields).at(-1) ?? ''),
  ]);
  const headings = ['SUBMISSION', 'AT', 'STATUS', 'FORM', 'FROM', 'MESSAGE'];
  writePage(terminal, { headings, rows }, { ...page, nothing: 'No matching submissions.' });
}

/** Lists those of a form, newest first. Returns the exit code, as all of these do. */
export function submissionsList(options: CommandOptions, form: string, filter: SubmissionConditions): Promise<number> {
  return run(options, async ({ client, terminal, json }) => {
    const data = await client.get(`/forms/${encodeURIComponent(form)}/submissions${queryOf(filter)}`);
    if (json) return writeJson(terminal, data);
    writeSubmissions(terminal, readAnswer(submissionRoutes.list, data));
  });
}

/** Shows one with its fields, files and what the spam filter found. */
export function submissionsShow(options: CommandOptions, id: string): Promise<number> {
  return run(options, async ({ client, terminal, json }) => {
    const data = await client.get(`/submissions/${encodeURIComponent(id)}`);
    if (json) return writeJson(terminal, data);
    const { form, fields, files, ip, user_agent, referer, status, spam, created_at, messages } = readAnswer(
      submissionRoutes.show,
      data,
    );
    writeFacts(terminal, [
      ['submission', id],
      ['form', form],
      ['at', shortTime(created_at)],
      ['status', spam.reasons.length === 0 ? status : `${status}, spam score ${spam.score}`],
      ...spam.reasons.map(({ name, score, detail }): [string, string] => ['', `${score} ${name} ${detail}`]),
      ['from', [ip, referer, user_agent].filter((part) => part !== '').join('  ')],
      ['mail', messages.length === 0 ? 'none' : messages.join(' ')],
    ]);
    const { write, style } = terminal;
    for (const [name, text] of Object.entries(fields)) {
      const lines = textOf(text).split(/\r?\n/);
      write(`\n${style('bold', printable(name))}\n${lines.map((line) => `  ${printable(line)}\n`).join('')}`);
    }
    if (files.length > 0) write(`\n${style('bold', 'files')}\n`);
    for (const { id, filename, size } of files) write(`  ${id}  ${printable(filename)}  ${sizeText(size)}\n`);
  });
}

export interface Export extends SubmissionFilter {
  readonly format: string;
  /** File to write. Default: standard output. */
  readonly output?: string | undefined;
}

/** Writes all submissions of a form. */
export function submissionsExport(options: CommandOptions, form: string, wanted: Export): Promise<number> {
  const { output, ...filter } = wanted;
  return run(options, async ({ client, terminal }) => {
    const path = `/forms/${encodeURIComponent(form)}/submissions/export${queryOf(filter)}`;
    await save(terminal, await client.open({ method: 'GET', path }), output);
  });
}

function textOf(text: string | readonly string[]): string {
  return typeof text === 'string' ? text : text.join(', ');
}
