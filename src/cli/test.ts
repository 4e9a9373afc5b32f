/** `postern test …`: checks the local project, optionally against a server, and sends test messages. */
import { emails } from '../contract/email.ts';
import { forms } from '../contract/forms.ts';
import { keys } from '../contract/keys.ts';
import type { AnswerOf } from '../contract/route.ts';
import { readAnswer, EXIT, queryOf, run, writeJson, type CommandOptions, poll, shortTime, UsageError } from './run.ts';
import { writtenProject } from '../config/diff.ts';
import { formatProblem } from '../config/problem.ts';
import type { ProjectConfig } from '../config/schema.ts';
import { RequestRefused, type Client } from './client.ts';
import { everyDomain } from './dns-records.ts';
import { planOf, type Plan } from './projects.ts';
import { planLines } from './plan-text.ts';
import { readLocalProject, type LocalProject, formsIn, validProject } from './local-project.ts';

import { counted } from './output.ts';
import { printable, type Terminal } from './terminal.ts';

import { formatMailbox } from '../lib/addresses.ts';
import { TemplateRenderError } from '../templates/template.ts';
import { findForm, placeOf, previewOf } from './templates.ts';

export interface TestConfigOptions {
  readonly where: string | undefined;
  readonly json: boolean;
  /** The server to check as well (`--check-api`). */
  readonly api: CommandOptions | undefined;
}

/** The result of one check; a note is something left to do, not an error. */
interface Check {
  readonly check: 'key' | 'push' | 'domain' | 'form';
  readonly state: 'ok' | 'note' | 'failed';
  readonly message: string;
}

/** Writes every error and warning, and what the server says. Returns the exit code. */
export async function testConfig(terminal: Terminal, { where, json, api }: TestConfigOptions): Promise<number> {
  const project = await readLocalProject(terminal.folder, where);
  const { result } = project;
  if (!('ok' in result)) {
    report(terminal, project, { json, checks: [] });
    return EXIT.configuration;
  }
  if (api === undefined) {
    report(terminal, project, { json, checks: [] });
    return EXIT.done;
  }
  return run(api, async ({ client }) => {
    terminal.progress(`Checking ${client.address} …`);
    const checks = await checksOf(client, project, result.ok);
    terminal.progress('');
    report(terminal, project, { json, checks });
    return checks.some(({ state }) => state === 'failed') ? EXIT.failed : EXIT.done;
  });
}

function report(
  terminal: Terminal,
  { file, result }: Pick<LocalProject, 'file' | 'result'>,
  { json, checks }: { readonly json: boolean; readonly checks: readonly Check[] },
): void {
  const { write, style } = terminal;
  const { warnings } = result;
  const errors = 'ok' in result ? [] : result.errors;
  if (json) return writeJson(terminal, { file, valid: errors.length === 0, errors, warnings, checks });
  for (const error of errors) write(`${formatProblem(error)}\n`);
  for (const warning of warnings) write(`${style('yellow', 'warning:')} ${formatProblem(warning)}\n`);
  write(`${file}: ${counted(errors.length, 'error')}, ${counted(warnings.length, 'warning')}\n`);
  for (const { state, message } of checks) write(`${style(COLOURS[state], state.padEnd(6))}  ${printable(message)}\n`);
}

const COLOURS = { ok: 'green', note: 'yellow', failed: 'red' } as const;

/** Each check builds on the one before: without a valid key no other can be made. */
async function checksOf(client: Client, project: LocalProject, config: ProjectConfig): Promise<Check[]> {
  const refusals = await attempted('key', async () => {
    const { key, tenant } = readAnswer(keys.status, await client.get('/auth/status'));
    return keyChecks(key, tenant.name, client.address);
  });
  if (!Array.isArray(refusals) || refusals.some(({ state }) => state === 'failed')) return [refusals].flat();
  let plan: Plan | undefined;
  const { slug } = config.project;
  const pushing = await attempted('push', async () => {
    plan = await planOf({ client, slug, bundle: project });
    const count = planLines(plan.changes, writtenProject(config)).length;
    return count === 0
      ? [{ check: 'push', state: 'ok', message: `${slug} is deployed and up to date` } as const]
      : [
          {
            check: 'push',
            state: 'ok',
            message: `postern push would deploy ${counted(count, 'change')}`,
          } as const,
        ];
  });
  const isPushed = plan !== undefined && plan.changes.length === 0 && plan.revision !== null;
  let states: DomainStates = new Map();
  const domains = await attempted('domain', async () => {
    states = new Map((await everyDomain(client)).map(({ domain, status: state }) => [domain, state]));
    return domainChecks(config, states);
  });
  const forms = await attempted('form', () => formChecks(client, config, { isPushed, states }));
  return [refusals, pushing, domains, forms].flat();
}

