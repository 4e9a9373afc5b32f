/** `postern signup`: an account and its first key, kept where the next command looks for it. */
import { z } from 'zod';
import { parseAddress } from '../lib/addresses.ts';
import { messageOf } from '../lib/errors.ts';
import { createClient } from './client.ts';
import { credentialsFile, readCredentials, saveCredentials } from './credentials.ts';
import { CommandFailed, run, UsageError, writeJson } from './run.ts';
import { printable } from './table.ts';
import { findServer, type Server, type ServerFlags } from './target.ts';
import type { Terminal } from './terminal.ts';
import { isServerAddress, SERVER_ADDRESS } from './values.ts';

export interface SignupFlags extends ServerFlags {
  readonly name?: string | undefined;
  readonly email?: string | undefined;
  /** Writes over credentials that are there. */
  readonly force: boolean;
  readonly json: boolean;
}

const account = z.object({
  tenant: z.object({ id: z.string(), email: z.string(), confirmed_at: z.string().nullable() }),
  key: z.string(),
});

/** Makes it. Answers the exit code; throws UsageError for what is missing and nobody is there to be asked for. */
export async function signup(terminal: Terminal, { name, email, force, json, ...flags }: SignupFlags): Promise<number> {
  const { env, write } = terminal;
  const file = credentialsFile(env);
  if (!force) await refuseSecond(env, file);
  const { address } = await serverFor(terminal, flags);
  const wanted = {
    name: name ?? (await asked(terminal, { flag: '--name', question: 'Your name, or that of your organisation:' })),
    email:
      email ??
      (await asked(terminal, {
        flag: '--email',
        question: 'Your mail address:',
        objection: (text) => (parseAddress(text) === undefined ? 'That is no mail address.' : undefined),
      })),
  };
  return run({ client: createClient({ address }), terminal, json }, async ({ client }) => {
    const data = await client.post('/signup', wanted);
    const { tenant, key } = account.parse(data);
    await saveCredentials(env, { url: address, key }).catch((error: unknown) => {
      // It is shown this once: without it the account would be lost.
      throw new CommandFailed(`${messageOf(error)}. The account is made; keep its key yourself: ${key}`);
    });
    if (json) return writeJson(terminal, data);
    write(`Account ${tenant.id} on ${address}\n`);
    write(`Its key ${key.slice(0, 12)}…${key.slice(-4)} is kept in ${file}, which you alone can read.\n`);
    if ((env['POSTERN_API_KEY'] ?? '') !== '') write('POSTERN_API_KEY is set, which goes before it.\n');
    if (tenant.confirmed_at === null) {
      write(`\nThe key works once you have opened the link that is on its way to ${printable(tenant.email)}.\n`);
    }
    write(`\nNext:\n  postern auth status   what the key may do\n  postern init          begin a project here\n`);
  });
}

async function refuseSecond(env: Terminal['env'], file: string): Promise<void> {
  const kept = await readCredentials(env);
  if (kept === undefined) return;
  throw new UsageError(
    `${file} holds the key of an account on ${kept.url} already: postern auth status shows it. --force replaces it; keep a copy of the key if you still need it`,
  );
}

/** The server that flags, environment or this machine name, else the person. */
async function serverFor(terminal: Terminal, flags: ServerFlags): Promise<Server> {
  try {
    return await findServer(flags, terminal.env);
  } catch (error) {
    if (!(error instanceof UsageError) || terminal.ask === undefined) throw error;
  }
  const url = await asked(terminal, {
    flag: '--url',
    question: 'The server, such as https://mail.example.net:',
    objection: (text) => (isServerAddress(text) ? undefined : SERVER_ADDRESS),
  });
  return findServer({ ...flags, url }, terminal.env);
}

interface Question {
  /** What would have answered it. */
  readonly flag: string;
  readonly question: string;
  /** Why an answer will not do. */
  readonly objection?: (text: string) => string | undefined;
}

/** Asks until there is an answer that will do. */
async function asked({ ask, complain }: Terminal, { flag, question, objection }: Question): Promise<string> {
  if (ask === undefined) throw new UsageError(`${flag} is missing, and nobody is there to be asked`);
  for (;;) {
    const answer = (await ask(`${question} `)).trim();
    const problem = answer === '' ? 'It cannot be empty.' : objection?.(answer);
    if (problem === undefined) return answer;
    complain(`${problem}\n`);
  }
}
