/** `postern signup` and `auth …`: an account and its API keys. */
import { keys } from '../contract/keys.ts';
import { accounts } from '../contract/tenants.ts';
import type { AnswerOf } from '../contract/route.ts';
import {
  readAnswer,
  isConfirmed,
  EXIT,
  queryOf,
  run,
  shortTime,
  writeJson,
  type CommandOptions,
  CommandFailed,
  UsageError,
} from './run.ts';
import { z } from 'zod';
import type { PageFlags, ApiOptions } from './commands/options.ts';
import { type Terminal, printable } from './terminal.ts';

import { writeFacts, writePage } from './output.ts';

import { systemClock } from '../lib/clock.ts';
import { parseAddress } from '../lib/addresses.ts';
import { messageOf } from '../lib/errors.ts';
import { createClient } from './client.ts';
import {
  credentialsFile,
  readCredentials,
  saveCredentials,
  findServer,
  type Server,
  type ServerFlags,
} from './target.ts';
import { isServerAddress, SERVER_ADDRESS } from './values.ts';

export interface NewKey {
  readonly name: string;
  readonly environment?: string | undefined;
  readonly permissions: readonly string[];
  readonly rateLimit?: number | undefined;
  readonly burstLimit?: number | undefined;
  readonly ip?: readonly string[] | undefined;
  readonly domain?: readonly string[] | undefined;
  /** ISO 8601. */
  readonly expires?: string | undefined;
}

/** Makes a key and shows its value, once. Returns the exit code, as all of these do. */
export function createKey(options: CommandOptions, request: NewKey): Promise<number> {
  return run(options, async ({ client, terminal, json }) => {
    const { name, environment, permissions, rateLimit, burstLimit, ip, domain, expires } = request;
    const data = await client.post('/api-keys', {
      name,
      environment,
      permissions,
      restrictions: {
        rate_limit: rateLimit,
        burst_limit: burstLimit,
        ip_whitelist: ip,
        domain_restrictions: domain,
        expires_at: expires,
      },
    });
    if (json) return writeJson(terminal, data);
    const created = readAnswer(keys.create, data);
    writeFacts(terminal, [
      ['key', created.key],
      ['id', created.id],
      ['name', created.name],
      ['environment', created.environment],
      ['permissions', created.permissions.join(', ')],
      ...restrictionFacts(created.restrictions),
    ]);
    terminal.writeError('Save the key now. It is not shown again.\n');
  });
}

/** Lists the account's keys, newest first. */
export function listKeys(options: CommandOptions, page: PageFlags): Promise<number> {
  return run(options, async ({ client, terminal, json }) => {
    const data = await client.get(`/api-keys${queryOf(page)}`);
    if (json) return writeJson(terminal, data);
    const { api_keys: apiKeys, ...where } = readAnswer(keys.list, data);
    const rows = apiKeys.map((row) => [
      row.id,
      row.name,
      `${row.prefix}…${row.last4}`,
      row.revoked_at === null ? 'active' : 'revoked',
      shortTime(row.last_used_at),
      row.permissions.join(' '),
    ]);
    const headings = ['KEY', 'NAME', 'VALUE', 'STATE', 'LAST USED', 'PERMISSIONS'];
    writePage(terminal, { headings, rows }, { ...where, nothing: 'No API keys found.' });
  });
}

/** Revokes a key, and on request the keys created with it, after confirmation. */
export function revokeKey(
  options: CommandOptions,
  id: string,
  { yes, withChildren }: { yes: boolean; withChildren: boolean },
): Promise<number> {
  return run(options, async ({ client, terminal, json }) => {
    const path = `/api-keys/${encodeURIComponent(id)}`;
    const { name, revoked_at, active_children: children } = readAnswer(keys.show, await client.get(path));
    const revoking = [...(revoked_at === null ? [{ id, name }] : []), ...(withChildren ? children : [])];
    if (revoking.length > 0) {
      const named = revoking.map((key) => `${key.id} (${printable(key.name)})`).join(', ');
      const question = `Revoke ${named}? Requests with ${revoking.length === 1 ? 'this key' : 'these keys'} will be rejected.`;
      if (!(await isConfirmed(terminal, question, yes))) return EXIT.failed;
    }
    const data = await client.delete(`${path}${queryOf({ with_children: withChildren ? 'true' : undefined })}`);
    if (json) return writeJson(terminal, data);
    const done = readAnswer(keys.revoke, data);
    for (const key of [done, ...done.revoked_children]) {
      terminal.write(`${key.id} was revoked ${shortTime(key.revoked_at)}\n`);
    }
    if (done.active_children.length === 0) return undefined;
    const left = done.active_children.map((key) => `${key.id} (${printable(key.name)})`).join(', ');
    terminal.writeError(`Keys created with this key are still active: ${left}.\n`);
    terminal.writeError(`If the key was stolen, revoke them too: postern auth revoke-key ${id} --with-children\n`);
    return undefined;
  });
}

