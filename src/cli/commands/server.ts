/** The commands for operators: queue, inbound, explain, trace, doctor, backup, config, tenants, usage and billing. */
import { Option, type Command, Argument } from 'commander';
import type { CliCommand } from '../command.ts';
import type { InboundFilter, ListFilter, QueueSelection } from '../queue.ts';
import {
  operatorCommand,
  operatorOptions,
  operatorCall,
  withPages,
  withTimeRange,
  YES,
  type ApiFlags,
  type Cli,
  CONFIG_OPTION,
  JSON_OUT,
  type PageFlags,
  type TimeRangeFlags,
} from './options.ts';
import type { DoctorFlags } from '../doctor.ts';
import { domainName, listOf, mailAddress, month, wholeNumber } from '../values.ts';
import type { BackupFlags } from '../backup.ts';
import type { ConfigOptions } from '../config.ts';
import type { NewTenant } from '../tenants.ts';

const STATES = ['queued', 'sending', 'deferred', 'delivered', 'bounced', 'expired', 'cancelled', 'suppressed'];
const WAITING = ['queued', 'deferred'];
const OUTCOMES = ['accepted', 'rejected', 'deferred'];

const MESSAGE = ['<id>', 'ID of a message (msg_…) or delivery (dlv_…, whd_…)'] as const;
const DESTINATION = 'Destination domain, or a webhook (whk_…)';

/** Adds `queue …`. */
export function addQueueCommands(program: CliCommand, cli: Cli): void {
  const queue = program.command('queue').description('Show and manage the delivery queue');
  const list = queue
    .command('list')
    .description('List deliveries, newest first')
    .addOption(new Option('--state <state>', 'Only this state').choices(STATES))
    .example('queue list --state deferred', 'Deferred deliveries and the reason');
  operatorCommand(withPages(filtered(list))).action(({ url, config, json, ...filter }: ListFilter & ApiFlags) =>
    operatorCall(cli, { url, config, json }, async (api) => (await import('../queue.ts')).queueList(api, filter)),
  );
  operatorCommand(queue.command('show'))
    .argument(...MESSAGE)
    .description('Show a message with all recipients and delivery attempts')
    .action((id: string, flags: ApiFlags) =>
      operatorCall(cli, flags, async (api) => (await import('../queue.ts')).queueShow(api, id)),
    );
  for (const [verb, argument, means, description] of [
    ['retry', '[id]', MESSAGE[1], 'Retry the undelivered recipients of a message, or all matching deliveries, now'],
    ['cancel', '[id]', MESSAGE[1], 'Cancel the undelivered recipients of a message, or all matching deliveries'],
    ['hold', '[domain]', DESTINATION, 'Hold all mail to a domain, or all matching deliveries'],
    ['release', '[domain]', DESTINATION, 'Release held mail'],
  ] as const) {
    const command = queue
      .command(verb)
      .argument(argument, means)
      .description(description)
      .addOption(new Option('--state <state>', 'Only this state').choices(WAITING));
    operatorCommand(filtered(command))
      .option('--dry-run', 'Only count the matching deliveries', false)
      .option(...YES)
      .example(`queue ${verb} --tenant ten_… --older-than 2h`, EXAMPLES[verb])
      .action((what: string | undefined, { url, config, json, ...selection }: QueueSelection & ApiFlags) =>
        operatorCall(cli, { url, config, json }, async (api) =>
          (await import('../queue.ts')).queueAct(api, verb, { ...selection, what }),
        ),
      );
  }
}

const EXAMPLES = {
  retry: 'All deliveries of a tenant that have been queued for two hours',
  cancel: 'All deliveries of a tenant that have been queued for two hours',
  hold: 'All deliveries of a tenant queued for two hours; new mail is not held',
  release: 'Held deliveries of a tenant',
} as const;

function filtered<Filtering extends Command>(command: Filtering): Filtering {
  return command
    .option('--tenant <id>', 'Only this tenant')
    .option('--domain <domain>', 'Only this destination domain or webhook')
    .option('--sender <domain>', 'Only mail sent from this domain')
    .option('--older-than <duration>', 'Only mail queued for longer than this, such as 2h or 3d');
}

