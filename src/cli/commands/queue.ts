/** `queue …` and `inbound …`: mail that goes out, and mail that came in. */
import { Option, type Command } from 'commander';
import type { CliCommand } from '../command.ts';
import type { InboundFilter } from '../inbound.ts';
import type { ListFilter, Wanted } from '../queue.ts';
import { operating, operatingOptions, paged, spanned, YES, type AskingFlags, type Cli } from './asking.ts';

const STATES = ['queued', 'sending', 'deferred', 'delivered', 'bounced', 'expired', 'cancelled', 'suppressed'];
const WAITING = ['queued', 'deferred'];
const OUTCOMES = ['accepted', 'rejected', 'deferred'];

const MESSAGE = ['<id>', 'of a message (msg_…) or delivery (dlv_…, whd_…)'] as const;
const DESTINATION = 'that mail goes to, or a webhook (whk_…)';

/** Adds `queue …`. */
export function addQueueCommands(program: CliCommand, cli: Cli): void {
  const queue = program.command('queue').description('look at what waits, and steer it');
  const list = queue
    .command('list')
    .description('deliveries, newest first')
    .addOption(new Option('--state <state>', 'only those').choices(STATES))
    .example('queue list --state deferred', 'what waits for its next try, and why');
  operating(paged(filtered(list))).action(async ({ url, config, json, ...filter }: ListFilter & AskingFlags) => {
    const { queueList } = await import('../queue.ts');
    cli.exit(await queueList(await operatingOptions(cli, { url, config, json }), filter));
  });
  operating(queue.command('show'))
    .argument(...MESSAGE)
    .description('a message with every recipient and attempt')
    .action(async (id: string, flags: AskingFlags) => {
      const { queueShow } = await import('../queue.ts');
      cli.exit(await queueShow(await operatingOptions(cli, flags), id));
    });
  for (const [verb, argument, means, description] of [
    ['retry', '[id]', MESSAGE[1], 'try the waiting recipients of a message now, or all that match'],
    ['cancel', '[id]', MESSAGE[1], 'cancel the undelivered recipients of a message, or all that match'],
    ['hold', '[domain]', DESTINATION, 'hold all mail to a domain, or the queued mail that matches'],
    ['release', '[domain]', DESTINATION, 'release held mail'],
  ] as const) {
    const command = queue
      .command(verb)
      .argument(argument, means)
      .description(description)
      .addOption(new Option('--state <state>', 'only those').choices(WAITING));
    operating(filtered(command))
      .option('--dry-run', 'only count', false)
      .option(...YES)
      .example(`queue ${verb} --tenant ten_… --older-than 2h`, EXAMPLES[verb])
      .action(async (what: string | undefined, { url, config, json, ...wanted }: Wanted & AskingFlags) => {
        const { queueAct } = await import('../queue.ts');
        cli.exit(await queueAct(await operatingOptions(cli, { url, config, json }), verb, { ...wanted, what }));
      });
  }
}

const EXAMPLES = {
  retry: 'all that waits of a tenant for two hours',
  cancel: 'all that waits of a tenant for two hours',
  hold: 'all that waits of a tenant for two hours; what comes later goes',
  release: 'what is held of it',
} as const;

function filtered<Filtering extends Command>(command: Filtering): Filtering {
  return command
    .option('--tenant <id>', 'of this tenant')
    .option('--domain <domain>', 'to this domain or webhook')
    .option('--sender <domain>', 'whose mail is from this domain')
    .option('--older-than <duration>', 'enqueued longer ago, such as 2h or 3d');
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
