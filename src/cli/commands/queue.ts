/** `queue …` and `inbound …`: mail that goes out, and mail that came in. */
import { Option } from 'commander';
import type { CliCommand } from '../command.ts';
import type { InboundFilter } from '../inbound.ts';
import type { ListFilter } from '../queue.ts';
import { operating, operatingOptions, paged, spanned, type AskingFlags, type Cli } from './asking.ts';

const STATES = ['queued', 'sending', 'deferred', 'delivered', 'bounced', 'expired', 'cancelled', 'suppressed'];
const OUTCOMES = ['accepted', 'rejected', 'deferred'];

const MESSAGE = ['<id>', 'of a message (msg_…) or delivery (dlv_…)'] as const;
const DESTINATION = ['<domain>', 'that mail goes to'] as const;

/** Adds `queue …`. */
export function addQueueCommands(program: CliCommand, cli: Cli): void {
  const queue = program.command('queue').description('look at what waits, and steer it');
  const list = queue
    .command('list')
    .description('deliveries, newest first')
    .addOption(new Option('--state <state>', 'only those').choices(STATES))
    .option('--domain <domain>', 'to this destination')
    .example('queue list --state deferred', 'what waits for its next try, and why');
  operating(paged(list)).action(async ({ url, config, json, ...filter }: ListFilter & AskingFlags) => {
    const { queueList } = await import('../queue.ts');
    cli.exit(await queueList(await operatingOptions(cli, { url, config, json }), filter));
  });
  for (const [name, [argument, means], description, command] of [
    ['show', MESSAGE, 'a message with every recipient and attempt', 'queueShow'],
    ['retry', MESSAGE, 'try what waits of a message or delivery now', 'queueRetry'],
    ['cancel', MESSAGE, 'end what waits of a message or delivery', 'queueCancel'],
    ['hold', DESTINATION, 'let no mail to a domain leave', 'queueHold'],
    ['release', DESTINATION, 'end a hold', 'queueRelease'],
  ] as const) {
    operating(queue.command(name))
      .argument(argument, means)
      .description(description)
      .action(async (what: string, flags: AskingFlags) => {
        const commands = await import('../queue.ts');
        cli.exit(await commands[command](await operatingOptions(cli, flags), what));
      });
  }
}

/** Adds `inbound …`. */
export function addInboundCommands(program: CliCommand, cli: Cli): void {
  const inbound = program.command('inbound').description('look at mail that came in, or was refused');
  const list = inbound
    .command('list')
    .description('what senders were told about each recipient, newest first')
    .addOption(new Option('--outcome <outcome>', 'only those').choices(OUTCOMES))
    .option('--domain <domain>', 'for this domain')
    .option('--reason <reason>', 'for this reason, such as unknown_recipient')
    .example('inbound list --outcome rejected --from 2026-01-31', 'mail that was refused on a day and since');
  operating(paged(spanned(list))).action(async ({ url, config, json, ...filter }: InboundFilter & AskingFlags) => {
    const { inboundList } = await import('../inbound.ts');
    cli.exit(await inboundList(await operatingOptions(cli, { url, config, json }), filter));
  });
}