/** What it answers; a refusal is a check that failed, unless the key may push and only not look at this. */
async function attempted(check: Check['check'], work: () => Promise<Check[]>): Promise<Check[]> {
  try {
    return await work();
  } catch (error) {
    if (!(error instanceof RequestRefused)) throw error;
    const { code, details } = error.refused;
    if (code === 'AUTH_FORBIDDEN' && (check === 'domain' || check === 'form'))
      return [{ check, state: 'note', message: `this API key cannot read ${check}s` }];
    const places = details.map(({ path, message }) => `${path === '' ? '' : `${path}: `}${message}`);
    return [{ check, state: 'failed', message: [error.message, ...(places.length > 1 ? places : [])].join(' ') }];
  }
}

function keyChecks(key: AnswerOf<typeof keys.status>['key'], tenant: string, address: string): Check[] {
  if (key === null) return [{ check: 'key', state: 'ok', message: `connected to ${address} as the operator` }];
  const { name, permissions, environment, last4 } = key;
  const known: Check = {
    check: 'key',
    state: 'ok',
    message: `connected to ${address} with the API key ${name} (…${last4}) of ${tenant}`,
  };
  const lacking: Check = {
    check: 'key',
    state: 'failed',
    message: 'the API key lacks the permission projects.write, which postern push needs',
  };
  const captured: Check = {
    check: 'key',
    state: 'note',
    message: 'this is a test key: its mail is captured, not delivered',
  };
  return [
    known,
    ...(permissions.includes('projects.write') ? [] : [lacking]),
    ...(environment === 'test' ? [captured] : []),
  ];
}

/** Of the account's domains, by name. */
type DomainStates = ReadonlyMap<string, string>;

function domainChecks({ domains }: ProjectConfig, states: DomainStates): Check[] {
  return Object.keys(domains).map((name): Check => {
    const state = states.get(name);
    switch (state) {
      case 'verified':
        return { check: 'domain', state: 'ok', message: `${name} is verified` };
      case undefined:
        return { check: 'domain', state: 'note', message: `${name} does not exist yet; to add it, run: postern push` };
      case 'pending':
        return {
          check: 'domain',
          state: 'note',
          message: `${name} is pending; to see the DNS records to add, run: postern domains setup ${name}`,
        };
      default:
        return {
          check: 'domain',
          state: 'failed',
          message: `${name} is ${state}: required DNS records are missing; to see them, run: postern domains setup ${name}`,
        };
    }
  });
}

async function formChecks(
  client: Client,
  config: ProjectConfig,
  { isPushed, states }: { readonly isPushed: boolean; readonly states: DomainStates },
): Promise<Check[]> {
  const wanted = formsIn(config);
  if (wanted.length === 0) return [];
  const there = new Set<string>();
  for (let cursor: string | undefined; ;) {
    const page = readAnswer(forms.list, await client.get(`/forms${queryOf({ limit: 200, cursor })}`));
    for (const { id } of page.forms) there.add(id);
    if (page.next_cursor === null) break;
    cursor = page.next_cursor;
  }
  return wanted.map(({ id, domain }): Check => {
    if (there.has(id)) return { check: 'form', state: 'ok', message: `form ${id} is active` };
    // Another account's domain of the same name may be the verified one: its forms are served then.
    if (isPushed && domain !== undefined && states.get(domain) === 'pending')
      return { check: 'form', state: 'note', message: `form ${id} is inactive until ${domain} is verified` };
    return isPushed
      ? { check: 'form', state: 'failed', message: `form ${id} does not exist although its project is deployed` }
      : { check: 'form', state: 'note', message: `form ${id} does not exist yet; to add it, run: postern push` };
  });
}

export interface SendOptions {
  /** Who gets it. */
  readonly to: string;
  /** Sender, a mail address with a name or without. */
  readonly from?: string | undefined;
  /** Domain that it is sent as. */
  readonly domain?: string | undefined;
  /** Form of this folder's project whose notification it is, with a sample submission. */
  readonly form?: string | undefined;
  readonly wait: boolean;
  /** s */
  readonly timeout: number;
}

type Shown = AnswerOf<typeof emails.show>;

/** Between two looks, ms. */
const MAX_POLL_INTERVAL_MS = 5000;
const WAITING = new Set(['scheduled', 'queued', 'sending', 'deferred']);
const ARRIVED = new Set(['delivered', 'captured']);

