/** `postern queue …`: what waits, why, and what to do about it. */
import { z } from 'zod';
import type { PageFlags } from './commands/asking.ts';
import { isConfirmed } from './confirm.ts';
import { writePage } from './list.ts';
import { EXIT, queryOf, run, UsageError, shortTime, writeJson, type CommandOptions } from './run.ts';
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
  suspended: z.boolean(),
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
const acted = z.object({ count: z.number(), in_progress: z.number() });

/** Which deliveries. */
export interface Filter {
  readonly state?: string | undefined;
  readonly domain?: string | undefined;
  readonly tenant?: string | undefined;
  readonly sender?: string | undefined;
  readonly olderThan?: string | undefined;
}

export interface ListFilter extends PageFlags, Filter {}

/** One message, delivery or destination, or all deliveries that match. */
export interface Wanted extends Filter {
  readonly what?: string | undefined;
  readonly dryRun: boolean;
  readonly yes: boolean;
}

export type Verb = 'retry' | 'cancel' | 'hold' | 'release';

/** Lists deliveries, newest first. Answers the exit code, as all of these do. */
export function queueList(options: CommandOptions, { olderThan, ...filter }: ListFilter): Promise<number> {
  return run(options, async ({ client, terminal, json }) => {
    const data = await client.get(`/admin/queue${queryOf({ ...filter, older_than: olderThan })}`);
    if (json) return writeJson(terminal, data);
    const { deliveries, ...page } = listing.parse(data);
    const rows = deliveries.map((row) => [
      row.id,
      row.state,
      String(row.attempts),
      waitsFor(row) ?? shortTime(row.next_attempt_at),
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

/** For what it waits beside its next try. */
function waitsFor({ state, held, suspended }: z.output<typeof delivery>): 'held' | 'suspended' | undefined {
  if (state !== 'queued' && state !== 'deferred') return undefined;
  if (held) return 'held';
  return suspended ? 'suspended' : undefined;
}

function nextText(row: z.output<typeof delivery>): string {
  const reason = waitsFor(row);
  if (reason === 'suspended') return ', suspended: it waits until its tenant is served again';
  if (reason === 'held') {
    // A delivery that is held by itself has no next attempt.
    const how = row.next_attempt_at === null ? `--domain ${row.destination}` : row.destination;
    return `, held: postern queue release ${how} lets it go on`;
  }
  return row.next_attempt_at === null ? '' : `, next try ${shortTime(row.next_attempt_at)}`;
}

/** How long hundreds of thousands of deliveries may take: a little less than the daemon leaves a connection idle. */
const PATIENCE_MS = 115_000;

const SINGLE: Readonly<Record<Verb, (options: CommandOptions, what: string) => Promise<number>>> = {
  retry: (options, id) => operate(options, { id, verb: 'retry', done: 'is due now' }),
  cancel: (options, id) => operate(options, { id, verb: 'cancel', done: 'cancelled' }),
  hold: (options, domain) => steer(options, domain, 'hold'),
  release: (options, domain) => steer(options, domain, 'release'),
};

/** Does it to one message or delivery (`retry`, `cancel`) or destination (`hold`, `release`), or to all that match. */
export function queueAct(
  options: CommandOptions,
  verb: Verb,
  { what, dryRun, yes, ...filter }: Wanted,
): Promise<number> {
  const isFiltered = Object.values(filter).some((value) => value !== undefined);
  if ((what === undefined) !== isFiltered || (what !== undefined && dryRun)) {
    throw new UsageError(
      `Name one thing to ${verb}, or what is to match: --tenant, --domain, --sender, --older-than or --state.`,
    );
  }
  return what === undefined ? actOnMany(options, verb, { filter, dryRun, yes }) : SINGLE[verb](options, what);
}

const DONE: Readonly<Record<Verb, string>> = {
  retry: 'due now',
  cancel: 'cancelled',
  hold: 'held',
  release: 'released',
};

interface Many {
  readonly filter: Filter;
  readonly dryRun: boolean;
  readonly yes: boolean;
}

function actOnMany(options: CommandOptions, verb: Verb, { filter, dryRun, yes }: Many): Promise<number> {
  const { olderThan, ...rest } = filter;
  const body = { action: verb, filter: { ...rest, older_than: olderThan } };
  return run(options, async ({ client, terminal, json }) => {
    if (!yes || dryRun) {
      const data = await client.post('/admin/queue/actions', { ...body, dry_run: true });
      const { count } = acted.parse(data);
      if (dryRun && json) return writeJson(terminal, data);
      if (dryRun) return terminal.write(`${deliveries(count)} would be ${DONE[verb]}\n`);
      if (count > 1 && !(await isConfirmed(terminal, `${verb} ${deliveries(count)}?`, yes))) return EXIT.failed;
    }
    const path = '/admin/queue/actions';
    const { data } = await client.ask({ method: 'POST', path, body, idleMs: PATIENCE_MS });
    if (json) return writeJson(terminal, data);
    const { count, in_progress: inProgress } = acted.parse(data);
    terminal.write(`${deliveries(count)} ${DONE[verb]}\n`);
    if (inProgress > 0) terminal.complain(`${deliveries(inProgress)} being tried now, and left to that.\n`);
  });
}

function deliveries(count: number): string {
  return count === 1 ? '1 delivery' : `${count} deliveries`;
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
