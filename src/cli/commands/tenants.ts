/** `tenants …`, `usage` and `billing` */
import type { CliCommand } from '../command.ts';
import type { NewTenant } from '../tenants.ts';
import { mailAddress, month, wholeNumber } from '../values.ts';
import {
  operating,
  operatingOptions,
  paged,
  spanned,
  type AskingFlags,
  type Cli,
  type PageFlags,
  type SpanFlags,
} from './asking.ts';

const TENANT = ['<id>', 'as tenants list shows it: ten_…'] as const;

interface PlanFlags {
  readonly requestsPerHour?: number;
  readonly messagesPerHour?: number;
  readonly messagesPerDay?: number;
}

/** Adds `tenants …`. */
export function addTenantsCommands(program: CliCommand, cli: Cli): void {
  const tenants = program.command('tenants').description('the accounts of the server');
  operating(paged(tenants.command('list')))
    .description('list the accounts: the operator’s, then the others, newest first')
    .action(async ({ limit, cursor, ...flags }: PageFlags & AskingFlags) => {
      const { tenantsList } = await import('../tenants.ts');
      cli.exit(await tenantsList(await operatingOptions(cli, flags), { limit, cursor }));
    });
  operating(tenants.command('create'))
    .description('make an account that needs no confirmation, and show its first key once')
    .requiredOption('--name <name>', 'of the person or organisation')
    .requiredOption('--email <address>', 'where its alerts go', mailAddress)
    .option('--plan <plan>', 'a name under plans of server.yml (free unless told)')
    .action(async ({ name, email, plan, ...flags }: NewTenant & AskingFlags) => {
      const { tenantsCreate } = await import('../tenants.ts');
      cli.exit(await tenantsCreate(await operatingOptions(cli, flags), { name, email, plan }));
    });
  operating(tenants.command('set-plan'))
    .argument(...TENANT)
    .argument('<plan>', 'a name under plans of server.yml')
    .description('put an account on a plan')
    .option('--requests-per-hour <count>', 'in place of the plan’s', wholeNumber(1))
    .option('--messages-per-hour <count>', 'recipients of its mail, in place of the plan’s', wholeNumber(1))
    .option('--messages-per-day <count>', 'the same, in 24 hours', wholeNumber(1))
    .action(async (id: string, plan: string, flags: AskingFlags & PlanFlags) => {
      const { requestsPerHour = null, messagesPerHour = null, messagesPerDay = null, ...asker } = flags;
      const { tenantsChange } = await import('../tenants.ts');
      const change = {
        plan,
        requests_per_hour: requestsPerHour,
        messages_per_hour: messagesPerHour,
        messages_per_day: messagesPerDay,
      };
      cli.exit(await tenantsChange(await operatingOptions(cli, asker), id, change));
    });
  for (const [name, description, change] of [
    ['suspend', 'suspend an account: its keys, forms and mail', { suspended: true }],
    ['resume', 'resume a suspended account', { suspended: false }],
    [
      'trust',
      'exempt the recipients of an account from confirmation, and send the mail that waited for it',
      { trusted: true },
    ],
    ['distrust', 'require the recipients of an account to confirm', { trusted: false }],
  ] as const) {
    operating(tenants.command(name))
      .argument(...TENANT)
      .description(description)
      .action(async (id: string, flags: AskingFlags) => {
        const { tenantsChange } = await import('../tenants.ts');
        cli.exit(await tenantsChange(await operatingOptions(cli, flags), id, change));
      });
  }
}

/** Adds `usage` and `billing`. */
export function addBillingCommands(program: CliCommand, cli: Cli): void {
  operating(spanned(program.command('usage')))
    .description('show what the server did and for whom, of 30 days unless told')
    .action(async ({ from, to, ...flags }: SpanFlags & AskingFlags) => {
      const { usage } = await import('../tenants.ts');
      cli.exit(await usage(await operatingOptions(cli, flags), { from, to }));
    });
  operating(program.command('billing'))
    .description('show what each account owes for a month')
    .option('--month <month>', 'such as 2026-01 (the present one unless told)', month)
    .action(async ({ month, ...flags }: AskingFlags & { month?: string }) => {
      const { billing } = await import('../tenants.ts');
      cli.exit(await billing(await operatingOptions(cli, flags), { month }));
    });
}
