/** `postern webhooks …`, `suppressions …` and `events …`. */
import { webhooks as routes } from '../contract/webhooks.ts';
import { suppressions as suppressionRoutes } from '../contract/email.ts';
import { analytics } from '../contract/analytics.ts';
import type { AnswerOf } from '../contract/route.ts';
import { readAnswer, isConfirmed, EXIT, queryOf, run, shortTime, writeJson, type CommandOptions } from './run.ts';
import { z } from 'zod';
import type { PageFlags, TimeRangeFlags } from './commands/options.ts';

import { writeFacts, writePage, writeTable, counted } from './output.ts';
import { printable } from './terminal.ts';

/** Lists them, newest first. Returns the exit code, as all of these do. */
export function webhooksList(options: CommandOptions, page: PageFlags): Promise<number> {
  return run(options, async ({ client, terminal, json }) => {
    const data = await client.get(`/webhooks${queryOf(page)}`);
    if (json) return writeJson(terminal, data);
    const { webhooks, ...where } = readAnswer(routes.list, data);
    const rows = webhooks.map((row) => [row.id, stateOf(row), row.project ?? 'the API', row.url, eventsOf(row)]);
    const headings = ['WEBHOOK', 'STATE', 'CREATED BY', 'ADDRESS', 'EVENTS'];
    writePage(terminal, { headings, rows }, { ...where, nothing: 'No webhooks found.' });
  });
}

/** Shows one and how its newest deliveries went. */
export function webhooksShow(options: CommandOptions, id: string): Promise<number> {
  return run(options, async ({ client, terminal, json }) => {
    const data = await client.get(pathOf(id));
    if (json) return writeJson(terminal, data);
    const { deliveries, ...row } = readAnswer(routes.show, data);
    writeFacts(terminal, [
      ['webhook', row.id],
      ['address', row.url],
      ['events', eventsOf(row)],
      ['created by', row.project === null ? 'the API' : `project ${row.project}`],
      ...(row.form === null ? [] : [['form', row.form] as const]),
      ...(row.description === '' ? [] : [['description', row.description] as const]),
      ['state', row.reason === null ? stateOf(row) : `${stateOf(row)}: ${row.reason}`],
    ]);
    if (deliveries.length === 0) return;
    terminal.write('\n');
    writeTable(terminal, {
      headings: ['LAST ATTEMPT', 'EVENT', 'STATE', 'ATTEMPTS', 'RESPONSE'],
      rows: deliveries.map(({ type, state, attempts, last_attempt_at, last_result }) => [
        shortTime(last_attempt_at),
        type ?? '-',
        state,
        String(attempts),
        last_result ?? '-',
      ]),
    });
  });
}

function stateOf({ status, failing_since }: AnswerOf<typeof routes.change>): string {
  return status === 'active' && failing_since !== null ? `failing since ${shortTime(failing_since)}` : status;
}

function eventsOf({ events }: AnswerOf<typeof routes.change>): string {
  return events.length === 0 ? 'all' : events.join(' ');
}

export interface NewWebhook {
  readonly url: string;
  readonly events?: readonly string[] | undefined;
  readonly description?: string | undefined;
}

/** Makes one and shows its secret, once. */
export function webhooksAdd(options: CommandOptions, wanted: NewWebhook): Promise<number> {
  return run(options, async ({ client, terminal, json }) => {
    const data = await client.post('/webhooks', wanted);
    if (json) return writeJson(terminal, data);
    const { id, url, secret } = readAnswer(routes.create, data);
    writeFacts(terminal, [
      ['webhook', id],
      ['address', url],
      ['secret', secret],
    ]);
    terminal.writeError('Save the secret now. It is not shown again.\n');
  });
}

/** Deletes one after confirmation. */
export function webhooksRemove(options: CommandOptions, id: string, { yes }: { yes: boolean }): Promise<number> {
  return run(options, async ({ client, terminal, json }) => {
    const { url } = readAnswer(routes.show, await client.get(pathOf(id)));
    if (!(await isConfirmed(terminal, `Remove ${id}(${printable(url)}) and its pending deliveries?`, yes)))
      return EXIT.failed;
    const data = await client.delete(pathOf(id));
    if (json) return writeJson(terminal, data);
    terminal.write(`Removed ${id}\n`);
  });
}

/** Posts a test event at once; a failed check where it is not taken. */
export function webhooksTest(options: CommandOptions, id: string): Promise<number> {
  return run(options, async ({ client, terminal, json }) => {
    const data = await client.post(`${pathOf(id)}/test`, {});
    const { delivered, result } = readAnswer(routes.test, data);
    if (json) writeJson(terminal, data);
    else terminal.write(`${delivered ? 'delivered' : 'not delivered'}: ${printable(result)}\n`);
    return delivered ? EXIT.done : EXIT.failed;
  });
}

