/** `postern tenants …`, `usage` and `billing`: for whoever runs the server. */
import type { AnswerOf } from '../contract/route.ts';
import { tenants as routes } from '../contract/tenants.ts';
import type { CliCommand } from './command.ts';
import { UsageError } from './client.ts';
import { counted, listing, print, showing, writeFacts, writeTable } from './output.ts';
import { EXIT, isConfirmed, type Api } from './run.ts';
import { mailAddress, month, wholeNumber } from './values.ts';

type Limit = 'requestsPerHour' | 'messagesPerHour' | 'messagesPerDay';

const TENANT = ['<id>', 'ID of the account (ten_…), from `postern tenants list`'] as const;

/** Adds `tenants …`, `usage` and `billing`. */
export function addCommands(program: CliCommand): void {
  const tenants = program.command('tenants').description('Manage the accounts on the server');
  tenants
    .command('list')
    .pages()
    .description('List accounts: first the operator’s, then the others, newest first')
    .operator(
      listing(routes.list, {
        rows: ({ tenants }) => tenants,
        columns: {
          ACCOUNT: 'id',
          STATE: stateOf,
          TRUSTED: ({ trusted }) => (trusted ? 'yes' : 'no'),
          PLAN: 'plan',
          CREATED: 'created_at',
          EMAIL: 'email',
          NAME: 'name',
        },
        nothing: 'No accounts found.',
      }),
    );
  tenants
    .command('create')
    .description('Create an account without confirmation. Its first API key is shown only once')
    .requiredOption('--name <name>', 'Name of the person or organisation')
    .requiredOption('--email <address>', 'Email address for alerts', mailAddress)
    .option('--plan <plan>', 'A plan from server.yml (default: free)')
    .operator((api, { name, email, plan }: { name: string; email: string; plan?: string }) =>
      print(api, { route: routes.create, body: { name, email, plan } }, ({ tenant, key }) => {
        writeFacts(api.terminal, { ...factsOf(tenant), key });
        api.terminal.writeError('Save the key now. It is not shown again.\n');
      }),
    );
  tenants
    .command('show')
    .argument(...TENANT)
    .description('Show an account and what it contains')
    .operator(showing(routes.show, (shown, terminal) => writeFacts(terminal, contentsOf(shown))));
  tenants
    .command('delete')
    .argument(...TENANT)
    .description('Delete an account and all of its data: projects, submissions, mail, keys. This cannot be undone')
    .choice('--queued <what>', 'What to do with queued mail: deliver it first, or cancel it', ['deliver', 'cancel'])
    .confirmed()
    .example('tenants delete ten_01jb2x7k3m9q4v8w5t6r0y1z2a --queued deliver', 'Deliver what is queued, then delete')
    .operator(remove);
  tenants
    .command('set-plan')
    .argument(...TENANT)
    .argument('<plan>', 'A plan from server.yml')
    .description('Change the plan of an account')
    .option('--requests-per-hour <count>', 'Override the requests per hour that the plan allows', wholeNumber(1))
    .option('--messages-per-hour <count>', 'Override the recipients per hour that the plan allows', wholeNumber(1))
    .option('--messages-per-day <count>', 'Override the recipients per 24 hours that the plan allows', wholeNumber(1))
    .operator((api, ...[id, plan, flags]: [string, string, Partial<Record<Limit, number>>]) =>
      change(api, id, {
        plan,
        requests_per_hour: flags.requestsPerHour ?? null,
        messages_per_hour: flags.messagesPerHour ?? null,
        messages_per_day: flags.messagesPerDay ?? null,
      }),
    );
  for (const [name, description, body] of [
    ['suspend', 'Suspend an account: its keys and forms stop working, and its mail waits', { suspended: true }],
    ['resume', 'Resume a suspended account', { suspended: false }],
    ['trust', 'Exempt the recipients of an account from confirmation and release its pending mail', { trusted: true }],
    ['distrust', 'Require the recipients of an account to confirm', { trusted: false }],
  ] as const) {
    tenants
      .command(name)
      .argument(...TENANT)
      .description(description)
      .operator((api, id: string) => change(api, id, body));
  }
  program
    .command('usage')
    .timeRange()
    .description('Show usage by account (default: the last 30 days)')
    .operator(
      showing(routes.usage, (answer, terminal) => {
        const columns = {
          ACCOUNT: 'tenant',
          REQUESTS: 'requests',
          SUBMISSIONS: 'submissions',
          SPAM: 'spam',
          DELIVERED: 'delivered',
          BOUNCED: 'bounced',
          FORWARDED: 'forwarded',
          NAME: 'name',
        } as const;
        writeTable(terminal, columns, [...answer.tenants, { ...answer.totals, tenant: 'total', name: '' }]);
      }),
    );
  program
    .command('billing')
    .description('Show the amount due for each account')
    .option('--month <month>', 'Month, such as 2026-01 (default: the current month)', month)
    .operator(
      showing(routes.billing, ({ month, lines }, terminal) => {
        if (lines.length === 0) return terminal.writeError(`No amounts due for ${month}.\n`);
        const rows = lines.map(({ usage, amount, currency, ...row }) => ({
          ...usage,
          ...row,
          due: `${amount} ${currency}`,
        }));
        const columns = {
          ACCOUNT: 'tenant',
          PLAN: 'plan',
          REQUESTS: 'requests',
          SUBMISSIONS: 'submissions',
          DELIVERED: 'delivered',
          AMOUNT: 'due',
        } as const;
        writeTable(terminal, columns, rows);
      }),
    );
}

