/** `postern inbound …`: mail that came to the SMTP door, and why some of it was not taken. */
import { z } from 'zod';
import { queryOf, run, shortTime, writeJson, type CommandOptions } from './run.ts';
import { table } from './table.ts';

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

export interface InboundFilter {
  readonly outcome?: string | undefined;
  readonly domain?: string | undefined;
  readonly reason?: string | undefined;
  readonly from?: string | undefined;
  readonly to?: string | undefined;
  readonly limit?: string | undefined;
  /** The `next_cursor` of the page before. */
  readonly cursor?: string | undefined;
}

/** Lists what was said of each recipient, newest first. Answers the exit code. */
export function inboundList(options: CommandOptions, filter: InboundFilter): Promise<number> {
  return run(options, async ({ client, write, json, width }) => {
    const data = await client.get(`/admin/inbound${queryOf(filter)}`);
    if (json) return writeJson(write, data);
    const { inbound, count, next_cursor: next } = listing.parse(data);
    if (inbound.length === 0) return write('No mail has come in that matches.\n');
    const rows = inbound.map(({ at, outcome, reason, ip, sender, recipient, reply }) => [
      shortTime(at),
      outcome,
      reason,
      ip,
      sender === '' ? '<>' : sender,
      recipient === '' ? '-' : recipient,
      reply,
    ]);
    write(table(['AT', 'OUTCOME', 'REASON', 'FROM', 'SENDER', 'RECIPIENT', 'REPLY'], rows, width));
    write(`${inbound.length} of ${count}${next === null ? '' : `; more with --cursor ${next}`}\n`);
  });
}
