/** `postern events …`: what happened to an account's mail. */
import { z } from 'zod';
import type { PageFlags, SpanFlags } from './commands/asking.ts';
import { writePage } from './list.ts';
import { queryOf, run, shortTime, writeJson, type CommandOptions } from './run.ts';

const data = z.object({
  recipient: z.string().optional(),
  to: z.string().optional(),
  reply: z.string().optional(),
  /** Of a failed forward: whether its sender was told, else why not. */
  dsn: z.string().optional(),
});
const entry = z.object({ created_at: z.string(), type: z.string(), domain: z.string().nullable(), data });
const listing = z.object({ events: z.array(entry), count: z.number(), next_cursor: z.string().nullable() });

export interface EventFilter extends PageFlags, SpanFlags {
  readonly type?: string | undefined;
  readonly domain?: string | undefined;
}

/** Lists events, newest first. Answers the exit code. */
export function eventsList(options: CommandOptions, filter: EventFilter): Promise<number> {
  return run(options, async ({ client, terminal, json }) => {
    const answer = await client.get(`/events${queryOf(filter)}`);
    if (json) return writeJson(terminal, answer);
    const { events, ...page } = listing.parse(answer);
    const rows = events.map(({ created_at: at, type, domain, data: { recipient, to = '-', reply = '', dsn } }) => [
      shortTime(at),
      type,
      domain ?? '-',
      recipient ?? to,
      dsn === undefined || dsn === 'queued' ? reply : `${reply} (sender not told: ${dsn})`,
    ]);
    const headings = ['AT', 'TYPE', 'DOMAIN', 'RECIPIENT', 'REPLY'];
    writePage(terminal, { headings, rows }, { ...page, nothing: 'There are no events that match.' });
  });
}
