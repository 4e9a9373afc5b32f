/** `postern test …`: checks the local project, optionally against a server, and sends test messages. */
import { writtenProject } from '../config/diff.ts';
import { formatProblem } from '../config/problem.ts';
import type { ProjectConfig } from '../config/schema.ts';
import { emails } from '../contract/email.ts';
import { forms } from '../contract/forms.ts';
import { keys } from '../contract/keys.ts';
import type { AnswerOf } from '../contract/route.ts';
import { formatMailbox } from '../lib/addresses.ts';
import { TemplateRenderError } from '../templates/template.ts';
import { everyPage, type Client, FilesRefused, RequestRefused, UsageError } from './client.ts';
import { timeoutOption, type ApiFlags, type CliCommand } from './command.ts';
import { everyDomain } from './dns-records.ts';
import { formsIn, readLocalProject, validProject, type LocalProject } from './local-project.ts';
import { counted, shortTime, writeJson } from './output.ts';
import { planLines } from './plan-text.ts';
import { planOf } from './projects.ts';
import { EXIT, poll, type Api } from './run.ts';
import { findForm, placeOf, previewOf } from './templates.ts';
import { printable } from '../lib/printable.ts';
import type { Terminal } from './terminal.ts';
import { domainName, mailAddress } from './values.ts';

/** Adds `test …`. */
export function addCommands(program: CliCommand): void {
  const { terminal, exit } = program.cli;
  const test = program.command('test').description('Test the configuration and mail delivery');
  const config = test
    .command('config')
    .argument('[path]', 'Project folder or file (default: the nearest postern.yml, here or in a parent folder)')
    .description('Check the project configuration')
    .option(
      '--check-api',
      'Also check API key, deployment, domains and forms on the server. Implied by --url and --config',
      false,
    )
    .example('test config --check-api', 'Check everything before `postern push`')
    .accountOptions()
    .action(async (where: string | undefined, flags: ApiFlags & { checkApi: boolean }) => {
      const isAsked = flags.checkApi || flags.url !== undefined || flags.config !== undefined;
      if (isAsked) return config.call(false, (api) => testConfig(terminal, { where, json: flags.json, api }));
      exit(await testConfig(terminal, { where, json: flags.json, api: undefined }));
    });
  test
    .command('send')
    .argument('<address>', 'Recipient', mailAddress)
    .description('Send a test message and show the reply of the receiving server. Exits with 1 if it is not delivered')
    .option('--from <address>', 'Sender address in a verified domain')
    .option('--domain <domain>', 'Domain to send from (default: the first verified domain)', domainName)
    .option('--form <id>', 'Send the notification of a sample submission to this form of the local project')
    .option('--no-wait', 'Do not wait for delivery')
    .addOption(timeoutOption().default(60).conflicts('wait'))
    .example('test send you@example.com', 'Check the delivery to your own inbox')
    .account((api, to: string, flags: Omit<SendOptions, 'to'>) => testSend(api, { ...flags, to }));
}

interface TestConfigOptions {
  readonly where: string | undefined;
  readonly json: boolean;
  /** The server to check as well (`--check-api`). */
  readonly api: Api | undefined;
}

/** The result of one check; a note is something left to do, not an error. */
interface Check {
  readonly check: 'key' | 'push' | 'domain' | 'form';
  readonly state: 'ok' | 'note' | 'failed';
  readonly message: string;
}

/** Writes every error and warning, and what the server says. Returns the exit code. */
async function testConfig(terminal: Terminal, { where, json, api }: TestConfigOptions): Promise<number> {
  const project = await readLocalProject(terminal.folder, where);
  const { file, result } = project;
  const { write, style, progress } = terminal;
  let checks: Check[] = [];
  if ('ok' in result && api !== undefined) {
    progress(`Checking ${api.client.address} …`);
    checks = await checksOf(api.client, project, result.ok);
    progress('');
  }
  const { warnings } = result;
  const errors = 'ok' in result ? [] : result.errors;
  if (json) writeJson(terminal, { file, valid: errors.length === 0, errors, warnings, checks });
  else {
    for (const error of errors) write(`${formatProblem(error)}\n`);
    for (const warning of warnings) write(`${style('yellow', 'warning:')} ${formatProblem(warning)}\n`);
    write(`${file}: ${counted(errors.length, 'error')}, ${counted(warnings.length, 'warning')}\n`);
    for (const { state, message } of checks)
      write(`${style(COLOURS[state], state.padEnd(6))}  ${printable(message)}\n`);
  }
  if (errors.length > 0) return EXIT.configuration;
  return checks.some(({ state }) => state === 'failed') ? EXIT.failed : EXIT.done;
}