/** Lists what a key may do. */
export function keyPermissions(options: CommandOptions, { keyId }: { keyId: string }): Promise<number> {
  return run(options, async ({ client, terminal, json }) => {
    const data = await client.get(`/api-keys/${encodeURIComponent(keyId)}`);
    const { permissions, restrictions } = readAnswer(keys.show, data);
    if (json) return writeJson(terminal, { id: keyId, permissions, restrictions });
    for (const permission of permissions) terminal.write(`${permission}\n`);
    const facts = restrictionFacts(restrictions);
    if (terminal.width !== undefined && facts.length > 0) writeFacts(terminal, facts);
  });
}

/** What narrows a key, as lines of a name and a value. */
function restrictionFacts(restrictions: AnswerOf<typeof keys.show>['restrictions']): [string, string][] {
  const { ip_whitelist, domain_restrictions, rate_limit, burst_limit, expires_at } = restrictions;
  const facts: [string, string | undefined][] = [
    ['IP addresses', ip_whitelist?.join(', ')],
    ['domains', domain_restrictions?.join(', ')],
    ['per hour', rate_limit === undefined ? undefined : `${rate_limit} requests`],
    ['per minute', burst_limit === undefined ? undefined : `${burst_limit} requests`],
    ['expires', expires_at === undefined ? undefined : shortTime(expires_at)],
  ];
  return facts.flatMap(([name, fact]) => (fact === undefined ? [] : [[name, fact] satisfies [string, string]]));
}

const reference = z.object({ info: z.object({ version: z.string() }) });

/** Shows the current key and its remaining rate limit; with `debug` also the connection. Returns the exit code. */
export function authStatus(
  options: ApiOptions,
  { debug, version }: { debug: boolean; version: string },
): Promise<number> {
  return run(options, async ({ client, terminal, json }) => {
    const begun = systemClock.monotonic();
    const { data, headers } = await client.ask({ method: 'GET', path: '/auth/status' });
    const roundTrip = Math.round(systemClock.monotonic() - begun);
    const ahead = secondsAhead(headers.date);
    const { rate_limits } = readAnswer(keys.limits, await client.get('/rate-limits'));
    const connection = debug
      ? { ...(await connectionOf(options, version)), round_trip_ms: roundTrip, clock_ahead_s: ahead }
      : undefined;
    if (json)
      return writeJson(terminal, {
        ...z.looseObject({}).parse(data),
        rate_limits,
        ...(connection && { debug: connection }),
      });
    const { key, tenant } = readAnswer(keys.status, data);
    writeFacts(terminal, [
      ['account', `${tenant.name} (${tenant.id}), plan ${tenant.plan}`],
      ...(key === null ? ([['key', 'none (operator, through the admin socket)']] as const) : factsOf(key)),
      ['this hour', remainingText(rate_limits.requests_per_hour)],
      ['this minute', remainingText(rate_limits.requests_per_minute)],
      ...(connection === undefined ? [] : factsOfConnection(connection)),
    ]);
  });
}

/** Seconds that the server's clock is ahead of ours; null where it does not say. Its header has whole seconds. */
function secondsAhead(date = ''): number | null {
  const seconds = (Date.parse(date) + 500 - systemClock.now()) / 1000;
  return Number.isNaN(seconds) ? null : Math.round(seconds);
}

async function connectionOf({ client, target }: ApiOptions, version: string) {
  const { info } = reference.parse(await client.get('/openapi.json'));
  return {
    server: target.address,
    server_from: target.addressFrom,
    key_from: target.keyFrom ?? null,
    server_version: info.version,
    cli_version: version,
    node_version: process.version,
  };
}

type Connection = Awaited<ReturnType<typeof connectionOf>> & {
  readonly round_trip_ms: number;
  readonly clock_ahead_s: number | null;
};

function factsOfConnection(connection: Connection): [string, string][] {
  const { clock_ahead_s: ahead } = connection;
  const clock =
    ahead === null
      ? 'unknown'
      : Math.abs(ahead) < 2
        ? 'in sync'
        : `${Math.abs(ahead)} s ${ahead > 0 ? 'ahead' : 'behind'}`;
  return [
    ['server', `${connection.server} (${connection.server_from})`],
    ['key from', connection.key_from ?? 'none (not needed for the admin socket)'],
    [
      'versions',
      `server ${connection.server_version}, CLI ${connection.cli_version}, Node.js ${connection.node_version}`,
    ],
    ['round trip', `${connection.round_trip_ms} ms`],
    ['clock', clock],
  ];
}