/** Adds `inbound …`. */
export function addInboundCommands(program: CliCommand, cli: Cli): void {
  const inbound = program.command('inbound').description('Show received and rejected mail');
  const list = inbound
    .command('list')
    .description('List accepted, rejected and deferred recipients, newest first')
    .addOption(new Option('--outcome <outcome>', 'Only this outcome').choices(OUTCOMES))
    .option('--domain <domain>', 'Only this domain')
    .option('--reason <reason>', 'Only this reason, such as unknown_recipient')
    .example('inbound list --outcome rejected --from 2026-01-31', 'Mail rejected since a date');
  operatorCommand(withPages(withTimeRange(list))).action(({ url, config, json, ...filter }: InboundFilter & ApiFlags) =>
    operatorCall(cli, { url, config, json }, async (api) => (await import('../queue.ts')).inboundList(api, filter)),
  );
}

/** Adds `explain` and `trace`. */
export function addInsightCommands(program: CliCommand, cli: Cli): void {
  operatorCommand(program.command('explain'))
    .summary('Explain how mail would be handled')
    .argument('<what>', 'An address, or a form: example.com/contact, c/team/join, frm_…')
    .description('Explain step by step how mail would be handled. Exits with 1 if it would not be delivered')
    .example('explain hello+news@example.com', 'Which forwarding rule matches, and where the mail goes')
    .example('explain example.com/contact', 'Recipients, DKIM key and MX hosts of a form')
    .action((what: string, flags: ApiFlags) =>
      operatorCall(cli, flags, async (api) => (await import('../queue.ts')).explain(api, what)),
    );
  operatorCommand(program.command('trace'))
    .summary('Trace a request or message')
    .argument('<id>', 'ID of a request (X-Request-Id), submission, message, delivery, event or received message')
    .description('Trace a request or message from its arrival to the last SMTP reply')
    .example('trace req_01k9xvcz2m4d7e8f9g0h1j2k3m', 'Trace a request')
    .action((id: string, flags: ApiFlags) =>
      operatorCall(cli, flags, async (api) => (await import('../queue.ts')).trace(api, id)),
    );
}

/** Adds `doctor`. */
export function addDoctorCommand(program: CliCommand, cli: Cli): void {
  const doctor = program
    .command('doctor')
    .description("Check the server's DNS records, outbound port 25, certificate, disk, queue and configuration")
    .option('--dnsbl <list>', "Also look up the server's IP addresses in these DNS blocklists", listOf(domainName))
    .option(
      '--port25 <host>',
      'Mail server to connect to, with an optional port (default: the smarthost, or well-known servers)',
    )
    .example('doctor', 'Show problems and how to fix them. Exits with 1 if a check fails')
    .example('doctor --dnsbl zen.spamhaus.org', 'Also check a blocklist');
  operatorCommand(doctor).action(({ url, config, json, ...flags }: DoctorFlags & ApiFlags) =>
    operatorCall(cli, { url, config, json }, async (api) => (await import('../doctor.ts')).doctorRun(api, flags)),
  );
}

/** Adds `backup`. */
export function addBackupCommand(program: CliCommand, cli: Cli): void {
  operatorCommand(program.command('backup'))
    .summary('Back up the database')
    .argument('<file>', 'File to write, readable only by its owner')
    .description('Back up and verify the SQLite database while the daemon runs (PostgreSQL: use pg_dump)')
    .option('--force', 'Overwrite an existing file', false)
    .example('backup /var/backups/postern.db --force', 'A nightly backup')
    .action((file: string, { url, config, json, ...flags }: BackupFlags & ApiFlags) =>
      operatorCall(cli, { url, config, json }, async (api) => (await import('../backup.ts')).backup(api, file, flags)),
    );
}

/** Adds `config …`. */
export function addConfigCommands(program: CliCommand, cli: Cli): void {
  const { terminal, exit } = cli;
  const config = program
    .command('config')
    .description('Check and show the server configuration; needs no running daemon');
  config
    .command('check')
    .description('Check server.yml and all project files')
    .option(...CONFIG_OPTION)
    .option(...JSON_OUT)
    .action(async (flags: ConfigFlags) => {
      const { configCheck } = await import('../config.ts');
      exit(await configCheck(await configOptions(cli, flags)));
    });
  config
    .command('show')
    .description('Print the server configuration with all defaults')
    .option(...CONFIG_OPTION)
    .option('--changed', 'Only settings that differ from the defaults', false)
    .option(...JSON_OUT)
    .action(async ({ changed, ...flags }: ConfigFlags & { changed: boolean }) => {
      const { configShow } = await import('../config.ts');
      exit(await configShow({ ...(await configOptions(cli, flags)), changed }));
    });
  config
    .command('schema')
    .description('Print the JSON Schema of a configuration file, for editors')
    .addArgument(new Argument('<kind>', 'The kind of configuration file').choices(['server', 'project']))
    .action(async (kind: 'server' | 'project') => {
      const { configSchema } = await import('../config.ts');
      exit(configSchema(kind, terminal));
    });
}

