/** `postern tenants …`, `usage` and `billing`: for whoever runs the server. */
import { tenants as routes } from '../contract/tenants.ts';
import type { AnswerOf } from '../contract/route.ts';
import { readAnswer, queryOf, run, shortTime, writeJson, type CommandOptions } from './run.ts';
import type { PageFlags, TimeRangeFlags } from './commands/options.ts';
import { writeFacts, writePage, writeTable } from './output.ts';

const USES = ['requests', 'submissions', 'spam', 'delivered', 'bounced', 'forwarded'] as const;

/** Lists the accounts: the operator's, then the others, newest first. Returns the exit code, as all of these do. */
export function tenantsList(options: CommandOptions, page: PageFlags): Promise<number> {
  return run(options, async ({ client, terminal, json }) => {
    const data = await client.get(`/admin/tenants${queryOf(page)}`);
    if (json) return writeJson(terminal, data);
    const { tenants, ...where } = readAnswer(routes.list, data);
    const rows = tenants.map((row) => [
      row.id,
      stateOf(row),
      row.trusted ? 'yes' : 'no',
      row.plan,
      shortTime(row.created_at),
      row.email,
      row.name,
    ]);
    const headings = ['TENANT', 'STATE', 'TRUSTED', 'PLAN', 'CREATED', 'ADDRESS', 'NAME'];
    writePage(terminal, { headings, rows }, { ...where, nothing: 'No accounts found.' });
  });
}

function stateOf({ suspended, confirmed_at }: AnswerOf<typeof routes.show>): string {
  if (suspended) return 'suspended';
  return confirmed_at === null ? 'unconfirmed' : 'active';
}

function factsOf(row: AnswerOf<typeof routes.show>): [string, string][] {
  const { id, name, email, plan, requests_per_hour, messages_per_hour, messages_per_day, trusted } = row;
  const own = [
    [requests_per_hour, 'requests per hour'],
    [messages_per_hour, 'messages per hour'],
    [messages_per_day, 'messages per day'],
  ].flatMap(([count, what]) => (count === null ? [] : [`${count} ${what}`]));
  return [
    ['tenant', id],
    ['name', name],
    ['address', email],
    ['plan', own.length === 0 ? plan : `${plan}, with ${own.join(' and ')}`],
    ['state', stateOf(row)],
    ['trusted', trusted ? 'yes' : 'no: recipients must confirm'],
  ];
}

export interface NewTenant {
  readonly name: string;
  readonly email: string;
  readonly plan?: string | undefined;
}

/** Makes one that needs no confirmation, and shows its first key, once. */
export function tenantsCreate(options: CommandOptions, wanted: NewTenant): Promise<number> {
  return run(options, async ({ client, terminal, json }) => {
    const data = await client.post('/admin/tenants', wanted);
    if (json) return writeJson(terminal, data);
    const { tenant: row, key } = readAnswer(routes.create, data);
    writeFacts(terminal, [...factsOf(row), ['key', key]]);
    terminal.writeError('Save the key now. It is not shown again.\n');
  });
}

export interface TenantChange {
  readonly plan?: string | undefined;
  /** null: the plan's again. */
  readonly requests_per_hour?: number | null | undefined;
  readonly messages_per_hour?: number | null | undefined;
  readonly messages_per_day?: number | null | undefined;
  readonly suspended?: boolean | undefined;
  readonly trusted?: boolean | undefined;
}

/** Changes its plan, its limits, whether it is served, or whether it is trusted. */
export function tenantsChange(options: CommandOptions, id: string, change: TenantChange): Promise<number> {
  return run(options, async ({ client, terminal, json }) => {
    const data = await client.patch(`/admin/tenants/${encodeURIComponent(id)}`, change);
    if (json) return writeJson(terminal, data);
    writeFacts(terminal, factsOf(readAnswer(routes.change, data)));
  });
}

/** Shows what the whole server did, and for whom. */
export function usage(options: CommandOptions, span: TimeRangeFlags): Promise<number> {
  return run(options, async ({ client, terminal, json }) => {
    const data = await client.get(`/admin/usage${queryOf(span)}`);
    if (json) return writeJson(terminal, data);
    const { totals, tenants } = readAnswer(routes.usage, data);
    const rows = [...tenants, { ...totals, tenant: 'total', name: '' }];
    writeTable(terminal, {
      headings: ['TENANT', ...USES.map((name) => name.toUpperCase()), 'NAME'],
      rows: rows.map((row) => [row.tenant, ...USES.map((name) => String(row[name])), row.name]),
    });
  });
}

/** Shows what each tenant owes for a month. */
export function billing(options: CommandOptions, query: { readonly month?: string | undefined }): Promise<number> {
  return run(options, async ({ client, terminal, json }) => {
    const data = await client.get(`/admin/billing${queryOf(query)}`);
    if (json) return writeJson(terminal, data);
    const { month, lines } = readAnswer(routes.billing, data);
    if (lines.length === 0) return terminal.writeError(`No amounts due for ${month}.\n`);
    const rows = lines.map(({ tenant: id, plan, usage: { requests, submissions, delivered }, amount, currency }) => [
      id,
      plan,
      String(requests),
      String(submissions),
      String(delivered),
      `${amount} ${currency}`,
    ]);
    writeTable(terminal, { headings: ['TENANT', 'PLAN', 'REQUESTS', 'SUBMISSIONS', 'DELIVERED', 'AMOUNT'], rows });
  });
}