/** Gives it a new secret. */
export function webhooksRotate(options: CommandOptions, id: string): Promise<number> {
  return run(options, async ({ client, terminal, json }) => {
    const data = await client.post(`${pathOf(id)}/rotate`, {});
    if (json) return writeJson(terminal, data);
    const { secret, old_secret_until } = readAnswer(routes.rotate, data);
    writeFacts(terminal, [
      ['secret', secret],
      ['old secret', `valid until ${shortTime(old_secret_until)}`],
    ]);
    terminal.writeError('Save the secret now. It is not shown again.\n');
  });
}

/** Posts an event, or all since a time, once more. */
export function webhooksReplay(
  options: CommandOptions,
  id: string,
  what: { readonly event?: string | undefined; readonly since?: string | undefined },
): Promise<number> {
  return run(options, async ({ client, terminal, json }) => {
    const data = await client.post(`${pathOf(id)}/replay`, what);
    if (json) return writeJson(terminal, data);
    const { replayed: count, more } = readAnswer(routes.replay, data);
    terminal.write(`${counted(count, 'event')} queued for redelivery\n`);
    if (more)
      terminal.writeError('There are more events. Run the command again with a later time once these are delivered.\n');
  });
}

/** Stops one, or lets it go on. */
export function webhooksSwitch(options: CommandOptions, id: string, status: 'active' | 'disabled'): Promise<number> {
  return run(options, async ({ client, terminal, json }) => {
    const data = await client.patch(pathOf(id), { status });
    if (json) return writeJson(terminal, data);
    terminal.write(`${id} is ${readAnswer(routes.change, data).status}\n`);
  });
}

function pathOf(id: string): string {
  return `/webhooks/${encodeURIComponent(id)}`;
}

/** Lists them in their alphabetical order. Returns the exit code, as all of these do. */
export function suppressionsList(options: CommandOptions, page: PageFlags): Promise<number> {
  return run(options, async ({ client, terminal, json }) => {
    const data = await client.get(`/suppressions${queryOf(page)}`);
    if (json) return writeJson(terminal, data);
    const { suppressions, ...where } = readAnswer(suppressionRoutes.list, data);
    const rows = suppressions.map(({ address, reason, created_at }) => [address, reason, shortTime(created_at)]);
    writePage(
      terminal,
      { headings: ['ADDRESS', 'REASON', 'SINCE'], rows },
      { ...where, nothing: 'The suppression list is empty.' },
    );
  });
}

/** Puts an address on the list. */
export function suppressionsAdd(options: CommandOptions, address: string, reason: string): Promise<number> {
  return run(options, async ({ client, terminal, json }) => {
    const data = await client.post('/suppressions', { address, reason });
    if (json) return writeJson(terminal, data);
    const row = readAnswer(suppressionRoutes.create, data);
    terminal.write(`Suppressed ${printable(row.address)} (${row.reason}). No mail is sent to this address.\n`);
  });
}

/** Takes an address off the list. */
export function suppressionsRemove(options: CommandOptions, address: string): Promise<number> {
  return run(options, async ({ client, terminal, json }) => {
    const data = await client.delete(`/suppressions/${encodeURIComponent(address)}`);
    if (json) return writeJson(terminal, data);
    terminal.write(
      `Removed ${printable(readAnswer(suppressionRoutes.create, data).address)} from the suppression list.\n`,
    );
  });
}

/** The details of an event that a list shows. */
const details = z.object({
  recipient: z.string().optional(),
  to: z.string().optional(),
  reply: z.string().optional(),
  /** For a forward that failed: `queued`, or why no DSN was sent. */
  dsn: z.string().optional(),
});

export interface EventFilter extends PageFlags, TimeRangeFlags {
  readonly type?: string | undefined;
  readonly domain?: string | undefined;
}

/** Lists events, newest first. Returns the exit code. */
export function eventsList(options: CommandOptions, filter: EventFilter): Promise<number> {
  return run(options, async ({ client, terminal, json }) => {
    const answer = await client.get(`/events${queryOf(filter)}`);
    if (json) return writeJson(terminal, answer);
    const { events, ...page } = readAnswer(analytics.events, answer);
    const rows = events.map(({ created_at: at, type, domain, data }) => {
      const { recipient, to = '-', reply = '', dsn } = details.parse(data);
      const note = dsn === undefined || dsn === 'queued' ? '' : ` (no DSN sent: ${dsn})`;
      return [shortTime(at), type, domain ?? '-', recipient ?? to, `${reply}${note}`];
    });
    const headings = ['AT', 'TYPE', 'DOMAIN', 'RECIPIENT', 'REPLY'];
    writePage(terminal, { headings, rows }, { ...page, nothing: 'No matching events.' });
  });
}
