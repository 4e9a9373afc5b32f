/** `postern signup` and `auth …`: an account and its API keys. */
import { Option } from 'commander';
import { z } from 'zod';
import { keys } from '../contract/keys.ts';
import type { AnswerOf } from '../contract/route.ts';
import { totp } from '../contract/sessions.ts';
import { accounts } from '../contract/tenants.ts';
import { parseAddress } from '../lib/addresses.ts';
import { systemClock } from '../lib/clock.ts';
import { messageOf } from '../lib/errors.ts';
import { COARSE, PERMISSIONS, type PermissionName } from '../lib/permission-names.ts';
import { createClient, CommandFailed, UsageError } from './client.ts';
import type { CliCommand } from './command.ts';
import { listing, print, shortTime, writeFacts, writeJson } from './output.ts';
import { answerTo, EXIT, isConfirmed, run, type Api } from './run.ts';
import {
  credentialsFile,
  findServer,
  readCredentials,
  saveCredentials,
  type Server,
  type ServerFlags,
} from './target.ts';
import { printable } from '../lib/printable.ts';
import type { Terminal } from './terminal.ts';
import {
  domainName,
  isServerAddress,
  listOf,
  mailAddress,
  moment,
  oneOf,
  SERVER_ADDRESS,
  serverAddress,
  wholeNumber,
} from './values.ts';

const NAMES: readonly PermissionName[] = [...COARSE, ...PERMISSIONS];

/** Adds `signup` and `auth …`. */
export function addCommands(program: CliCommand): void {
  const { terminal, exit } = program.cli;
  program
    .command('signup')
    .summary('Create an account and its first API key')
    .description('Create an account and its first API key, and save both for later commands')
    .option('--name <name>', 'Your name, or the name of your organisation')
    .option('--email <address>', 'Email address for alerts', mailAddress)
    .option(
      '--url <address>',
      'URL of the server (default: $POSTERN_URL, then the server on this machine)',
      serverAddress,
    )
    .addOption(new Option('--config <file>', 'Connect through the admin socket of this server.yml').conflicts('url'))
    .option('--force', 'Replace the saved key', false)
    .option('--json', 'Print the account and its key as JSON', false)
    .example('signup --url https://mail.example.net', 'Create an account. Asks for your name and email address')
    .action(async (flags: SignupFlags) => exit(await signup(terminal, flags)));
  const auth = program.command('auth').description('Manage API keys');
  auth
    .command('status')
    .description('Show the current API key, its permissions and its remaining rate limit')
    .option('--debug', 'Also show the connection: URL, versions, round-trip time, clock difference', false)
    .account((api, { debug }: { debug: boolean }) => authStatus(api, debug ? program.cli.version : undefined));
  auth
    .command('create-key')
    .description('Create an API key with at most your own permissions. The key is shown only once')
    .requiredOption('--name <name>', 'Name of the key')
    .requiredOption('--permissions <list>', `Comma-separated list of: ${NAMES.join(', ')}`, listOf(oneOf(NAMES)))
    .option('--rate-limit <count>', 'Requests per hour', wholeNumber(1))
    .option('--burst-limit <count>', 'Requests per minute', wholeNumber(1))
    .option('--ip <list>', 'IP addresses and networks that may use the key', listOf(String))
    .option('--domain <list>', 'Domains that the key may be used for', listOf(domainName))
    .option('--expires <time>', 'Date or time when the key expires', moment)
    .choice('--environment <name>', 'Mail from a test key is captured, never delivered', ['live', 'test'])
    .example('auth create-key --name Shop --permissions email.send --rate-limit 500', 'A key for one program')
    .account(createKey);
  auth
    .command('list-keys')
    .description('List the API keys of the account, newest first')
    .pages()
    .account(
      listing(keys.list, {
        rows: ({ api_keys }) => api_keys,
        columns: {
          KEY: 'id',
          NAME: 'name',
          VALUE: ({ prefix, last4 }) => `${prefix}…${last4}`,
          STATE: ({ revoked_at }) => (revoked_at === null ? 'active' : 'revoked'),
          'LAST USED': 'last_used_at',
          PERMISSIONS: 'permissions',
        },
        nothing: 'No API keys found.',
      }),
    );
  auth
    .command('revoke-key')
    .argument('<key_id>', 'ID of the key, from `postern auth list-keys`')
    .description('Revoke an API key immediately')
    .option('--with-children', 'Also revoke every key created with this key. Use this for a stolen key', false)
    .confirmed()
    .account(revokeKey);
  auth
    .command('totp')
    .summary('Set up one-time codes for signing in to the console')
    .description(
      'Set up one-time codes (TOTP) as the second step of signing in to the console. Asks for a code from your authenticator app',
    )
    .option('--code <code>', 'One-time code: confirms a secret shown earlier, or --remove')
    .option('--remove', 'Turn off one-time codes. On the server itself, the operator needs no code', false)
    .example('auth totp', 'Show a secret, and confirm it with a code')
    .example('auth totp --remove', 'Turn off one-time codes')
    .account(setUpTotp);
  auth
    .command('permissions')
    .description('List the permissions of an API key')
    .requiredOption('--key-id <key_id>', 'ID of the key, from `postern auth list-keys`')
    .account(async ({ client, terminal, json }, { keyId: id }: { keyId: string }) => {
      const { permissions, restrictions } = await client.call({ route: keys.show, params: { id } });
      if (json) return writeJson(terminal, { id, permissions, restrictions });
      for (const permission of permissions) terminal.write(`${permission}\n`);
      if (terminal.width !== undefined) writeFacts(terminal, restrictionFacts(restrictions));
    });
}