type Tenant = AnswerOf<typeof routes.change>;
type Shown = AnswerOf<typeof routes.show>;

function stateOf({ suspended, confirmed_at, deleting }: Tenant): string {
  if (deleting !== null) return 'deleting';
  if (suspended) return 'suspended';
  return confirmed_at === null ? 'unconfirmed' : 'active';
}

/** Deletes an account after showing what goes with it. */
async function remove(api: Api, id: string, flags: { queued?: string; yes: boolean }): Promise<number | void> {
  const { client, terminal, json } = api;
  const shown = await client.call({ route: routes.show, params: { id } });
  const { queued = shown.queued === 0 ? 'cancel' : undefined, yes } = flags;
  if (queued === undefined)
    throw new UsageError(
      `The account has ${counted(shown.queued, 'delivery')} in the queue: add --queued deliver or --queued cancel.`,
    );
  if (!yes && !json) writeFacts(terminal, contentsOf(shown));
  const what = queued === 'deliver' && shown.queued > 0 ? ' once its queued mail is delivered' : '';
  const question = `Delete ${shown.name} (${id}) and all of this${what}? Its keys, forms and domains stop working now. This cannot be undone.`;
  if (!(await isConfirmed(terminal, question, yes))) return EXIT.failed;
  return print(api, { route: routes.remove, params: { id }, query: { queued } }, () => {
    terminal.write(
      queued === 'deliver' && shown.queued > 0
        ? `${id} is closed. Its data is deleted when its queue is empty. To follow that, run: postern tenants show ${id}\n`
        : `${id} is closed, and its data is being deleted.\n`,
    );
  });
}

function contentsOf(shown: Shown): Record<string, string | readonly string[]> {
  const { objects, domains, submissions, queued, deleting } = shown;
  const { projects, forms, collections, keys, webhooks } = objects;
  const parts = [
    counted(projects, 'project'),
    counted(forms, 'form'),
    counted(collections, 'collection'),
    counted(keys, 'API key'),
    counted(webhooks, 'webhook'),
  ];
  return {
    ...factsOf(shown),
    ...(deleting === null
      ? {}
      : { deleting: `when its queued mail is ${deleting === 'cancel' ? 'cancelled' : 'delivered'}` }),
    contains: parts.join(', '),
    submissions: String(submissions),
    queued: counted(queued, 'delivery'),
    domains:
      domains.length === 0 ? 'none' : domains.map((row) => `${row.domain} (${row.status}, project ${row.project})`),
  };
}

/** Changes its plan, its limits, whether it is suspended, or whether it is trusted; a limit of null is the plan's. */
function change(api: Api, id: string, body: object): Promise<number | void> {
  return print(api, { route: routes.change, params: { id }, body }, (row) => writeFacts(api.terminal, factsOf(row)));
}

function factsOf(row: Tenant): Record<string, string> {
  const { id, name, email, plan, requests_per_hour, messages_per_hour, messages_per_day, trusted } = row;
  const own = [
    [requests_per_hour, 'requests per hour'],
    [messages_per_hour, 'messages per hour'],
    [messages_per_day, 'messages per day'],
  ].flatMap(([count, what]) => (count === null ? [] : [`${count} ${what}`]));
  return {
    account: id,
    name,
    email,
    plan: own.length === 0 ? plan : `${plan}, with ${own.join(' and ')}`,
    state: stateOf(row),
    trusted: trusted ? 'yes' : 'no: recipients must confirm',
  };
}