function remainingText({
  limit,
  remaining,
  reset_time,
}: AnswerOf<typeof keys.limits>['rate_limits']['requests_per_hour']): string {
  return `${remaining} of ${limit} requests left${remaining < limit ? `, resets at ${shortTime(reset_time)}` : ''}`;
}

function factsOf({
  id,
  name,
  prefix,
  last4,
  permissions,
  restrictions,
  environment,
}: NonNullable<AnswerOf<typeof keys.status>['key']>): [string, string][] {
  return [
    ['key', `${name} (${id}), ${prefix}…${last4}, ${environment}`],
    ['permissions', permissions.join(', ')],
    ...restrictionFacts(restrictions),
  ];
}

export interface SignupFlags extends ServerFlags {
  readonly name?: string | undefined;
  readonly email?: string | undefined;
  /** Writes over credentials that are there. */
  readonly force: boolean;
  readonly json: boolean;
}

/** Creates the account. Returns the exit code; throws UsageError for a missing value if standard input is not a terminal. */
export async function signup(terminal: Terminal, { name, email, force, json, ...flags }: SignupFlags): Promise<number> {
  const { env, write } = terminal;
  const file = credentialsFile(env);
  if (!force) await refuseToReplace(env, file);
  const { address } = await serverFor(terminal, flags);
  const request = {
    name: name ?? (await prompt(terminal, { flag: '--name', question: 'Your name or organisation:' })),
    email:
      email ??
      (await prompt(terminal, {
        flag: '--email',
        question: 'Email address:',
        validate: (text) =>
          parseAddress(text) === undefined ? 'Enter an email address, such as you@example.com.' : undefined,
      })),
  };
  return run({ client: createClient({ address }), terminal, json }, async ({ client }) => {
    const data = await client.post('/signup', request);
    const { tenant, key } = readAnswer(accounts.signup, data);
    await saveCredentials(env, { url: address, key }).catch((error: unknown) => {
      // It is shown this once: without it the account would be lost.
      throw new CommandFailed(`${messageOf(error)}. The account was created. Save its key yourself: ${key}`);
    });
    if (json) return writeJson(terminal, data);
    write(`Created account ${tenant.id} on ${address}\n`);
    write(`Saved its API key ${key.slice(0, 12)}…${key.slice(-4)} to ${file}\n`);
    if ((env['POSTERN_API_KEY'] ?? '') !== '') write('POSTERN_API_KEY is set and takes precedence over this key.\n');
    if (tenant.confirmed_at === null) {
      write(`\nTo activate the key, open the link in the email sent to ${printable(tenant.email)}.\n`);
    }
    write(
      `\nNext:\n  postern auth status   Show the key and its permissions\n  postern init          Create a project in this folder\n`,
    );
  });
}

async function refuseToReplace(env: Terminal['env'], file: string): Promise<void> {
  const kept = await readCredentials(env);
  if (kept === undefined) return;
  throw new UsageError(
    `${file} already contains an API key for ${kept.url} (see: postern auth status). To replace it, add --force; save a copy of the old key first if you still need it`,
  );
}

/** The server that flags, environment or this machine name, else the person. */
async function serverFor(terminal: Terminal, flags: ServerFlags): Promise<Server> {
  try {
    return await findServer(flags, terminal.env);
  } catch (error) {
    if (!(error instanceof UsageError) || terminal.ask === undefined) throw error;
  }
  const url = await prompt(terminal, {
    flag: '--url',
    question: 'Server URL, such as https://mail.example.net:',
    validate: (text) => (isServerAddress(text) ? undefined : SERVER_ADDRESS),
  });
  return findServer({ ...flags, url }, terminal.env);
}

interface Question {
  /** What would have answered it. */
  readonly flag: string;
  readonly question: string;
  /** Why an answer will not do. */
  readonly validate?: (text: string) => string | undefined;
}

/** Asks until there is an answer that will do. */
async function prompt({ ask, writeError }: Terminal, { flag, question, validate }: Question): Promise<string> {
  if (ask === undefined) throw new UsageError(`${flag} is required when standard input is not a terminal`);
  for (;;) {
    const answer = (await ask(`${question} `)).trim();
    const problem = answer === '' ? 'Enter a value.' : validate?.(answer);
    if (problem === undefined) return answer;
    writeError(`${problem}\n`);
  }
}
