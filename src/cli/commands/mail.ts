/** `suppressions …`, `events …` and `webhooks …` */
import { Option } from 'commander';
import { PUBLIC_EVENTS } from '../../lib/event-types.ts';
import type { CliCommand } from '../command.ts';
import { listOf, mailAddress, moment, oneOf, webAddress } from '../values.ts';
import type { EventFilter } from '../events.ts';
import type { NewWebhook } from '../webhooks.ts';
import { asking, askingOptions, paged, spanned, YES, type AskingFlags, type Cli, type PageFlags } from './asking.ts';

const WEBHOOK = ['<id>', 'as webhooks list shows it: whk_…'] as const;
const REASONS = ['manual', 'bounce', 'complaint', 'unsubscribe'];

/** Adds `suppressions …`. */
export function addSuppressionsCommands(program: CliCommand, cli: Cli): void {
  const suppressions = program.command('suppressions').description('addresses that mail is no longer sent to');
  asking(paged(suppressions.command('list')))
    .description('list them in their alphabetical order')
    .action(async ({ limit, cursor, ...flags }: PageFlags & AskingFlags) => {
      const { suppressionsList } = await import('../suppressions.ts');
      cli.exit(await suppressionsList(await askingOptions(cli, flags), { limit, cursor }));
    });
  asking(suppressions.command('add'))
    .argument('<address>', 'that is to get no more mail', mailAddress)
    .description('put an address on the list')
    .addOption(new Option('--reason <reason>', 'why').choices(REASONS).default('manual'))
    .action(async (address: string, { reason, ...flags }: AskingFlags & { reason: string }) => {
      const { suppressionsAdd } = await import('../suppressions.ts');
      cli.exit(await suppressionsAdd(await askingOptions(cli, flags), address, reason));
    });
  asking(suppressions.command('remove'))
    .argument('<address>', 'that may get mail again', mailAddress)
    .description('take an address off the list')
    .action(async (address: string, flags: AskingFlags) => {
      const { suppressionsRemove } = await import('../suppressions.ts');
      cli.exit(await suppressionsRemove(await askingOptions(cli, flags), address));
    });
}

/** Adds `events …`. */
export function addEventsCommands(program: CliCommand, cli: Cli): void {
  const events = program.command('events').description('what happened to mail of this account');
  const list = events
    .command('list')
    .description('list events, newest first')
    .option('--type <type>', 'only those, such as email.bounced')
    .option('--domain <domain>', 'of this domain')
    .example('events list --type email.bounced', 'what never arrived, forwards among it');
  asking(paged(spanned(list))).action(async ({ url, config, json, ...filter }: EventFilter & AskingFlags) => {
    const { eventsList } = await import('../events.ts');
    cli.exit(await eventsList(await askingOptions(cli, { url, config, json }), filter));
  });
}

/** Adds `webhooks …`. */
export function addWebhooksCommands(program: CliCommand, cli: Cli): void {
  const webhooks = program.command('webhooks').description('programs that are told of what happens');
  asking(paged(webhooks.command('list')))
    .description('list webhooks, newest first, those of configurations among them')
    .action(async ({ limit, cursor, ...flags }: PageFlags & AskingFlags) => {
      const { webhooksList } = await import('../webhooks.ts');
      cli.exit(await webhooksList(await askingOptions(cli, flags), { limit, cursor }));
    });
  asking(webhooks.command('add'))
    .argument('<address>', 'that events are posted to: https://…', webAddress)
    .description('make a webhook and show its secret once')
    .option('--events <list>', `of ${PUBLIC_EVENTS.join(', ')} (all unless told)`, listOf(oneOf(PUBLIC_EVENTS)))
    .option('--description <text>', 'what it is for')
    .example('webhooks add https://example.com/hook --events email.bounced', 'of what comes back')
    .action(async (address: string, { events, description, ...flags }: AskingFlags & Omit<NewWebhook, 'url'>) => {
      const { webhooksAdd } = await import('../webhooks.ts');
      cli.exit(await webhooksAdd(await askingOptions(cli, flags), { url: address, events, description }));
    });
  asking(webhooks.command('remove'))
    .argument(...WEBHOOK)
    .description('remove a webhook and what it was still to be told')
    .option(...YES)
    .action(async (id: string, { yes, ...flags }: AskingFlags & { yes: boolean }) => {
      const { webhooksRemove } = await import('../webhooks.ts');
      cli.exit(await webhooksRemove(await askingOptions(cli, flags), id, { yes }));
    });
  asking(webhooks.command('replay'))
    .argument(...WEBHOOK)
    .description('post an event, or all since a time, once more')
    .addOption(new Option('--event <id>', 'the one event: evt_…').conflicts('since'))
    .option('--since <time>', 'all from this date or time on', moment)
    .action(async (id: string, flags: AskingFlags & { event?: string; since?: string }, command: CliCommand) => {
      const { event, since, ...asker } = flags;
      if (event === undefined && since === undefined) command.error('error: give --event or --since');
      const { webhooksReplay } = await import('../webhooks.ts');
      cli.exit(await webhooksReplay(await askingOptions(cli, asker), id, { event, since }));
    });
  for (const [name, description, command] of [
    ['show', 'show a webhook and how its newest deliveries went', 'webhooksShow'],
    ['test', 'post a test event at once, and show what came of it', 'webhooksTest'],
    ['rotate', 'give a webhook a new secret; the old one signs as well for a day', 'webhooksRotate'],
  ] as const) {
    asking(webhooks.command(name))
      .argument(...WEBHOOK)
      .description(description)
      .action(async (id: string, flags: AskingFlags) => {
        const commands = await import('../webhooks.ts');
        cli.exit(await commands[command](await askingOptions(cli, flags), id));
      });
  }
  for (const [name, description, status] of [
    ['disable', 'disable a webhook', 'disabled'],
    ['enable', 're-enable a webhook', 'active'],
  ] as const) {
    asking(webhooks.command(name))
      .argument(...WEBHOOK)
      .description(description)
      .action(async (id: string, flags: AskingFlags) => {
        const { webhooksSwitch } = await import('../webhooks.ts');
        cli.exit(await webhooksSwitch(await askingOptions(cli, flags), id, status));
      });
  }
}