/** Creates a key and shows its value, once. */
function createKey(api: Api, given: Readonly<Record<string, unknown>>): Promise<number | void> {
  const { name, environment, permissions } = given;
  const restrictions = {
    rate_limit: given['rateLimit'],
    burst_limit: given['burstLimit'],
    ip_whitelist: given['ip'],
    domain_restrictions: given['domain'],
    expires_at: given['expires'],
  };
  return print(api, { route: keys.create, body: { name, environment, permissions, restrictions } }, (created) => {
    writeFacts(api.terminal, {
      key: created.key,
      id: created.id,
      name: created.name,
      environment: created.environment,
      permissions: created.permissions.join(', '),
      ...restrictionFacts(created.restrictions),
    });
    api.terminal.writeError('Save the key now. It is not shown again.\n');
  });
}

/** Revokes a key, and on request the keys created with it, after confirmation. */
async function revokeKey(
  api: Api,
  id: string,
  { yes, withChildren }: { yes: boolean; withChildren: boolean },
): Promise<number | void> {
  const { client, terminal } = api;
  const { name, revoked_at, active_children: children } = await client.call({ route: keys.show, params: { id } });
  const revoking = [...(revoked_at === null ? [{ id, name }] : []), ...(withChildren ? children : [])];
  const question = `Revoke ${named(revoking)}? Requests with ${revoking.length === 1 ? 'this key' : 'these keys'} will be rejected.`;
  if (revoking.length > 0 && !(await isConfirmed(terminal, question, yes))) return EXIT.failed;
  const query = withChildren ? { with_children: true } : {};
  return print(api, { route: keys.revoke, params: { id }, query }, (done) => {
    for (const key of [done, ...done.revoked_children])
      terminal.write(`${key.id} was revoked at ${shortTime(key.revoked_at)}\n`);
    if (done.active_children.length === 0) return;
    terminal.writeError(`Keys created with this key are still active: ${named(done.active_children)}.\n`);
    terminal.writeError(`If the key was stolen, revoke them too: postern auth revoke-key ${id} --with-children\n`);
  });
}

