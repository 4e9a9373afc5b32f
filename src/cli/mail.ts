/** `postern suppressions …`, `events …` and `webhooks …`. */
import { Option } from 'commander';
import { z } from 'zod';
import { analytics } from '../contract/analytics.ts';
import { suppressions as suppressionRoutes } from '../contract/email.ts';
import type { AnswerOf } from '../contract/route.ts';
import { webhooks as routes } from '../contract/webhooks.ts';
import { PUBLIC_EVENTS } from '../lib/event-types.ts';
import type { CliCommand } from './command.ts';
import { counted, listing, print, shortTime, showing, writeFacts, writeJson, writeTable } from './output.ts';
import { EXIT, isConfirmed } from './run.ts';
import { UsageError } from './client.ts';
import { printable } from '../lib/printable.ts';
import type { Terminal } from './terminal.ts';
import { listOf, mailAddress, moment, oneOf, webAddress } from './values.ts';

/** Adds `suppressions …`, `events …` and `webhooks …`. */
export function addCommands(program: CliCommand): void {
  addSuppressions(program);
  addEvents(program);
  addWebhooks(program);
}

function addSuppressions(program: CliCommand): void {
  const suppressions = program.command('suppressions').description('Manage the suppression list');
  suppressions
    .command('list')
    .pages()
    .description('List suppressed addresses in alphabetical order')
    .account(
      listing(suppressionRoutes.list, {
        rows: ({ suppressions }) => suppressions,
        columns: { ADDRESS: 'address', FORM: ({ form }) => form ?? '', REASON: 'reason', SINCE: 'created_at' },
        nothing: 'The suppression list is empty.',
      }),
    );
  suppressions
    .command('add')
    .argument('<address>', 'Address to suppress', mailAddress)
    .description('Add an address to the suppression list')
    .addOption(
      new Option('--reason <reason>', 'Reason')
        .choices(['manual', 'bounce', 'complaint', 'unsubscribe'])
        .default('manual'),
    )
    .option('--form <id>', 'Stop only the notifications from this form')
    .account((api, address: string, { reason, form }: { reason: string; form?: string }) =>
      print(api, { route: suppressionRoutes.create, body: { address, reason, form } }, (row) => {
        const what =
          row.form === null
            ? 'No mail is sent to this address.'
            : `It gets no notifications from the form ${printable(row.form)}.`;
        api.terminal.write(`Suppressed ${printable(row.address)} (${row.reason}). ${what}\n`);
      }),
    );
  suppressions
    .command('remove')
    .argument('<address>', 'Suppressed address', mailAddress)
    .description('Remove an address from the suppression list')
    .option('--form <id>', 'Send the notifications from this form to it again')
    .account(
      showing(suppressionRoutes.remove, ({ address }, { write }) =>
        write(`Removed ${printable(address)} from the suppression list.\n`),
      ),
    );
}

/** The details of an event that a list shows. */
const details = z.object({
  recipient: z.string().optional(),
  to: z.string().optional(),
  reply: z.string().optional(),
  /** For a forward that failed: `queued`, or why no DSN was sent. */
  dsn: z.string().optional(),
});

function addEvents(program: CliCommand): void {
  program
    .command('events')
    .description('Show delivery events')
    .command('list')
    .description('List events, newest first')
    .option('--type <type>', 'Only this type, such as email.bounced')
    .option('--domain <domain>', 'Only this domain')
    .timeRange()
    .pages()
    .example('events list --type email.bounced', 'Bounced mail, including forwarded mail')
    .account(
      listing(analytics.events, {
        rows: ({ events }) => events.map((event) => ({ ...event, ...details.parse(event.data) })),
        columns: {
          AT: 'created_at',
          TYPE: 'type',
          DOMAIN: 'domain',
          RECIPIENT: ({ recipient, to = '-' }) => recipient ?? to,
          REPLY: ({ reply = '', dsn = 'queued' }) => `${reply}${dsn === 'queued' ? '' : ` (no DSN sent: ${dsn})`}`,
        },
        nothing: 'No matching events.',
      }),
    );
}

const WEBHOOK = ['<id>', 'ID of the webhook (whk_…), from `postern webhooks list`'] as const;
const SAVE_SECRET = 'Save the secret now. It is not shown again.\n';

