/** `domains …`: what a domain has to publish, what of it DNS says. */
import { Option } from 'commander';
import type { CliCommand } from '../command.ts';
import type { RotateOptions } from '../rotate.ts';
import { domainName } from '../values.ts';
import {
  asking,
  askingOptions,
  operating,
  operatingOptions,
  waitingTime,
  YES,
  type AskingFlags,
  type Cli,
} from './asking.ts';

const DOMAIN = ['<domain>', 'such as example.com', domainName] as const;

/** Adds `domains …`. */
export function addDomainsCommands(program: CliCommand, cli: Cli): void {
  const domains = program.command('domains').description('DNS records of domains, and whether they stand');
  asking(
    domains
      .command('setup')
      .argument(...DOMAIN)
      .description('print the DNS records to add, with what stands there today')
      .addOption(new Option('--zone', 'as lines of a BIND zone file').default(false).conflicts('json'))
      .example('domains setup example.com --zone >> example.com.zone', 'for a name server of your own'),
  ).action(async (domain: string, { zone, ...flags }: AskingFlags & { zone: boolean }) => {
    const { domainsSetup } = await import('../domains.ts');
    cli.exit(await domainsSetup(await askingOptions(cli, flags), domain, { zone }));
  });
  asking(
    domains
      .command('verify')
      .argument(...DOMAIN)
      .description('look whether the records stand; exit code 1 where they do not')
      .option('--wait', 'look again and again until they do', false)
      .addOption(waitingTime().default(600).implies({ wait: true }))
      .example('domains verify example.com --wait', 'while DNS spreads what you have just published'),
  ).action(async (domain: string, { wait, timeout, ...flags }: AskingFlags & { wait: boolean; timeout: number }) => {
    const { domainsVerify } = await import('../domains.ts');
    cli.exit(await domainsVerify(await askingOptions(cli, flags), domain, { wait, timeout }));
  });
  asking(
    domains
      .command('rotate-dkim')
      .argument('[domain]', 'such as example.com', domainName)
      .description('make the next DKIM key, and print the record to add; it signs once DNS has that')
      .option('--host', 'the key of the server itself (for its operator)', false)
      .option('--wait', 'look again and again until the new key signs', false)
      .addOption(waitingTime().default(600).implies({ wait: true }))
      .example('domains rotate-dkim example.com --wait', 'the present key signs until the new record is seen'),
  ).action(async (domain: string | undefined, flags: AskingFlags & RotateOptions) => {
    const { host, wait, timeout, ...asked } = flags;
    const { rotateDkim } = await import('../rotate.ts');
    cli.exit(await rotateDkim(await askingOptions(cli, asked), domain, { host, wait, timeout }));
  });
  asking(
    domains
      .command('status')
      .argument('[domain]', 'with all of its records; else a line for each domain', domainName)
      .description('show what the last check found'),
  ).action(async (domain: string | undefined, flags: AskingFlags) => {
    const { domainsStatus, domainStatus } = await import('../domains.ts');
    const options = await askingOptions(cli, flags);
    cli.exit(await (domain === undefined ? domainsStatus(options) : domainStatus(options, domain)));
  });
  asking(
    domains
      .command('add')
      .argument(...DOMAIN)
      .description('add a domain to the configuration of a project')
      .requiredOption('--project <project>', 'its slug'),
  ).action(async (domain: string, { project, ...flags }: AskingFlags & { project: string }) => {
    const { domainsAdd } = await import('../domains.ts');
    cli.exit(await domainsAdd(await askingOptions(cli, flags), domain, project));
  });
  asking(
    domains
      .command('remove')
      .argument(...DOMAIN)
      .description('take a domain out of the configuration of its project')
      .option(...YES),
  ).action(async (domain: string, { yes, ...flags }: AskingFlags & { yes: boolean }) => {
    const { domainsRemove } = await import('../domains.ts');
    cli.exit(await domainsRemove(await askingOptions(cli, flags), domain, { yes }));
  });
  operating(
    domains
      .command('move')
      .argument(...DOMAIN)
      .argument('<tenant>', 'the account that is to own it: ten_…')
      .description('make another account the owner of a domain (for operators)')
      .example('domains move example.com ten_01jb2x7k3m9q4v8w5t6r0y1z2a', 'it must have the domain in a project'),
  ).action(async (domain: string, tenant: string, flags: AskingFlags) => {
    const { domainsMove } = await import('../domains.ts');
    cli.exit(await domainsMove(await operatingOptions(cli, flags), domain, tenant));
  });
}