const COLOURS = { ok: 'green', note: 'yellow', failed: 'red' } as const;

/** Each check builds on the one before: without a valid key no other can be made. */
async function checksOf(client: Client, project: LocalProject, config: ProjectConfig): Promise<Check[]> {
  const key = await attempted('key', () => keyChecks(client));
  if (key.some(({ state }) => state === 'failed')) return key;
  const { slug } = config.project;
  let isPushed = false;
  const push = await attempted('push', async () => {
    const { changes, revision } = await planOf(client, slug, project);
    isPushed = changes.length === 0 && revision !== null;
    const count = planLines(changes, writtenProject(config)).length;
    const difference = `postern push would deploy ${counted(count, 'change')}`;
    return [['ok', count === 0 ? `${slug} is deployed and up to date` : difference]];
  });
  let states: DomainStates = new Map();
  const domains = await attempted('domain', async () => {
    states = new Map((await everyDomain(client)).map(({ domain, status: state }) => [domain, state]));
    return domainChecks(config, states);
  });
  const ofForms = await attempted('form', () => formChecks(client, config, { isPushed, states }));
  return [...key, ...push, ...domains, ...ofForms];
}

/** State and message of a check. */
type Found = readonly [state: Check['state'], message: string];

/** What it answers; a refusal is a check that failed, unless the key may push and only not look at this. */
async function attempted(check: Check['check'], work: () => Promise<Found[]>): Promise<Check[]> {
  try {
    return (await work()).map(([state, message]) => ({ check, state, message }));
  } catch (error) {
    if (!(error instanceof RequestRefused)) throw error;
    const { code, details } = error.refused;
    if (code === 'AUTH_FORBIDDEN' && (check === 'domain' || check === 'form'))
      return [{ check, state: 'note', message: `this API key cannot read ${check}s` }];
    const places = details.map(({ path, message }) => `${path === '' ? '' : `${path}: `}${message}`);
    return [{ check, state: 'failed', message: [error.message, ...(places.length > 1 ? places : [])].join(' ') }];
  }
}

async function keyChecks(client: Client): Promise<Found[]> {
  const { key, tenant } = await client.call({ route: keys.status });
  if (key === null) return [['ok', `connected to ${client.address} as the operator`]];
  const { name, permissions, environment, last4 } = key;
  const what = `connected to ${client.address} with the API key ${name} (…${last4}) of ${tenant.name}`;
  const found: Found[] = [['ok', what]];
  if (!permissions.includes('projects.write'))
    found.push(['failed', 'the API key lacks the permission projects.write, which postern push needs']);
  if (environment === 'test') found.push(['note', 'this is a test key: its mail is captured, not delivered']);
  return found;
}

/** Of the account's domains, by name. */
type DomainStates = ReadonlyMap<string, string>;

function domainChecks({ domains }: ProjectConfig, states: DomainStates): Found[] {
  return Object.keys(domains).map((name): Found => {
    const state = states.get(name);
    switch (state) {
      case 'verified':
        return ['ok', `${name} is verified`];
      case undefined:
        return ['note', `${name} does not exist yet; to add it, run: postern push`];
      case 'pending':
        return ['note', `${name} is pending; to see the DNS records to add, run: postern domains setup ${name}`];
      default:
        return [
          'failed',
          `${name} is ${state}: required DNS records are missing; to see them, run: postern domains setup ${name}`,
        ];
    }
  });
}