/** Begins to set up one-time codes and confirms them, or ends them. */
async function setUpTotp(api: Api, { code, remove }: { code?: string; remove: boolean }): Promise<number | void> {
  const { client, terminal, json } = api;
  if (remove) {
    const body = code === undefined ? {} : { code };
    return print(api, { route: totp.remove, body }, () => terminal.write('Signing in no longer requires a code.\n'));
  }
  if (code !== undefined) return confirmTotp(api, code);
  const { data, read } = await client.ask({ route: totp.start, body: {} });
  const { secret, uri } = read();
  if (json) return writeJson(terminal, data);
  writeFacts(terminal, { secret, uri });
  terminal.writeError('Add the secret to an authenticator app. It is not shown again.\n');
  if (terminal.ask === undefined) return terminal.writeError('Then confirm it: postern auth totp --code CODE\n');
  return confirmTotp(api, (await terminal.ask('Code from the app: ')).trim());
}

function confirmTotp(api: Api, code: string): Promise<number | void> {
  return print(api, { route: totp.confirm, body: { code } }, ({ recovery_codes }) => {
    for (const one of recovery_codes) api.terminal.write(`${one}\n`);
    api.terminal.writeError(
      'Save these recovery codes now. Each works once instead of a one-time code. They are not shown again.\n',
    );
  });
}

function named(list: readonly { readonly id: string; readonly name: string }[]): string {
  return list.map(({ id, name }) => `${id} (${printable(name)})`).join(', ');
}

type Key = AnswerOf<typeof keys.show>;

/** What narrows a key. */
function restrictionFacts(restrictions: Key['restrictions']): Record<string, string | undefined> {
  const { ip_whitelist, domain_restrictions, rate_limit, burst_limit, expires_at } = restrictions;
  return {
    'IP addresses': ip_whitelist?.join(', '),
    domains: domain_restrictions?.join(', '),
    'per hour': rate_limit === undefined ? undefined : `${rate_limit} requests`,
    'per minute': burst_limit === undefined ? undefined : `${burst_limit} requests`,
    expires: expires_at === undefined ? undefined : shortTime(expires_at),
  };
}

const openapi = {
  method: 'GET',
  path: '/openapi.json',
  answer: z.object({ info: z.object({ version: z.string() }) }),
} as const;

/** Shows the current key and its remaining rate limit; with our own `version` also the connection. */
async function authStatus({ client, target, terminal, json }: Api, version: string | undefined): Promise<void> {
  const begun = systemClock.monotonic();
  const { data, headers, read } = await client.ask({ route: keys.status });
  const roundTrip = Math.round(systemClock.monotonic() - begun);
  const ahead = secondsAhead(headers.date);
  const { rate_limits } = await client.call({ route: keys.limits });
  const connection = version !== undefined && {
    server: target.address,
    server_from: target.addressFrom,
    key_from: target.keyFrom ?? null,
    server_version: (await client.call({ route: openapi })).info.version,
    cli_version: version,
    node_version: process.version,
    round_trip_ms: roundTrip,
    clock_ahead_s: ahead,
  };
  if (json) {
    const status = z.looseObject({}).parse(data);
    return writeJson(terminal, { ...status, rate_limits, ...(connection && { debug: connection }) });
  }
  const { key, tenant } = read();
  writeFacts(terminal, {
    account: `${tenant.name} (${tenant.id}), plan ${tenant.plan}`,
    ...(key === null
      ? { key: 'none (operator, through the admin socket)' }
      : {
          key: `${key.name} (${key.id}), ${key.prefix}…${key.last4}, ${key.environment}`,
          permissions: key.permissions.join(', '),
          ...restrictionFacts(key.restrictions),
        }),
    'this hour': remainingText(rate_limits.requests_per_hour),
    'this minute': remainingText(rate_limits.requests_per_minute),
    ...(connection && {
      server: `${connection.server} (${connection.server_from})`,
      'key from': connection.key_from ?? 'none (not needed for the admin socket)',
      versions: `server ${connection.server_version}, CLI ${connection.cli_version}, Node.js ${connection.node_version}`,
      'round trip': `${roundTrip} ms`,
      clock: clockText(ahead),
    }),
  });
}

