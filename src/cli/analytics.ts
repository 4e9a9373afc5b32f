/** `postern analytics …`: submissions, mail and API requests over time. */
import { analytics as routes, numbers } from '../contract/analytics.ts';
import { readAnswer, queryOf, run, writeJson, type CommandOptions } from './run.ts';
import type { TimeRangeFlags } from './commands/options.ts';
import { writeTable, save } from './output.ts';

import type { Terminal } from './terminal.ts';

const ALWAYS: ReadonlySet<string> = new Set(['submissions', 'delivered']);
/** Characters of a time that tell one bucket from the next. */
const SHOWN = { hour: 16, day: 10, month: 7 } as const;

export interface AnalyticsFilter extends TimeRangeFlags {
  readonly interval?: string | undefined;
  readonly form?: string | undefined;
  readonly domain?: string | undefined;
}

/** Shows what came in and what became of it, bucket by bucket. Returns the exit code, as all of these do. */
export function analytics(options: CommandOptions, filter: AnalyticsFilter): Promise<number> {
  return run(options, async ({ client, terminal, json }) => {
    const data = await client.get(`/analytics${queryOf(filter)}`);
    if (json) return writeJson(terminal, data);
    const { interval, totals, series, top_forms: forms, top_domains: domains } = readAnswer(routes.show, data);
    const all = numbers.keyof().options;
    const busy = series.filter((row) => all.some((name) => row[name] > 0));
    // People need no columns of zeros; programs need always the same.
    const names = terminal.width === undefined ? all : all.filter((name) => ALWAYS.has(name) || totals[name] > 0);
    const rows = [...busy.map((row) => ({ ...row, at: row.at.slice(0, SHOWN[interval]) })), { ...totals, at: 'total' }];
    writeTable(terminal, {
      headings: [interval.toUpperCase(), ...names.map((name) => name.toUpperCase())],
      rows: rows.map((row) => [row.at, ...names.map((name) => String(row[name]))]),
    });
    // What other programs read is one table.
    if (terminal.width === undefined) return;
    writeMost(terminal, {
      headings: ['FORM', 'SUBMISSIONS', 'SPAM'],
      rows: forms.map(({ form, submissions, spam }) => [form, String(submissions), String(spam)]),
    });
    writeMost(terminal, {
      headings: ['DOMAIN', 'SUBMISSIONS', 'DELIVERED'],
      rows: domains.map(({ domain, submissions, delivered }) => [domain, String(submissions), String(delivered)]),
    });
  });
}

function writeMost(terminal: Terminal, list: Parameters<typeof writeTable>[1]): void {
  if (list.rows.length === 0) return;
  terminal.write('\n');
  writeTable(terminal, list);
}

export interface UsageFilter {
  readonly last?: '7d' | '30d' | undefined;
  /** Id of the only key that is meant. */
  readonly key?: string | undefined;
}

/** Shows the API requests by key and day. */
export function apiUsage(options: CommandOptions, filter: UsageFilter): Promise<number> {
  return run(options, async ({ client, terminal, json }) => {
    const data = await client.get(`/analytics/api-usage${queryOf(filter)}`);
    if (json) return writeJson(terminal, data);
    const rows = readAnswer(routes.apiUsage, data).usage.map(({ day, key, requests, errors, rate_limited }) => [
      day,
      key,
      String(requests),
      String(errors),
      String(rate_limited),
    ]);
    if (rows.length === 0) return terminal.writeError('No API requests in this period.\n');
    writeTable(terminal, { headings: ['DAY', 'KEY', 'REQUESTS', 'ERRORS', 'RATE LIMITED'], rows });
  });
}

export interface UsageExport extends UsageFilter {
  readonly format: string;
  /** File to write. Default: standard output. */
  readonly output?: string | undefined;
}

/** Writes the same as a file, as the daemon makes it. */
export function exportUsage(options: CommandOptions, { output, ...filter }: UsageExport): Promise<number> {
  return run(options, async ({ client, terminal }) => {
    await save(terminal, await client.open({ method: 'GET', path: `/analytics/api-usage${queryOf(filter)}` }), output);
  });
}
