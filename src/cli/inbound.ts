/** `postern inbound …`: mail that came to the SMTP door, and why some of it was not taken. */
import { z } from 'zod';
import type { PageFlags, SpanFlags } from './commands/asking.ts';
import { writePage } from './list.ts';
import { queryOf, run, shortTime, writeJson, type CommandOptions } from './run.ts';

const entry = z.object({
  at: z.string(),
  outcome: z.string(),
  reason: z.string(),
  ip: z.string(),
  sender: z.string(),
  recipient: z.string(),
  reply: z.string(),
});
const listing = z.object({ inbound: z.array(entry), count: z.number(), next_cursor: z.string().nullable() });

export interface InboundFilter extends PageFlags, SpanFlags {
  readonly outcome?: string | undefined;
  readonly domain?: string | undefined;
  readonly reason?: string | undefined;
}

/** Lists what was said of each recipient, newest first. Answers the exit code. */
export function inboundList(options: CommandOptions, filter: InboundFilter): Promise<number> {
  return run(options, async ({ client, terminal, json }) => {
    const data = await client.get(`/admin/inbound${queryOf(filter)}`);
    if (json) return writeJson(terminal, data);
    const { inbound, ...page } = listing.parse(data);
    const rows = inbound.map(({ at, outcome, reason, ip, sender, recipient, reply }) => [
      shortTime(at),
      outcome,
      reason,
      ip,
      sender === '' ? '<>' : sender,
      recipient === '' ? '-' : recipient,
      reply,
    ]);
    const headings = ['AT', 'OUTCOME', 'REASON', 'FROM', 'SENDER', 'RECIPIENT', 'REPLY'];
    writePage(terminal, { headings, rows }, { ...page, nothing: 'No mail has come in that matches.' });
  });
}
