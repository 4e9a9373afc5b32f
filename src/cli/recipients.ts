/** `postern recipients …`: addresses that have to agree to mail of the account. */
import { z } from 'zod';
import type { PageFlags } from './commands/asking.ts';
import { writePage } from './list.ts';
import { queryOf, run, shortTime, writeJson, type CommandOptions } from './run.ts';
import { printable } from './table.ts';

const recipient = z.object({
  address: z.string(),
  status: z.string(),
  asked_at: z.string().nullable(),
  confirmed_at: z.string().nullable(),
});
const listing = z.object({ recipients: z.array(recipient), count: z.number(), next_cursor: z.string().nullable() });

/** Lists those that were asked, or agreed. Answers the exit code, as all of these do. */
export function recipientsList(options: CommandOptions, page: PageFlags): Promise<number> {
  return run(options, async ({ client, terminal, json }) => {
    const data = await client.get(`/recipients${queryOf(page)}`);
    if (json) return writeJson(terminal, data);
    const { recipients, ...where } = listing.parse(data);
    const rows = recipients.map(({ address, status, asked_at, confirmed_at }) => [
      address,
      status,
      shortTime(asked_at),
      shortTime(confirmed_at),
    ]);
    const headings = ['ADDRESS', 'STATUS', 'ASKED', 'CONFIRMED'];
    writePage(terminal, { headings, rows }, { ...where, nothing: 'Nobody was asked to agree.' });
  });
}

/** Mails an address a new link. */
export function recipientsAsk(options: CommandOptions, address: string): Promise<number> {
  return run(options, async ({ client, terminal, json }) => {
    const data = await client.post('/recipients', { address });
    if (json) return writeJson(terminal, data);
    const { status, address: asked } = recipient.parse(data);
    terminal.write(
      status === 'pending'
        ? `A link was mailed to ${printable(asked)}. Mail for it waits until the link is confirmed.\n`
        : `${printable(asked)} need not be asked: it gets mail of the account.\n`,
    );
  });
}

/** A recipient of a form in a list: with its status, where it gets no mail. */
export function recipientText({ address, status }: { readonly address: string; readonly status: string }): string {
  return status === 'confirmed' ? address : `${address} (${status})`;
}