interface ConfigFlags {
  readonly config?: string;
  readonly json: boolean;
}

async function configOptions({ terminal }: Cli, { config, json }: ConfigFlags): Promise<ConfigOptions> {
  const [{ machineSecrets }, { checkTemplates }] = await Promise.all([
    import('../../config/secrets.ts'),
    import('../../templates/engine.ts'),
  ]);
  const { env } = terminal;
  return { path: config, env, reading: { secrets: machineSecrets(env), checkTemplates }, json, terminal };
}

const TENANT = ['<id>', 'ID of the account (ten_…), from `postern tenants list`'] as const;

interface PlanFlags {
  readonly requestsPerHour?: number;
  readonly messagesPerHour?: number;
  readonly messagesPerDay?: number;
}

/** Adds `tenants …`. */
export function addTenantsCommands(program: CliCommand, cli: Cli): void {
  const tenants = program.command('tenants').description('Manage the accounts on the server');
  operatorCommand(withPages(tenants.command('list')))
    .description('List accounts: first the operator’s, then the others, newest first')
    .action(({ limit, cursor, ...flags }: PageFlags & ApiFlags) =>
      operatorCall(cli, flags, async (api) => (await import('../tenants.ts')).tenantsList(api, { limit, cursor })),
    );
  operatorCommand(tenants.command('create'))
    .description('Create an account without confirmation. Its first API key is shown only once')
    .requiredOption('--name <name>', 'Name of the person or organisation')
    .requiredOption('--email <address>', 'Address for alerts', mailAddress)
    .option('--plan <plan>', 'A plan from server.yml (default: free)')
    .action(({ name, email, plan, ...flags }: NewTenant & ApiFlags) =>
      operatorCall(cli, flags, async (api) =>
        (await import('../tenants.ts')).tenantsCreate(api, { name, email, plan }),
      ),
    );
  operatorCommand(tenants.command('set-plan'))
    .argument(...TENANT)
    .argument('<plan>', 'A plan from server.yml')
    .description('Change the plan of an account')
    .option('--requests-per-hour <count>', 'Override the requests per hour of the plan', wholeNumber(1))
    .option('--messages-per-hour <count>', 'Override the recipients per hour of the plan', wholeNumber(1))
    .option('--messages-per-day <count>', 'Override the recipients per 24 hours of the plan', wholeNumber(1))
    .action(async (id: string, plan: string, flags: ApiFlags & PlanFlags) => {
      const { requestsPerHour = null, messagesPerHour = null, messagesPerDay = null, ...asker } = flags;
      const { tenantsChange } = await import('../tenants.ts');
      const change = {
        plan,
        requests_per_hour: requestsPerHour,
        messages_per_hour: messagesPerHour,
        messages_per_day: messagesPerDay,
      };
      cli.exit(await tenantsChange(await operatorOptions(cli, asker), id, change));
    });
  for (const [name, description, change] of [
    ['suspend', 'Suspend an account: its keys, forms and mail', { suspended: true }],
    ['resume', 'Resume a suspended account', { suspended: false }],
    ['trust', 'Exempt the recipients of an account from confirmation and release its pending mail', { trusted: true }],
    ['distrust', 'Require the recipients of an account to confirm', { trusted: false }],
  ] as const) {
    operatorCommand(tenants.command(name))
      .argument(...TENANT)
      .description(description)
      .action((id: string, flags: ApiFlags) =>
        operatorCall(cli, flags, async (api) => (await import('../tenants.ts')).tenantsChange(api, id, change)),
      );
  }
}

/** Adds `usage` and `billing`. */
export function addBillingCommands(program: CliCommand, cli: Cli): void {
  operatorCommand(withTimeRange(program.command('usage')))
    .description('Show usage by account (default: the last 30 days)')
    .action(({ from, to, ...flags }: TimeRangeFlags & ApiFlags) =>
      operatorCall(cli, flags, async (api) => (await import('../tenants.ts')).usage(api, { from, to })),
    );
  operatorCommand(program.command('billing'))
    .description('Show the amount due for each account')
    .option('--month <month>', 'Month, such as 2026-01 (default: the current month)', month)
    .action(({ month, ...flags }: ApiFlags & { month?: string }) =>
      operatorCall(cli, flags, async (api) => (await import('../tenants.ts')).billing(api, { month })),
    );
}
