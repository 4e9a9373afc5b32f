/** `suppressions …`, `events …` and `webhooks …` */
import { Option } from 'commander';
import { PUBLIC_EVENTS } from '../../lib/event-types.ts';
import type { CliCommand } from '../command.ts';
import { listOf, mailAddress, moment, oneOf, webAddress } from '../values.ts';
import type { EventFilter, NewWebhook } from '../mail.ts';
import {
  apiCommand,
  apiOptions,
  accountCall,
  withPages,
  withTimeRange,
  YES,
  type ApiFlags,
  type Cli,
  type PageFlags,
} from './options.ts';
import type { AnalyticsFilter, UsageExport, UsageFilter } from '../analytics.ts';

const WEBHOOK = ['<id>', 'ID of the webhook (whk_…), from `postern webhooks list`'] as const;
const REASONS = ['manual', 'bounce', 'complaint', 'unsubscribe'];

/** Adds `suppressions …`. */
export function addSuppressionsCommands(program: CliCommand, cli: Cli): void {
  const suppressions = program.command('suppressions').description('Manage the suppression list');
  apiCommand(withPages(suppressions.command('list')))
    .description('List suppressed addresses in alphabetical order')
    .action(({ limit, cursor, ...flags }: PageFlags & ApiFlags) =>
      accountCall(cli, flags, async (api) => (await import('../mail.ts')).suppressionsList(api, { limit, cursor })),
    );
  apiCommand(suppressions.command('add'))
    .argument('<address>', 'Address to suppress', mailAddress)
    .description('Add an address to the suppression list')
    .addOption(new Option('--reason <reason>', 'Reason').choices(REASONS).default('manual'))
    .action((address: string, { reason, ...flags }: ApiFlags & { reason: string }) =>
      accountCall(cli, flags, async (api) => (await import('../mail.ts')).suppressionsAdd(api, address, reason)),
    );
  apiCommand(suppressions.command('remove'))
    .argument('<address>', 'Suppressed address', mailAddress)
    .description('Remove an address from the suppression list')
    .action((address: string, flags: ApiFlags) =>
      accountCall(cli, flags, async (api) => (await import('../mail.ts')).suppressionsRemove(api, address)),
    );
}

/** Adds `events …`. */
export function addEventsCommands(program: CliCommand, cli: Cli): void {
  const events = program.command('events').description('Show delivery events');
  const list = events
    .command('list')
    .description('List events, newest first')
    .option('--type <type>', 'Only this type, such as email.bounced')
    .option('--domain <domain>', 'Only this domain')
    .example('events list --type email.bounced', 'Bounced mail, including forwarded mail');
  apiCommand(withPages(withTimeRange(list))).action(({ url, config, json, ...filter }: EventFilter & ApiFlags) =>
    accountCall(cli, { url, config, json }, async (api) => (await import('../mail.ts')).eventsList(api, filter)),
  );
}

/** Adds `webhooks …`. */
export function addWebhooksCommands(program: CliCommand, cli: Cli): void {
  const webhooks = program.command('webhooks').description('Manage webhooks');
  apiCommand(withPages(webhooks.command('list')))
    .description('List webhooks, newest first, including those defined in projects')
    .action(({ limit, cursor, ...flags }: PageFlags & ApiFlags) =>
      accountCall(cli, flags, async (api) => (await import('../mail.ts')).webhooksList(api, { limit, cursor })),
    );
  apiCommand(webhooks.command('add'))
    .argument('<address>', 'URL that receives the events: https://…', webAddress)
    .description('Create a webhook. Its secret is shown only once')
    .option(
      '--events <list>',
      `Comma-separated list of: ${PUBLIC_EVENTS.join(', ')} (default: all)`,
      listOf(oneOf(PUBLIC_EVENTS)),
    )
    .option('--description <text>', 'Description')
    .example('webhooks add https://example.com/hook --events email.bounced', 'Receive bounces')
    .action((address: string, { events, description, ...flags }: ApiFlags & Omit<NewWebhook, 'url'>) =>
      accountCall(cli, flags, async (api) =>
        (await import('../mail.ts')).webhooksAdd(api, { url: address, events, description }),
      ),
    );
  apiCommand(webhooks.command('remove'))
    .argument(...WEBHOOK)
    .description('Delete a webhook and its pending deliveries')
    .option(...YES)
    .action((id: string, { yes, ...flags }: ApiFlags & { yes: boolean }) =>
      accountCall(cli, flags, async (api) => (await import('../mail.ts')).webhooksRemove(api, id, { yes })),
    );
  apiCommand(webhooks.command('replay'))
    .argument(...WEBHOOK)
    .description('Redeliver one event, or all events since a time')
    .addOption(new Option('--event <id>', 'ID of the event (evt_…)').conflicts('since'))
    .option('--since <time>', 'All events since this date or time', moment)
    .action(async (id: string, flags: ApiFlags & { event?: string; since?: string }, command: CliCommand) => {
      const { event, since, ...asker } = flags;
      if (event === undefined && since === undefined) command.error('error: give --event or --since');
      const { webhooksReplay } = await import('../mail.ts');
      cli.exit(await webhooksReplay(await apiOptions(cli, asker), id, { event, since }));
    });
  for (const [name, description, command] of [
    ['show', 'Show a webhook and its latest deliveries', 'webhooksShow'],
    ['test', 'Send a test event and show the response', 'webhooksTest'],
    ['rotate', 'Create a new secret. The old secret stays valid for one day', 'webhooksRotate'],
  ] as const) {
    apiCommand(webhooks.command(name))
      .argument(...WEBHOOK)
      .description(description)
      .action(async (id: string, flags: ApiFlags) => {
        const commands = await import('../mail.ts');
        cli.exit(await commands[command](await apiOptions(cli, flags), id));
      });
  }
  for (const [name, description, status] of [
    ['disable', 'Disable a webhook', 'disabled'],
    ['enable', 'Re-enable a webhook', 'active'],
  ] as const) {
    apiCommand(webhooks.command(name))
      .argument(...WEBHOOK)
      .description(description)
      .action((id: string, flags: ApiFlags) =>
        accountCall(cli, flags, async (api) => (await import('../mail.ts')).webhooksSwitch(api, id, status)),
      );
  }
}