/** Seconds that the server's clock is ahead of ours; null where it does not say. Its header has whole seconds. */
function secondsAhead(date = ''): number | null {
  const seconds = (Date.parse(date) + 500 - systemClock.now()) / 1000;
  return Number.isNaN(seconds) ? null : Math.round(seconds);
}

function clockText(ahead: number | null): string {
  if (ahead === null) return 'unknown';
  return Math.abs(ahead) < 2 ? 'in sync' : `${Math.abs(ahead)} s ${ahead > 0 ? 'ahead' : 'behind'}`;
}

type Remaining = AnswerOf<typeof keys.limits>['rate_limits']['requests_per_hour'];

function remainingText({ limit, remaining, reset_time }: Remaining): string {
  return `${remaining} of ${limit} requests left${remaining < limit ? `, resets at ${shortTime(reset_time)}` : ''}`;
}

interface SignupFlags extends ServerFlags {
  readonly name?: string | undefined;
  readonly email?: string | undefined;
  /** Overwrites saved credentials. */
  readonly force: boolean;
  readonly json: boolean;
}

/** Creates the account. Returns the exit code; throws UsageError for a missing value if standard input is not a terminal. */
async function signup(terminal: Terminal, { name, email, force, json, ...flags }: SignupFlags): Promise<number> {
  const { env, write } = terminal;
  const file = credentialsFile(env);
  const saved = force ? undefined : await readCredentials(env);
  if (saved !== undefined)
    throw new UsageError(
      `${file} already contains an API key for ${saved.url} (see: postern auth status). To replace it, add --force; save a copy of the old key first if you still need it`,
    );
  const target = await serverFor(terminal, flags);
  const { address } = target;
  const body = {
    name: await answerTo(terminal, {
      flag: '--name',
      given: name,
      question: 'Your name or organisation',
      read: z.string().min(1, 'Enter a value.'),
    }),
    email: await answerTo(terminal, {
      flag: '--email',
      given: email,
      question: 'Email address',
      read: z
        .string()
        .refine((text) => parseAddress(text) !== undefined, 'Enter an email address, such as you@example.com.'),
    }),
  };
  return run({ client: createClient({ address }), target, terminal, json }, async ({ client }) => {
    const { data, read } = await client.ask({ route: accounts.signup, body });
    const { tenant, key } = read();
    await saveCredentials(env, { url: address, key }).catch((error: unknown) => {
      // It is shown this once: without it the account would be lost.
      throw new CommandFailed(`${messageOf(error)}. The account was created. Save its key yourself: ${key}`);
    });
    if (json) return writeJson(terminal, data);
    write(`Created account ${tenant.id} on ${address}\n`);
    write(`Saved its API key ${key.slice(0, 12)}…${key.slice(-4)} to ${file}\n`);
    if ((env['POSTERN_API_KEY'] ?? '') !== '') write('POSTERN_API_KEY is set and takes precedence over this key.\n');
    if (tenant.confirmed_at === null)
      write(`\nTo activate the key, open the link in the email sent to ${printable(tenant.email)}.\n`);
    write(
      `\nNext:\n  postern auth status   Show the key and its permissions\n  postern init          Create a project in this folder\n`,
    );
  });
}

/** The server that flags, environment or this machine name, else the person. */
async function serverFor(terminal: Terminal, flags: ServerFlags): Promise<Server> {
  try {
    return await findServer(flags, terminal.env);
  } catch (error) {
    if (!(error instanceof UsageError) || terminal.ask === undefined) throw error;
  }
  const url = await answerTo(terminal, {
    flag: '--url',
    given: undefined,
    question: 'Server URL, such as https://mail.example.net',
    read: z.string().refine(isServerAddress, `Must be ${SERVER_ADDRESS}.`),
  });
  return findServer({ ...flags, url }, terminal.env);
}
