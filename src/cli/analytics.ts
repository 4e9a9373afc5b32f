/** `postern analytics …`: submissions, mail and API requests over time. */
import { Option } from 'commander';
import { analytics as routes, numbers } from '../contract/analytics.ts';
import type { AnswerOf } from '../contract/route.ts';
import type { CliCommand } from './command.ts';
import { print, save, showing, writeTable, type Columns } from './output.ts';
import type { Terminal } from './terminal.ts';

interface LastFlags {
  readonly last30d?: boolean | undefined;
  readonly last7d?: boolean | undefined;
  readonly key?: string | undefined;
}

/** Adds `analytics …`. */
export function addCommands(program: CliCommand): void {
  const analytics = program
    .command('analytics')
    .description('Show submissions and mail over time')
    .choice('--interval <length>', 'Time span of each row, one day by default', ['hour', 'day', 'month'])
    .option('--form <form>', 'Only this form')
    .option('--domain <domain>', 'Only this domain')
    .timeRange()
    .example('analytics --interval month --from 2026-01-01', 'The year so far, by month')
    .account(showing(routes.show, writeAnalytics))
    .hook('preSubcommand', (command) => {
      const given = command.options.find((option) => command.getOptionValueSource(option.attributeName()) === 'cli');
      if (given !== undefined) command.error(`error: put ${given.long} after the subcommand`);
    });
  lasting(analytics.command('api-usage'))
    .description('Show API requests by key and day (UTC)')
    .account((api, flags: LastFlags) =>
      print(api, { route: routes.apiUsage, query: queryOf(flags) }, ({ usage }) => {
        if (usage.length === 0) return api.terminal.writeError('No API requests in this period.\n');
        const columns = {
          DAY: 'day',
          KEY: 'key',
          REQUESTS: 'requests',
          ERRORS: 'errors',
          'RATE LIMITED': 'rate_limited',
        } as const;
        writeTable(api.terminal, columns, usage);
      }),
    );
  lasting(analytics.command('export'))
    .description('Export a report to a file')
    .addOption(new Option('--type <type>', 'Report to export').choices(['api-usage']).makeOptionMandatory())
    .addOption(new Option('--format <format>', 'File format').choices(['csv', 'json']).default('csv').conflicts('json'))
    .option('--output <file>', 'File to write (default: standard output)')
    .example('analytics export --type api-usage --format csv --output usage.csv', 'Export for a spreadsheet')
    .account(async ({ client, terminal, json }, flags: LastFlags & { format: string; output?: string }) => {
      const query = { ...queryOf(flags), format: json ? 'json' : flags.format };
      await save(terminal, await client.open({ route: routes.apiUsage, query }), flags.output);
    });
}

function lasting(command: CliCommand): CliCommand {
  return command
    .addOption(new Option('--last-30d', 'The last 30 days, including today (default)').conflicts('last7d'))
    .option('--last-7d', 'The last 7 days, including today')
    .option('--key <key_id>', 'Only this API key');
}

function queryOf({ last30d, last7d, key }: LastFlags): { readonly last?: string; readonly key: string | undefined } {
  return { key, ...(last7d ? { last: '7d' } : last30d ? { last: '30d' } : {}) };
}

const ALWAYS: ReadonlySet<string> = new Set(['submissions', 'delivered']);
/** Characters of a time that tell one bucket from the next. */
const SHOWN = { hour: 16, day: 10, month: 7 } as const;

function writeAnalytics(answer: AnswerOf<typeof routes.show>, terminal: Terminal): void {
  const { interval, totals, series } = answer;
  const all = numbers.keyof().options;
  const busy = series.filter((row) => all.some((name) => row[name] > 0));
  const rows = [...busy.map((row) => ({ ...row, at: row.at.slice(0, SHOWN[interval]) })), { ...totals, at: 'total' }];
  // People need no columns of zeros; programs need always the same.
  const names = terminal.width === undefined ? all : all.filter((name) => ALWAYS.has(name) || totals[name] > 0);
  const columns: Columns<(typeof rows)[number]> = Object.fromEntries([
    [interval.toUpperCase(), 'at' as const],
    ...names.map((name) => [name.toUpperCase(), name] as const),
  ]);
  writeTable(terminal, columns, rows);
  // What other programs read is one table.
  if (terminal.width === undefined) return;
  writeMost(terminal, { FORM: 'form', SUBMISSIONS: 'submissions', SPAM: 'spam' }, answer.top_forms);
  writeMost(terminal, { DOMAIN: 'domain', SUBMISSIONS: 'submissions', DELIVERED: 'delivered' }, answer.top_domains);
}

function writeMost<Row>(terminal: Terminal, columns: Columns<Row>, rows: readonly Row[]): void {
  if (rows.length === 0) return;
  terminal.write('\n');
  writeTable(terminal, columns, rows);
}
