/** `postern forms …`: the forms of an account, and code that posts to them. */
import { z } from 'zod';
import { labelOf } from '../config/label.ts';
import { formSchema } from '../config/schema-project.ts';
import type { FormConfig } from '../config/schema.ts';
import { RequestRefused, type Client } from './client.ts';
import type { PageFlags } from './commands/asking.ts';
import { writePage } from './list.ts';
import { recipientText } from './recipients.ts';
import { queryOf, run, writeJson, type CommandOptions } from './run.ts';
import { snippetOf, type SnippetField, type Style } from './snippet.ts';

const form = z.object({
  id: z.string(),
  name: z.string(),
  submissions: z.number(),
  recipients: z.array(z.object({ address: z.string(), status: z.string() })),
  endpoint: z.string(),
});
const listing = z.object({ forms: z.array(form), count: z.number(), next_cursor: z.string().nullable() });
const shown = z.object({
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

/** Lists them. Answers the exit code, as all of these do. */
export function formsList(options: CommandOptions, filter: FormsFilter): Promise<number> {
  return run(options, async ({ client, terminal, json }) => {
    const data = await client.get(`/forms${queryOf(filter)}`);
    if (json) return writeJson(terminal, data);
    const { forms, ...page } = listing.parse(data);
    const rows = forms.map(({ id, name, recipients, submissions, endpoint }) => [
      id,
      name,
      recipients.map(recipientText).join(', '),
      String(submissions),
      endpoint,
    ]);
    const headings = ['FORM', 'NAME', 'RECIPIENT', 'SUBMISSIONS', 'ADDRESS'];
    writePage(terminal, { headings, rows }, { ...page, nothing: 'There are no forms. postern init begins a project.' });
  });
}

/** Writes code for a page with the form. */
export function formsSnippet(options: CommandOptions, id: string, style: Style): Promise<number> {
  return run(options, async ({ client, terminal, json }) => {
    const { settings, ...found } = shown.parse(await formData(client, id));
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

const USUAL = ['name', 'email', 'message'];

/** Those that the form names, else the usual ones; one for files where it takes them; an address to answer to in any case. */
function fieldsOf({ required, fields, uploads }: FormConfig): SnippetField[] {
  const named = [...new Set([...Object.keys(fields), ...required])];
  const names = named.length === 0 ? USUAL : named;
  const isAnswerable = names.some((name) => name === 'email' || fields[name]?.type === 'email');
  const all = (isAnswerable ? names : ['email', ...names]).map((name): SnippetField => {
    const { type = name === 'email' ? 'email' : 'text', ...rest } = fields[name] ?? {};
    return { ...rest, name, type, label: labelOf({ fields }, name), isRequired: required.includes(name) };
  });
  const takesFiles = uploads?.enabled === true && !all.some(({ type }) => type === 'file');
  return takesFiles ? [...all, { name: 'files', label: 'Files', type: 'file', isRequired: false }] : all;
}