interface LastFlags {
  readonly last30d?: boolean | undefined;
  readonly last7d?: boolean | undefined;
  readonly key?: string | undefined;
}

/** Adds `analytics …`. */
export function addAnalyticsCommands(program: CliCommand, cli: Cli): void {
  const analytics = program
    .command('analytics')
    .description('Show submissions and mail over time')
    .addOption(
      new Option('--interval <length>', 'Time span of each row, a day by default').choices(['hour', 'day', 'month']),
    )
    .option('--form <form>', 'Only this form')
    .option('--domain <domain>', 'Only this domain')
    .example('analytics --interval month --from 2026-01-01', 'The year so far, by month')
    .action(({ url, config, json, ...filter }: AnalyticsFilter & ApiFlags) =>
      accountCall(cli, { url, config, json }, async (api) => (await import('../analytics.ts')).analytics(api, filter)),
    );
  apiCommand(withTimeRange(analytics)).hook('preSubcommand', (command) => {
    const given = command.options.find((option) => command.getOptionValueSource(option.attributeName()) === 'cli');
    if (given !== undefined) command.error(`error: put ${given.long} after the subcommand`);
  });
  apiCommand(lasting(analytics.command('api-usage')))
    .description('Show API requests by key and day (UTC)')
    .action(({ url, config, json, ...flags }: LastFlags & ApiFlags) =>
      accountCall(cli, { url, config, json }, async (api) =>
        (await import('../analytics.ts')).apiUsage(api, filterOf(flags)),
      ),
    );
  const exported = analytics
    .command('export')
    .description('Export a report to a file')
    .addOption(new Option('--type <type>', 'Report to export').choices(['api-usage']).makeOptionMandatory())
    .addOption(new Option('--format <format>', 'File format').choices(['csv', 'json']).default('csv').conflicts('json'))
    .option('--output <file>', 'File to write (default: standard output)')
    .example('analytics export --type api-usage --format csv --output usage.csv', 'Export for a spreadsheet');
  apiCommand(lasting(exported)).action(
    async ({ url, config, json, ...flags }: LastFlags & ApiFlags & Pick<UsageExport, 'format' | 'output'>) => {
      const { exportUsage } = await import('../analytics.ts');
      const { output } = flags;
      const format = json ? 'json' : flags.format;
      cli.exit(await exportUsage(await apiOptions(cli, { url, config, json }), { ...filterOf(flags), format, output }));
    },
  );
}

function lasting<Lasting extends CliCommand>(command: Lasting): Lasting {
  return command
    .addOption(new Option('--last-30d', 'The last 30 days, including today (default)').conflicts('last7d'))
    .option('--last-7d', 'The last 7 days, including today')
    .option('--key <key_id>', 'Only this API key');
}

function filterOf({ last30d, last7d, key }: LastFlags): UsageFilter {
  return { key, last: last7d === true ? '7d' : last30d === true ? '30d' : undefined };
}
