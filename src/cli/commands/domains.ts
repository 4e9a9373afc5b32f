/** `domains …`: what a domain has to publish, what of it DNS says. */
import { Option } from 'commander';
import type { CliCommand } from '../command.ts';
import type { RotateOptions } from '../domains.ts';
import { domainName } from '../values.ts';
import {
  accountCall,
  apiCommand,
  apiOptions,
  operatorCall,
  operatorCommand,
  timeoutOption,
  YES,
  type ApiFlags,
  type Cli,
} from './options.ts';

const DOMAIN = ['<domain>', 'Domain, such as example.com', domainName] as const;

/** Adds `domains …`. */
export function addDomainsCommands(program: CliCommand, cli: Cli): void {
  const domains = program.command('domains').description('Manage domains and their DNS records');
  apiCommand(
    domains
      .command('setup')
      .argument(...DOMAIN)
      .description('Show the DNS records to add and the records found')
      .addOption(new Option('--zone', 'Print a BIND zone file').default(false).conflicts('json'))
      .example('domains setup example.com --zone >> example.com.zone', 'Add the records to your own zone file'),
  ).action((domain: string, { zone, ...flags }: ApiFlags & { zone: boolean }) =>
    accountCall(cli, flags, async (api) => (await import('../domains.ts')).domainsSetup(api, domain, { zone })),
  );
  apiCommand(
    domains
      .command('verify')
      .argument(...DOMAIN)
      .description('Check the DNS records. Exits with 1 if a required record is missing or wrong')
      .option('--wait', 'Repeat the check until all required records are found', false)
      .addOption(timeoutOption().default(600).implies({ wait: true }))
      .example('domains verify example.com --wait', 'Wait for new records to appear in DNS'),
  ).action((domain: string, { wait, timeout, ...flags }: ApiFlags & { wait: boolean; timeout: number }) =>
    accountCall(cli, flags, async (api) =>
      (await import('../domains.ts')).domainsVerify(api, domain, { wait, timeout }),
    ),
  );
  apiCommand(
    domains
      .command('rotate-dkim')
      .argument('[domain]', 'Domain, such as example.com', domainName)
      .description('Create the next DKIM key and show its DNS record. The key is used once the record is found')
      .option('--host', 'Rotate the key of the server itself (operator only)', false)
      .option('--wait', 'Wait until the new key is used', false)
      .addOption(timeoutOption().default(600).implies({ wait: true }))
      .example('domains rotate-dkim example.com --wait', 'The current key stays in use until the new record is found'),
  ).action(async (domain: string | undefined, flags: ApiFlags & RotateOptions) => {
    const { host, wait, timeout, ...asked } = flags;
    const { rotateDkim } = await import('../domains.ts');
    cli.exit(await rotateDkim(await apiOptions(cli, asked), domain, { host, wait, timeout }));
  });
  apiCommand(
    domains
      .command('status')
      .argument('[domain]', 'Show all records of this domain (default: a summary of all domains)', domainName)
      .description('Show the result of the last DNS check'),
  ).action(async (domain: string | undefined, flags: ApiFlags) => {
    const { domainsStatus, domainStatus } = await import('../domains.ts');
    const options = await apiOptions(cli, flags);
    cli.exit(await (domain === undefined ? domainsStatus(options) : domainStatus(options, domain)));
  });
  apiCommand(
    domains
      .command('add')
      .argument(...DOMAIN)
      .description('Add a domain to the configuration of a project')
      .requiredOption('--project <project>', 'Slug of the project'),
  ).action((domain: string, { project, ...flags }: ApiFlags & { project: string }) =>
    accountCall(cli, flags, async (api) => (await import('../domains.ts')).domainsAdd(api, domain, project)),
  );
  apiCommand(
    domains
      .command('remove')
      .argument(...DOMAIN)
      .description('Remove a domain from the configuration of its project')
      .option(...YES),
  ).action((domain: string, { yes, ...flags }: ApiFlags & { yes: boolean }) =>
    accountCall(cli, flags, async (api) => (await import('../domains.ts')).domainsRemove(api, domain, { yes })),
  );
  operatorCommand(
    domains
      .command('move')
      .argument(...DOMAIN)
      .argument('<tenant>', 'ID of the new owner (ten_…)')
      .description('Make another account the owner of a domain (operator only)')
      .example(
        'domains move example.com ten_01jb2x7k3m9q4v8w5t6r0y1z2a',
        'The account must have the domain in a project',
      ),
  ).action((domain: string, tenant: string, flags: ApiFlags) =>
    operatorCall(cli, flags, async (api) => (await import('../domains.ts')).domainsMove(api, domain, tenant)),
  );
}
