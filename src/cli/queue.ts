/** `postern queue …`: what waits, why, and what to do about it. */
import { z } from 'zod';
import type { PageFlags } from './commands/asking.ts';
import { writePage } from './list.ts';
import { queryOf, run, shortTime, writeJson, type CommandOptions } from './run.ts';
import { printable, table } from './table.ts';

/** One attempt to deliver: `address` is the host's, `tls` its version. */
export const attemptShape = z.object({
  at: z.string(),
  host: z.string().nullable(),
  address: z.string().nullable(),
  tls: z.string().nullable(),
  outcome: z.string(),
  reply: z.string(),
});
const delivery = z.object({
  id: z.string(),
  message: z.string(),
  recipient: z.string(),
  destination: z.string(),
  held: z.boolean(),
  state: z.string(),
  attempts: z.number(),
  next_attempt_at: z.string().nullable(),
  last_reply: z.string().nullable(),
});
const listing = z.object({ deliveries: z.array(delivery), count: z.number(), next_cursor: z.string().nullable() });
const shown = z.object({
  message: z.object({
    id: z.string(),
    kind: z.string(),
    domain: z.string(),
    submission: z.string().nullable(),
    size: z.number(),
    created_at: z.string(),
    expires_at: z.string(),
  }),
  deliveries: z.array(
    delivery.extend({
      tries: z.array(attemptShape.extend({ number: z.number() })),
    }),
  ),
});
const operated = z.object({ deliveries: z.array(z.string()), held: z.array(z.string()) });
const steered = z.object({ destination: z.string(), held: z.boolean() });

export interface ListFilter extends PageFlags {
  readonly state?: string | undefined;
  readonly domain?: string | undefined;
}

/** Lists deliveries, newest first. Answers the exit code, as all of these do. */
export function queueList(options: CommandOptions, filter: ListFilter): Promise<number> {
  return run(options, async ({ client, terminal, json }) => {
    const data = await client.get(`/admin/queue${queryOf(filter)}`);
    if (json) return writeJson(terminal, data);
    const { deliveries, ...page } = listing.parse(data);
    const rows = deliveries.map((row) => [
      row.id,
      row.state,
      String(row.attempts),
      isHeld(row) ? 'held' : shortTime(row.next_attempt_at),
      row.recipient,
      row.last_reply ?? '',
    ]);
    const headings = ['DELIVERY', 'STATE', 'TRIES', 'NEXT TRY', 'RECIPIENT', 'LAST REPLY'];
    writePage(terminal, { headings, rows }, { ...page, nothing: 'Nothing is in the queue that matches.' });
  });
}

/** Shows a message, by its id or a delivery's, with every attempt. */
export function queueShow(options: CommandOptions, id: string): Promise<number> {
  return run(options, async ({ client, terminal, json }) => {
    const data = await client.get(`/admin/queue/${encodeURIComponent(id)}`);
    if (json) return writeJson(terminal, data);
    const { message, deliveries } = shown.parse(data);
    terminal.write(`${message.id}  ${message.kind} of ${message.domain}\n`);
    if (message.submission !== null) terminal.write(`submission  ${message.submission}\n`);
    terminal.write(`accepted    ${shortTime(message.created_at)}, given up ${shortTime(message.expires_at)}\n`);
    if (message.size > 0) terminal.write(`size        ${message.size} bytes\n`);
    for (const { tries, ...row } of deliveries) {
      terminal.write(`\n${row.id}  ${printable(row.recipient)}  ${row.state}${nextText(row)}\n`);
      if (tries.length === 0 && row.last_reply !== null) terminal.write(`  ${printable(row.last_reply)}\n`);
      const rows = tries.map((attempt) => [
        `  ${attempt.number}`,
        shortTime(attempt.at),
        attempt.outcome,
        [attempt.host, attempt.address].filter((part) => part !== null).join(' '),
        attempt.tls ?? 'clear',
        attempt.reply,
      ]);
      if (rows.length > 0)
        terminal.write(table(['  TRY', 'AT', 'OUTCOME', 'HOST', 'TLS', 'REPLY'], rows, terminal.width));
    }
  });
}

/** Whether it waits for nothing but the operator. */
function isHeld({ held, next_attempt_at: next }: z.output<typeof delivery>): boolean {
  return held && next !== null;
}

function nextText(row: z.output<typeof delivery>): string {
  if (isHeld(row)) return `, held: postern queue release ${row.destination} lets it go on`;
  return row.next_attempt_at === null ? '' : `, next try ${shortTime(row.next_attempt_at)}`;
}

/** Tries what waits of a message or delivery now. */
export function queueRetry(options: CommandOptions, id: string): Promise<number> {
  return operate(options, { id, verb: 'retry', done: 'is due now' });
}

/** Ends what waits of a message or delivery for good. */
export function queueCancel(options: CommandOptions, id: string): Promise<number> {
  return operate(options, { id, verb: 'cancel', done: 'cancelled' });
}

/** Lets no mail to a domain leave until it is released. */
export function queueHold(options: CommandOptions, domain: string): Promise<number> {
  return steer(options, domain, 'hold');
}

/** Ends a hold. */
export function queueRelease(options: CommandOptions, domain: string): Promise<number> {
  return steer(options, domain, 'release');
}

function operate(
  options: CommandOptions,
  what: { id: string; verb: 'retry' | 'cancel'; done: string },
): Promise<number> {
  return run(options, async ({ client, terminal, json }) => {
    const data = await client.post(`/admin/queue/${encodeURIComponent(what.id)}/${what.verb}`);
    if (json) return writeJson(terminal, data);
    const { deliveries, held } = operated.parse(data);
    for (const id of deliveries) terminal.write(`${id} ${what.done}\n`);
    if (what.verb === 'cancel') return;
    for (const name of held)
      terminal.complain(`Mail to ${name} is held: postern queue release ${name} lets it go on.\n`);
  });
}

function steer(options: CommandOptions, domain: string, verb: 'hold' | 'release'): Promise<number> {
  return run(options, async ({ client, terminal, json }) => {
    const data = await client.post(`/admin/queue/${verb}`, { domain });
    if (json) return writeJson(terminal, data);
    const { destination, held } = steered.parse(data);
    terminal.write(held ? `mail to ${destination} is held\n` : `mail to ${destination} goes on\n`);
  });
}