function addWebhooks(program: CliCommand): void {
  const webhooks = program.command('webhooks').description('Manage webhooks');
  webhooks
    .command('list')
    .pages()
    .description('List webhooks, newest first, including those defined in projects')
    .account(
      listing(routes.list, {
        rows: ({ webhooks }) => webhooks,
        columns: {
          WEBHOOK: 'id',
          STATE: stateOf,
          'CREATED BY': ({ project }) => project ?? 'the API',
          URL: 'url',
          EVENTS: eventsOf,
        },
        nothing: 'No webhooks found.',
      }),
    );
  webhooks
    .command('add')
    .argument('<address>', 'URL that receives the events: https://…', webAddress)
    .description('Create a webhook. Its secret is shown only once')
    .option(
      '--events <list>',
      `Comma-separated list of: ${PUBLIC_EVENTS.join(', ')} (default: all)`,
      listOf(oneOf(PUBLIC_EVENTS)),
    )
    .option('--description <text>', 'Description')
    .example('webhooks add https://example.com/hook --events email.bounced', 'Receive bounces')
    .account((api, url: string, { events, description }: { events?: string[]; description?: string }) =>
      print(api, { route: routes.create, body: { url, events, description } }, (created) => {
        writeFacts(api.terminal, { webhook: created.id, url: created.url, secret: created.secret });
        api.terminal.writeError(SAVE_SECRET);
      }),
    );
  webhooks
    .command('remove')
    .argument(...WEBHOOK)
    .description('Delete a webhook and its pending deliveries')
    .confirmed()
    .account(async (api, id: string, { yes }: { yes: boolean }) => {
      const { url } = await api.client.call({ route: routes.show, params: { id } });
      const question = `Remove ${id} (${printable(url)}) and its pending deliveries?`;
      if (!(await isConfirmed(api.terminal, question, yes))) return EXIT.failed;
      return print(api, { route: routes.remove, params: { id } }, () => api.terminal.write(`Removed ${id}\n`));
    });
  webhooks
    .command('replay')
    .argument(...WEBHOOK)
    .description('Redeliver one event, or all events since a time')
    .addOption(new Option('--event <id>', 'ID of the event (evt_…)').conflicts('since'))
    .option('--since <time>', 'All events since this date or time', moment)
    .account((api, id: string, { event, since }: { event?: string; since?: string }) => {
      if (event === undefined && since === undefined) throw new UsageError('Specify --event or --since.');
      return print(api, { route: routes.replay, params: { id }, body: { event, since } }, ({ replayed, more }) => {
        api.terminal.write(`${counted(replayed, 'event')} queued for redelivery\n`);
        if (more)
          api.terminal.writeError(
            'There are more events. Run the command again with a later time once these are delivered.\n',
          );
      });
    });
  webhooks
    .command('show')
    .argument(...WEBHOOK)
    .description('Show a webhook and its latest deliveries')
    .account(showing(routes.show, writeWebhook));
  webhooks
    .command('test')
    .argument(...WEBHOOK)
    .description('Send a test event and show the response')
    .account(async ({ client, terminal, json }, id: string) => {
      const { data, read } = await client.ask({ route: routes.test, params: { id }, body: {} });
      const { delivered, result } = read();
      if (json) writeJson(terminal, data);
      else terminal.write(`${delivered ? 'delivered' : 'not delivered'}: ${printable(result)}\n`);
      return delivered ? EXIT.done : EXIT.failed;
    });
  webhooks
    .command('rotate')
    .argument(...WEBHOOK)
    .description('Create a new secret. The old secret stays valid for one day')
    .account((api, id: string) =>
      print(api, { route: routes.rotate, params: { id }, body: {} }, ({ secret, old_secret_until: until }) => {
        writeFacts(api.terminal, { secret, 'old secret': `valid until ${shortTime(until)}` });
        api.terminal.writeError(SAVE_SECRET);
      }),
    );
  for (const [name, description, status] of [
    ['disable', 'Disable a webhook', 'disabled'],
    ['enable', 'Re-enable a webhook', 'active'],
  ] as const) {
    webhooks
      .command(name)
      .argument(...WEBHOOK)
      .description(description)
      .account((api, id: string) =>
        print(api, { route: routes.change, params: { id }, body: { status } }, (changed) =>
          api.terminal.write(`${id} is ${changed.status}\n`),
        ),
      );
  }
}

function writeWebhook({ deliveries, ...row }: AnswerOf<typeof routes.show>, terminal: Terminal): void {
  writeFacts(terminal, {
    webhook: row.id,
    url: row.url,
    events: eventsOf(row),
    'created by': row.project === null ? 'the API' : `project ${row.project}`,
    form: row.form ?? undefined,
    description: row.description || undefined,
    state: row.reason === null ? stateOf(row) : `${stateOf(row)}: ${row.reason}`,
  });
  if (deliveries.length === 0) return;
  terminal.write('\n');
  const columns = {
    'LAST ATTEMPT': 'last_attempt_at',
    EVENT: 'type',
    STATE: 'state',
    ATTEMPTS: 'attempts',
    RESPONSE: 'last_result',
  } as const;
  writeTable(terminal, columns, deliveries);
}

type Webhook = AnswerOf<typeof routes.change>;

function stateOf({ status, failing_since }: Webhook): string {
  return status === 'active' && failing_since !== null ? `failing since ${shortTime(failing_since)}` : status;
}

function eventsOf({ events }: Webhook): string {
  return events.length === 0 ? 'all' : events.join(' ');
}
