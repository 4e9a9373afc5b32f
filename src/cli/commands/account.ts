/** `signup` and `auth …` */
import { Option } from 'commander';
import { COARSE, PERMISSIONS, type PermissionName } from '../../lib/permission-names.ts';
import type { CliCommand } from '../command.ts';
import { domainName, listOf, mailAddress, moment, oneOf, serverAddress, wholeNumber } from '../values.ts';
import type { NewKey } from '../keys.ts';
import type { SignupFlags } from '../signup.ts';
import { asking, askingOptions, paged, YES, type AskingFlags, type Cli, type PageFlags } from './asking.ts';

const NAMES: readonly PermissionName[] = [...COARSE, ...PERMISSIONS];

/** Adds `signup`. */
export function addSignupCommand(program: CliCommand, { terminal, exit }: Cli): void {
  program
    .command('signup')
    .description('make an account and its first API key, and remember both')
    .option('--name <name>', 'yours, or that of your organisation')
    .option('--email <address>', 'where alerts go', mailAddress)
    .option('--url <address>', 'the server (else $POSTERN_URL, the one on this machine)', serverAddress)
    .addOption(new Option('--config <file>', 'make it over the socket that this server.yml names').conflicts('url'))
    .option('--force', 'replace the key that is remembered', false)
    .option('--json', 'the account and its key as JSON', false)
    .example('signup --url https://mail.example.net', 'asks for the rest')
    .action(async (flags: SignupFlags) => {
      const { signup } = await import('../signup.ts');
      exit(await signup(terminal, flags));
    });
}

/** Adds `auth …`. */
export function addAuthCommands(program: CliCommand, cli: Cli, version: string): void {
  const auth = program.command('auth').description('the key that asks, and the keys of its account');
  asking(auth.command('status'))
    .description('show which key asks, what it may do, and what its limits leave')
    .option('--debug', 'also how the server is reached: address, versions, round trip, clocks', false)
    .action(async ({ debug, ...flags }: AskingFlags & { debug: boolean }) => {
      const { authStatus } = await import('../auth-status.ts');
      cli.exit(await authStatus(await askingOptions(cli, flags), { debug, version }));
    });
  asking(auth.command('create-key'))
    .description('make a key that may do no more than the asking one, and show its value once')
    .requiredOption('--name <name>', 'what it is for')
    .requiredOption('--permissions <list>', `of ${NAMES.join(', ')}`, listOf(oneOf(NAMES)))
    .option('--rate-limit <count>', 'requests an hour', wholeNumber(1))
    .option('--burst-limit <count>', 'requests a minute', wholeNumber(1))
    .option('--ip <list>', 'addresses and networks that may use it', listOf(String))
    .option('--domain <list>', 'domains that it may be used for', listOf(domainName))
    .option('--expires <time>', 'the date or time at which it ends', moment)
    .addOption(
      new Option('--environment <name>', 'mail that a test key causes is never delivered').choices(['live', 'test']),
    )
    .example('auth create-key --name Shop --permissions email.send --rate-limit 500', 'for one program')
    .action(async ({ url, config, json, ...wanted }: NewKey & AskingFlags) => {
      const { createKey } = await import('../keys.ts');
      cli.exit(await createKey(await askingOptions(cli, { url, config, json }), wanted));
    });
  asking(paged(auth.command('list-keys')))
    .description('list the keys of the account, newest first')
    .action(async ({ limit, cursor, ...flags }: PageFlags & AskingFlags) => {
      const { listKeys } = await import('../keys.ts');
      cli.exit(await listKeys(await askingOptions(cli, flags), { limit, cursor }));
    });
  asking(auth.command('revoke-key'))
    .argument('<key_id>', 'as auth list-keys shows it')
    .description('end a key, from the next request on')
    .option('--with-children', 'also revoke the keys that it made, directly or not: for a key that was stolen', false)
    .option(...YES)
    .action(
      async (id: string, { yes, withChildren, ...flags }: AskingFlags & { yes: boolean; withChildren: boolean }) => {
        const { revokeKey } = await import('../keys.ts');
        cli.exit(await revokeKey(await askingOptions(cli, flags), id, { yes, withChildren }));
      },
    );
  asking(auth.command('permissions'))
    .description('list what a key may do')
    .requiredOption('--key-id <key_id>', 'as auth list-keys shows it')
    .action(async ({ keyId, ...flags }: AskingFlags & { keyId: string }) => {
      const { keyPermissions } = await import('../keys.ts');
      cli.exit(await keyPermissions(await askingOptions(cli, flags), { keyId }));
    });
}
