/** `postern submissions …`: what visitors sent. */
import { z } from 'zod';
import type { PageFlags, SpanFlags } from './commands/asking.ts';
import { writeFacts, writePage } from './list.ts';
import { queryOf, run, shortTime, writeJson, type CommandOptions } from './run.ts';
import { printable } from './table.ts';
import { save } from './save.ts';
import type { Terminal } from './terminal.ts';
import { sizeText } from './words.ts';

const value = z.union([z.string(), z.array(z.string())]);
const submission = z.object({
  id: z.string(),
  form: z.string(),
  fields: z.record(z.string(), value),
  files: z.array(z.object({ id: z.string(), filename: z.string(), size: z.number() })),
  ip: z.string(),
  user_agent: z.string(),
  referer: z.string(),
  status: z.string(),
  spam: z.object({
    score: z.number(),
    reasons: z.array(z.object({ name: z.string(), score: z.number(), detail: z.string() })),
  }),
  created_at: z.string(),
  messages: z.array(z.string()),
});

/** A page of them, as the API answers it. */
export const submissionList = z.object({
  submissions: z.array(submission),
  count: z.number(),
  next_cursor: z.string().nullable(),
});

export interface SubmissionFilter extends SpanFlags {
  readonly status?: string | undefined;
  /** Stands in a field. */
  readonly q?: string | undefined;
}

export interface SubmissionConditions extends SubmissionFilter, PageFlags {}

/** Writes a page of submissions as a table. */
export function writeSubmissions(terminal: Terminal, { submissions, ...page }: z.output<typeof submissionList>): void {
  const rows = submissions.map(({ id, created_at, status, form, fields }) => [
    id,
    shortTime(created_at),
    status,
    form,
    textOf(fields['email'] ?? fields['name'] ?? ''),
    textOf(fields['message'] ?? Object.values(fields).at(-1) ?? ''),
  ]);
  const headings = ['SUBMISSION', 'AT', 'STATUS', 'FORM', 'FROM', 'MESSAGE'];
  writePage(terminal, { headings, rows }, { ...page, nothing: 'There are no submissions that match.' });
}

/** Lists those of a form, newest first. Answers the exit code, as all of these do. */
export function submissionsList(options: CommandOptions, form: string, filter: SubmissionConditions): Promise<number> {
  return run(options, async ({ client, terminal, json }) => {
    const data = await client.get(`/forms/${encodeURIComponent(form)}/submissions${queryOf(filter)}`);
    if (json) return writeJson(terminal, data);
    writeSubmissions(terminal, submissionList.parse(data));
  });
}

/** Shows one with its fields, files and what the spam filter found. */
export function submissionsShow(options: CommandOptions, id: string): Promise<number> {
  return run(options, async ({ client, terminal, json }) => {
    const data = await client.get(`/submissions/${encodeURIComponent(id)}`);
    if (json) return writeJson(terminal, data);
    const { form, fields, files, ip, user_agent, referer, status, spam, created_at, messages } = submission.parse(data);
    writeFacts(terminal, [
      ['submission', id],
      ['form', form],
      ['at', shortTime(created_at)],
      ['status', spam.reasons.length === 0 ? status : `${status}, ${spam.score} points of spam`],
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
  /** File to write; standard output unless told. */
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
