/** `signup` and `auth …` */
import { Option } from 'commander';
import { COARSE, PERMISSIONS, type PermissionName } from '../../lib/permission-names.ts';
import type { CliCommand } from '../command.ts';
import { domainName, listOf, mailAddress, moment, oneOf, serverAddress, wholeNumber } from '../values.ts';
import type { NewKey, SignupFlags } from '../account.ts';
import { apiCommand, accountCall, withPages, YES, type ApiFlags, type Cli, type PageFlags } from './options.ts';

const NAMES: readonly PermissionName[] = [...COARSE, ...PERMISSIONS];

/** Adds `signup`. */
export function addSignupCommand(program: CliCommand, { terminal, exit }: Cli): void {
  program
    .command('signup')
    .summary('Create an account and its first API key')
    .description('Create an account and its first API key, and save both for later commands')
    .option('--name <name>', 'Your name, or the name of your organisation')
    .option('--email <address>', 'Address for alerts', mailAddress)
    .option(
      '--url <address>',
      'URL of the server (default: $POSTERN_URL, then the server on this machine)',
      serverAddress,
    )
    .addOption(new Option('--config <file>', 'Connect through the admin socket of this server.yml').conflicts('url'))
    .option('--force', 'Replace the saved key', false)
    .option('--json', 'Print the account and its key as JSON', false)
    .example('signup --url https://mail.example.net', 'Create an account; asks for your name and address')
    .action(async (flags: SignupFlags) => {
      const { signup } = await import('../account.ts');
      exit(await signup(terminal, flags));
    });
}

/** Adds `auth …`. */
export function addAuthCommands(program: CliCommand, cli: Cli, version: string): void {
  const auth = program.command('auth').description('Manage API keys');
  apiCommand(auth.command('status'))
    .description('Show the current API key, its permissions and its remaining rate limit')
    .option('--debug', 'Also show the connection: URL, versions, round-trip time, clock difference', false)
    .action(({ debug, ...flags }: ApiFlags & { debug: boolean }) =>
      accountCall(cli, flags, async (api) => (await import('../account.ts')).authStatus(api, { debug, version })),
    );
  apiCommand(auth.command('create-key'))
    .description('Create an API key with at most your own permissions. The key is shown only once')
    .requiredOption('--name <name>', 'Name of the key')
    .requiredOption('--permissions <list>', `Comma-separated list of: ${NAMES.join(', ')}`, listOf(oneOf(NAMES)))
    .option('--rate-limit <count>', 'Requests per hour', wholeNumber(1))
    .option('--burst-limit <count>', 'Requests per minute', wholeNumber(1))
    .option('--ip <list>', 'IP addresses and networks that may use the key', listOf(String))
    .option('--domain <list>', 'Domains that the key may be used for', listOf(domainName))
    .option('--expires <time>', 'Date or time when the key expires', moment)
    .addOption(
      new Option('--environment <name>', 'Mail from a test key is captured, never delivered').choices(['live', 'test']),
    )
    .example('auth create-key --name Shop --permissions email.send --rate-limit 500', 'A key for one program')
    .action(({ url, config, json, ...wanted }: NewKey & ApiFlags) =>
      accountCall(cli, { url, config, json }, async (api) => (await import('../account.ts')).createKey(api, wanted)),
    );
  apiCommand(withPages(auth.command('list-keys')))
    .description('List the API keys of the account, newest first')
    .action(({ limit, cursor, ...flags }: PageFlags & ApiFlags) =>
      accountCall(cli, flags, async (api) => (await import('../account.ts')).listKeys(api, { limit, cursor })),
    );
  apiCommand(auth.command('revoke-key'))
    .argument('<key_id>', 'ID of the key, from `postern auth list-keys`')
    .description('Revoke an API key at once')
    .option('--with-children', 'Also revoke every key created with this key. Use this for a stolen key', false)
    .option(...YES)
    .action((id: string, { yes, withChildren, ...flags }: ApiFlags & { yes: boolean; withChildren: boolean }) =>
      accountCall(cli, flags, async (api) => (await import('../account.ts')).revokeKey(api, id, { yes, withChildren })),
    );
  apiCommand(auth.command('permissions'))
    .description('List the permissions of an API key')
    .requiredOption('--key-id <key_id>', 'ID of the key, from `postern auth list-keys`')
    .action(({ keyId, ...flags }: ApiFlags & { keyId: string }) =>
      accountCall(cli, flags, async (api) => (await import('../account.ts')).keyPermissions(api, { keyId })),
    );
}
