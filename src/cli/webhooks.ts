/** `postern webhooks …`: programs that are told of what happens. */
import { z } from 'zod';
import type { PageFlags } from './commands/asking.ts';
import { isConfirmed } from './confirm.ts';
import { writeFacts, writePage, writeTable } from './list.ts';
import { EXIT, queryOf, run, shortTime, writeJson, type CommandOptions } from './run.ts';
import { printable } from './table.ts';
import { counted } from './words.ts';

const webhook = z.object({
  id: z.string(),
  url: z.string(),
  events: z.array(z.string()),
  description: z.string(),
  project: z.string().nullable(),
  form: z.string().nullable(),
  status: z.string(),
  reason: z.string().nullable(),
  failing_since: z.string().nullable(),
});
const listing = z.object({ webhooks: z.array(webhook), count: z.number(), next_cursor: z.string().nullable() });
const shown = webhook.extend({
  deliveries: z.array(
    z.object({
      type: z.string().nullable(),
      state: z.string(),
      attempts: z.number(),
      last_attempt_at: z.string().nullable(),
      last_result: z.string().nullable(),
    }),
  ),
});
const made = z.object({ id: z.string(), url: z.string(), secret: z.string() });
const tested = z.object({ delivered: z.boolean(), result: z.string() });
const rotated = z.object({ secret: z.string(), old_secret_until: z.string() });
const replayed = z.object({ replayed: z.number(), more: z.boolean() });

/** Lists them, newest first. Answers the exit code, as all of these do. */
export function webhooksList(options: CommandOptions, page: PageFlags): Promise<number> {
  return run(options, async ({ client, terminal, json }) => {
    const data = await client.get(`/webhooks${queryOf(page)}`);
    if (json) return writeJson(terminal, data);
    const { webhooks, ...where } = listing.parse(data);
    const rows = webhooks.map((row) => [row.id, stateOf(row), row.project ?? 'the API', row.url, eventsOf(row)]);
    const headings = ['WEBHOOK', 'STATE', 'MADE BY', 'ADDRESS', 'EVENTS'];
    writePage(terminal, { headings, rows }, { ...where, nothing: 'There are no webhooks.' });
  });
}

/** Shows one and how its newest deliveries went. */
export function webhooksShow(options: CommandOptions, id: string): Promise<number> {
  return run(options, async ({ client, terminal, json }) => {
    const data = await client.get(pathOf(id));
    if (json) return writeJson(terminal, data);
    const { deliveries, ...row } = shown.parse(data);
    writeFacts(terminal, [
      ['webhook', row.id],
      ['address', row.url],
      ['events', eventsOf(row)],
      ['made by', row.project === null ? 'the API' : `the configuration of ${row.project}`],
      ...(row.form === null ? [] : [['form', row.form] as const]),
      ...(row.description === '' ? [] : [['for', row.description] as const]),
      ['state', row.reason === null ? stateOf(row) : `${stateOf(row)}: ${row.reason}`],
    ]);
    if (deliveries.length === 0) return;
    terminal.write('\n');
    writeTable(terminal, {
      headings: ['LAST TRY', 'EVENT', 'STATE', 'TRIES', 'ANSWER'],
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

function stateOf({ status, failing_since }: z.output<typeof webhook>): string {
  return status === 'active' && failing_since !== null ? `fails since ${shortTime(failing_since)}` : status;
}

function eventsOf({ events }: z.output<typeof webhook>): string {
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
    const { id, url, secret } = made.parse(data);
    writeFacts(terminal, [
      ['webhook', id],
      ['address', url],
      ['secret', secret],
    ]);
    terminal.complain('Keep the secret now: it is not shown again.\n');
  });
}

/** Removes one, once a person has agreed. */
export function webhooksRemove(options: CommandOptions, id: string, { yes }: { yes: boolean }): Promise<number> {
  return run(options, async ({ client, terminal, json }) => {
    const { url } = shown.parse(await client.get(pathOf(id)));
    if (!(await isConfirmed(terminal, `Remove ${id}, which posts to ${printable(url)}?`, yes))) return EXIT.failed;
    const data = await client.delete(pathOf(id));
    if (json) return writeJson(terminal, data);
    terminal.write(`${id} was removed\n`);
  });
}

/** Posts a test event at once; a failed check where it is not taken. */
export function webhooksTest(options: CommandOptions, id: string): Promise<number> {
  return run(options, async ({ client, terminal, json }) => {
    const data = await client.post(`${pathOf(id)}/test`, {});
    const { delivered, result } = tested.parse(data);
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
    const { secret, old_secret_until } = rotated.parse(data);
    writeFacts(terminal, [
      ['secret', secret],
      ['the old one', `signs as well until ${shortTime(old_secret_until)}`],
    ]);
    terminal.complain('Keep the secret now: it is not shown again.\n');
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
    const { replayed: count, more } = replayed.parse(data);
    terminal.write(`${counted(count, 'event')} will be posted again\n`);
    if (more) terminal.complain('There are more: replay again from a later time once these are delivered.\n');
  });
}

/** Stops one, or lets it go on. */
export function webhooksSwitch(options: CommandOptions, id: string, status: 'active' | 'disabled'): Promise<number> {
  return run(options, async ({ client, terminal, json }) => {
    const data = await client.patch(pathOf(id), { status });
    if (json) return writeJson(terminal, data);
    terminal.write(`${id} is ${webhook.parse(data).status}\n`);
  });
}

function pathOf(id: string): string {
  return `/webhooks/${encodeURIComponent(id)}`;
}