async function formChecks(
  client: Client,
  config: ProjectConfig,
  { isPushed, states }: { readonly isPushed: boolean; readonly states: DomainStates },
): Promise<Found[]> {
  const wanted = formsIn(config);
  if (wanted.length === 0) return [];
  const pages = await everyPage(client, forms.list);
  const there = new Set(pages.flatMap((page) => page.forms.map(({ id }) => id)));
  return wanted.map(({ id, domain }): Found => {
    if (there.has(id)) return ['ok', `form ${id} is active`];
    // Another account's domain of the same name may be the verified one: its forms are served then.
    if (isPushed && domain !== undefined && states.get(domain) === 'pending')
      return ['note', `form ${id} is inactive until ${domain} is verified`];
    return isPushed
      ? ['failed', `form ${id} does not exist although its project is deployed`]
      : ['note', `form ${id} does not exist yet; to add it, run: postern push`];
  });
}

interface SendOptions {
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

const WAITING = new Set(['scheduled', 'queued', 'sending', 'deferred']);
const ARRIVED = new Set(['delivered', 'captured']);

/** Sends it, and tells how that went. Exit code 1 where it did not arrive, or not within the time. */
async function testSend(api: Api, given: SendOptions): Promise<number | void> {
  const { client, terminal, json } = api;
  const { write, progress } = terminal;
  const body = given.form === undefined ? plainMail(given) : await formMail(api, given, given.form);
  const sent = await client.ask({ route: emails.send, body });
  const { id } = sent.read();
  if (!given.wait) return json ? writeJson(terminal, sent.data) : write(`Queued ${id}. ${nextStep(id, client)}\n`);
  const { data, read } = await poll({
    ask: () => client.ask({ route: emails.show, params: { id } }),
    isDone: (answer) => !WAITING.has(answer.read().status),
    onWait: (answer, left) => progress(`${id} to ${given.to}: ${waitingText(answer.read())} (${left} s left)`),
    timeoutMs: given.timeout * 1000,
    maxIntervalMs: 5000,
  });
  progress('');
  const email = read();
  if (json) writeJson(terminal, data);
  else {
    write(reportText(id, email, terminal.style));
    if (WAITING.has(email.status)) write(`Still queued. ${nextStep(id, client)}\n`);
  }
  return ARRIVED.has(email.status) ? EXIT.done : EXIT.failed;
}

/** Only who is let in by the socket is an operator for certain. */
function nextStep(id: string, { key }: Client): string {
  return `To follow it, ${key === undefined ? `run: postern trace ${id}` : `call: GET /email/${id}`}`;
}

interface Mail {
  readonly to: string;
  readonly from: string | undefined;
  readonly subject: string;
  readonly text: string;
  readonly html?: string | undefined;
}

function plainMail({ to, from, domain }: SendOptions): Mail {
  return {
    to,
    from: from ?? (domain && `noreply@${domain}`),
    subject: 'Test message from Postern',
    text: 'This is a test message. Postern accepted it, signed it and delivered it to your mail server.\n',
  };
}

/** The notification of a form of the local project. Throws FilesRefused if the project is invalid. */
async function formMail({ terminal }: Api, given: SendOptions, id: string): Promise<Mail> {
  const project = await readLocalProject(terminal.folder, undefined);
  const config = validProject(project);
  const form = findForm(formsIn(config), id);
  if (given.from === undefined && given.domain === undefined && form.domain === undefined) {
    throw new UsageError(`${form.id} sends from the domain of the server. Specify --from or --domain`);
  }
  try {
    const { from, subject, text, html } = previewOf({ config, name: form.config.template, form: form.id });
    const address = given.domain === undefined ? from.address : `forms@${given.domain}`;
    const sender = given.from ?? formatMailbox({ ...from, address });
    return { to: given.to, from: sender, subject, text, html: html ?? undefined };
  } catch (error) {
    if (!(error instanceof TemplateRenderError)) throw error;
    throw new FilesRefused(placeOf(error, project) ?? error.message);
  }
}

function waitingText({ recipients, status }: Shown): string {
  const last = recipients[0]?.attempts.at(-1);
  return printable(last === undefined ? status : `${status}, ${last.host ?? 'no host'} replied: ${last.reply}`);
}

function reportText(id: string, email: Shown, style: Terminal['style']): string {
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
function attemptText(attempt: Shown['recipients'][number]['attempts'][number]): string {
  const { at, outcome, host, address, tls, reply } = attempt;
  const server = [host, address].filter((part) => part !== null).join(' ');
  const parts = [shortTime(at), outcome, server, tls ?? 'clear text', reply];
  return printable(parts.filter((part) => part !== '').join('  '));
}
