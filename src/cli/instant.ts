/** `postern instant …`: forms that need no domain, and what was sent to them. */
import { z } from 'zod';
import type { PageFlags } from './commands/asking.ts';
import { writeFacts, writePage } from './list.ts';
import { queryOf, run, writeJson, type CommandOptions } from './run.ts';
import { submissionList, writeSubmissions, type SubmissionConditions } from './submissions.ts';

const form = z.object({
  id: z.string(),
  name: z.string(),
  email: z.string(),
  endpoint: z.string(),
  submissions: z.number(),
  confirmed: z.boolean(),
});
const listing = z.object({ forms: z.array(form), count: z.number(), next_cursor: z.string().nullable() });

/** Lists what was sent to instant forms, newest first. Answers the exit code, as all of these do. */
export function instantList(options: CommandOptions, conditions: SubmissionConditions): Promise<number> {
  return run(options, async ({ client, terminal, json }) => {
    const data = await client.get(`/instant/submissions${queryOf(conditions)}`);
    if (json) return writeJson(terminal, data);
    writeSubmissions(terminal, submissionList.parse(data));
  });
}

/** Lists the instant forms themselves. */
export function instantForms(options: CommandOptions, page: PageFlags): Promise<number> {
  return run(options, async ({ client, terminal, json }) => {
    const data = await client.get(`/instant/forms${queryOf(page)}`);
    if (json) return writeJson(terminal, data);
    const { forms, ...where } = listing.parse(data);
    const rows = forms.map(({ id, name, email, endpoint, submissions, confirmed }) => [
      id,
      name,
      email,
      confirmed ? 'confirmed' : 'waits for its recipient',
      String(submissions),
      endpoint,
    ]);
    const headings = ['FORM', 'NAME', 'RECIPIENT', 'STATE', 'SUBMISSIONS', 'ADDRESS'];
    writePage(terminal, { headings, rows }, { ...where, nothing: 'There are no instant forms.' });
  });
}

/** Makes one, and says where it is posted to. */
export function instantCreate(options: CommandOptions, wanted: { name: string; email: string }): Promise<number> {
  return run(options, async ({ client, terminal, json }) => {
    const data = await client.post('/instant/forms', wanted);
    if (json) return writeJson(terminal, data);
    const { id, endpoint, email, confirmed } = form.parse(data);
    writeFacts(terminal, [
      ['form', id],
      ['address', endpoint],
      ['mail to', email],
    ]);
    if (!confirmed) terminal.complain(`It mails nobody until ${email} has opened the link that was sent there.\n`);
    if (terminal.width !== undefined) terminal.write(`\nIts HTML: postern forms snippet ${id}\n`);
  });
}