/** Sends it, and tells how that went. Exit code 1 where it did not arrive, or not within the time. */
export function testSend(options: CommandOptions, given: SendOptions): Promise<number> {
  return run(options, async ({ client, terminal, json }) => {
    const { write, progress } = terminal;
    const mail = given.form === undefined ? plainMail(given) : await formMail(options, given, given.form);
    if (mail === undefined) return EXIT.configuration;
    const data = await client.post('/email/send', mail);
    const { id } = readAnswer(emails.send, data);
    if (!given.wait) {
      if (json) return writeJson(terminal, data);
      return write(`Queued ${id}. ${nextStep(id, client)}\n`);
    }
    const answer = await poll({
      ask: () => client.get(`/email/${id}`),
      isDone: (data) => !WAITING.has(readAnswer(emails.show, data).status),
      onWait: (data, left) =>
        progress(`${id} to ${given.to}: ${waitingText(readAnswer(emails.show, data))} (${left} s left)`),
      timeoutMs: given.timeout * 1000,
      maxIntervalMs: MAX_POLL_INTERVAL_MS,
    });
    progress('');
    const email = readAnswer(emails.show, answer);
    if (json) writeJson(terminal, answer);
    else {
      write(reportText(id, email, terminal.style));
      if (WAITING.has(email.status)) write(`Still queued. ${nextStep(id, client)}\n`);
    }
    return ARRIVED.has(email.status) ? EXIT.done : EXIT.failed;
  });
}

/** Only who is let in by the socket is an operator for certain. */
function nextStep(id: string, { key }: Client): string {
  return `To follow it, ${key === undefined ? `run: postern trace ${id}` : `call: GET /email/${id}`}`;
}

interface Mail {
  readonly to: string;
  readonly from?: string;
  readonly subject: string;
  readonly text: string;
  readonly html?: string;
}

function plainMail({ to, from, domain }: SendOptions): Mail {
  const sender = from ?? (domain === undefined ? undefined : `noreply@${domain}`);
  return {
    to,
    ...(sender === undefined ? {} : { from: sender }),
    subject: 'Test of Postern',
    text: 'This is a test message. Postern accepted it, signed it and delivered it to your mail server.\n',
  };
}

/** The notification of a form of the local project; undefined, with the errors printed, if the project is invalid. */
async function formMail({ terminal }: CommandOptions, given: SendOptions, id: string): Promise<Mail | undefined> {
  const project = await readLocalProject(terminal.folder, undefined);
  const config = validProject(project, terminal);
  if (config === undefined) return undefined;
  const form = findForm(formsIn(config), id);
  if (given.from === undefined && given.domain === undefined && form.domain === undefined) {
    throw new UsageError(`${form.id} sends from the domain of the server. Specify --from or --domain`);
  }
  try {
    const { from, subject, text, html } = previewOf({ config, name: form.config.template, form: form.id });
    const address = given.domain === undefined ? from.address : `forms@${given.domain}`;
    const sender = given.from ?? formatMailbox({ ...from, address });
    return { to: given.to, from: sender, subject, text, ...(html === null ? {} : { html }) };
  } catch (error) {
    if (!(error instanceof TemplateRenderError)) throw error;
    terminal.writeError(`${placeOf(error, project) ?? printable(error.message)}\n`);
    return undefined;
  }
}

function waitingText({ recipients, status }: Shown): string {
  const last = recipients[0]?.attempts.at(-1);
  return printable(last === undefined ? status : `${status}, ${last.host ?? 'no host'} replied: ${last.reply}`);
}

function reportText(id: string, email: Shown, style: CommandOptions['terminal']['style']): string {
  const { from, subject, recipients, status } = email;
  const lines = [`${id}  ${printable(subject)}  from ${printable(from)}`];
  for (const { address, state, reply, next_attempt_at: next, attempts } of recipients) {
    lines.push(`${printable(address)}  ${style(ARRIVED.has(state) ? 'green' : 'red', state)}`);
    for (const one of attempts) lines.push(`  ${attemptText(one)}`);
    if (attempts.length === 0 && reply !== null) lines.push(`  ${printable(reply)}`);
    if (WAITING.has(state)) lines.push(`  next attempt ${shortTime(next)}`);
  }
  if (status === 'captured')
    lines.push(`Sent with a test key: captured, not delivered. To see the message, call: GET /email/${id}/source`);
  return `${lines.join('\n')}\n`;
}

/** `2026-01-31T12:00:00Z  delivered  mx.example.org 192.0.2.1  TLSv1.3  250 2.0.0 Ok` */
function attemptText({
  at,
  outcome,
  host,
  address,
  tls,
  reply,
}: Shown['recipients'][number]['attempts'][number]): string {
  const server = [host, address].filter((part) => part !== null).join(' ');
  return printable(
    [shortTime(at), outcome, server, tls ?? 'clear text', reply].filter((part) => part !== '').join('  '),
  );
}
