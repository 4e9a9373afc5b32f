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
  recipient_status: z.enum(['confirmed', 'pending', 'refused']),
});
const listing = z.object({ forms: z.array(form), count: z.number(), next_cursor: z.string().nullable() });

const STATES = { confirmed: 'confirmed', pending: 'waits for its recipient', refused: 'refused' } as const;

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
    const rows = forms.map(({ id, name, email, endpoint, submissions, recipient_status }) => [
      id,
      name,
      email,
      STATES[recipient_status],
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
    const { id, endpoint, email, recipient_status: status } = form.parse(data);
    writeFacts(terminal, [
      ['form', id],
      ['address', endpoint],
      ['mail to', email],
    ]);
    if (status === 'pending')
      terminal.complain(
        `Its mail waits until ${email} has confirmed the link that was sent there. To send another: postern recipients ask ${email}\n`,
      );
    if (status === 'refused') terminal.complain(`${email} wants no mail from this server: choose another recipient.\n`);
    if (terminal.width !== undefined) terminal.write(`\nIts HTML: postern forms snippet ${id}\n`);
  });
}
