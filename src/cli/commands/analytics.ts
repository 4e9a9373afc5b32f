/** `analytics …` */
import { Option } from 'commander';
import type { AnalyticsFilter, UsageExport, UsageFilter } from '../analytics.ts';
import type { CliCommand } from '../command.ts';
import { asking, askingOptions, spanned, type AskingFlags, type Cli } from './asking.ts';

interface LastFlags {
  readonly last30d?: boolean | undefined;
  readonly last7d?: boolean | undefined;
  readonly key?: string | undefined;
}

/** Adds `analytics …`. */
export function addAnalyticsCommands(program: CliCommand, cli: Cli): void {
  const analytics = program
    .command('analytics')
    .description('count submissions and mail over time')
    .addOption(new Option('--interval <length>', 'of a row (default: day)').choices(['hour', 'day', 'month']))
    .option('--form <form>', 'only what submissions of this form caused')
    .option('--domain <domain>', 'only what belongs to this domain')
    .example('analytics --interval month --from 2026-01-01', 'the year so far, month by month')
    .action(async ({ url, config, json, ...filter }: AnalyticsFilter & AskingFlags) => {
      const { analytics } = await import('../analytics.ts');
      cli.exit(await analytics(await askingOptions(cli, { url, config, json }), filter));
    });
  asking(spanned(analytics)).hook('preSubcommand', (command) => {
    const given = command.options.find((option) => command.getOptionValueSource(option.attributeName()) === 'cli');
    if (given !== undefined) command.error(`error: ${given.long} belongs behind the name of the subcommand`);
  });
  asking(lasting(analytics.command('api-usage')))
    .description('show what each key asked for, by UTC day')
    .action(async ({ url, config, json, ...flags }: LastFlags & AskingFlags) => {
      const { apiUsage } = await import('../analytics.ts');
      cli.exit(await apiUsage(await askingOptions(cli, { url, config, json }), filterOf(flags)));
    });
  const exported = analytics
    .command('export')
    .description('write such a table to a file')
    .addOption(new Option('--type <type>', 'which').choices(['api-usage']).makeOptionMandatory())
    .addOption(new Option('--format <format>', 'of the file').choices(['csv', 'json']).default('csv').conflicts('json'))
    .option('--output <file>', 'where to (else standard output)')
    .example('analytics export --type api-usage --format csv --output usage.csv', 'for a spreadsheet');
  asking(lasting(exported)).action(
    async ({ url, config, json, ...flags }: LastFlags & AskingFlags & Pick<UsageExport, 'format' | 'output'>) => {
      const { exportUsage } = await import('../analytics.ts');
      const { output } = flags;
      const format = json ? 'json' : flags.format;
      cli.exit(
        await exportUsage(await askingOptions(cli, { url, config, json }), { ...filterOf(flags), format, output }),
      );
    },
  );
}

function lasting<Lasting extends CliCommand>(command: Lasting): Lasting {
  return command
    .addOption(new Option('--last-30d', 'of 30 days including today (default)').conflicts('last7d'))
    .option('--last-7d', 'of 7 days')
    .option('--key <key_id>', 'of this key alone');
}

function filterOf({ last30d, last7d, key }: LastFlags): UsageFilter {
  return { key, last: last7d === true ? '7d' : last30d === true ? '30d' : undefined };
}
