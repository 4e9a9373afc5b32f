/** `postern queue …`, `inbound …`, `explain` and `trace`: the operator's view of the mail. */
import { mailLog, queue as routes } from '../contract/queue.ts';
import type { AnswerOffline } from '../contract/offline.ts';
import type { AnswerOf } from '../contract/route.ts';
import type { CliCommand } from './command.ts';
import { counted, listing, localTime, print, shortTime, showing, table, writeJson } from './output.ts';
import { EXIT, isConfirmed, type Api } from './run.ts';
import { UsageError } from './client.ts';
import { printable } from '../lib/printable.ts';
import type { Terminal } from './terminal.ts';

const STATES = ['queued', 'sending', 'deferred', 'delivered', 'bounced', 'expired', 'cancelled', 'suppressed'];
const MESSAGE = ['<id>', 'ID of a message (msg_…) or delivery (dlv_…, whd_…)'] as const;

const ONE_MESSAGE = ['[id]', MESSAGE[1]] as const;
const ONE_DESTINATION = ['[domain]', 'Destination domain, or a webhook (whk_…)'] as const;

/** What is done to deliveries; `does` says what the example does. */
export const VERBS = [
  {
    verb: 'retry',
    argument: ONE_MESSAGE,
    description: 'Retry the undelivered recipients of a message, or all matching deliveries, now',
    does: 'All deliveries of an account that have been queued for over two hours',
    done: 'due now',
  },
  {
    verb: 'cancel',
    argument: ONE_MESSAGE,
    description: 'Cancel the undelivered recipients of a message, or all matching deliveries',
    does: 'All deliveries of an account that have been queued for over two hours',
    done: 'cancelled',
  },
  {
    verb: 'hold',
    argument: ONE_DESTINATION,
    description: 'Hold all mail to a domain, or all matching deliveries',
    does: 'An account’s deliveries queued for over two hours. New mail is not held',
    done: 'held',
  },
  {
    verb: 'release',
    argument: ONE_DESTINATION,
    description: 'Release held mail',
    does: 'Held deliveries of an account',
    done: 'released',
  },
] as const;

type Verb = (typeof VERBS)[number];

/** Adds `queue …`, `inbound …`, `explain` and `trace`. */
export function addCommands(program: CliCommand, { answerOffline }: { readonly answerOffline: AnswerOffline }): void {
  const queue = program.command('queue').description('Show and manage the delivery queue');
  filtered(queue.command('list'), STATES)
    .description('List deliveries, newest first. If the daemon is not running, they are read from its database')
    .pages()
    .example('queue list --state deferred', 'Deferred deliveries and the reason')
    .operator(
      listing(routes.list, {
        rows: ({ deliveries }) => deliveries,
        columns: {
          DELIVERY: 'id',
          STATE: 'state',
          ATTEMPTS: 'attempts',
          'NEXT ATTEMPT': (row) => blockedBy(row) ?? row.next_attempt_at,
          RECIPIENT: 'recipient',
          'LAST REPLY': ({ last_reply }) => last_reply ?? '',
        },
        note: ({ relay }) =>
          relay === null
            ? undefined
            : `The smarthost is paused until ${shortTime(relay.paused_until)} after ${counted(relay.failures, 'failure')}: ${relay.last_error}`,
        nothing: 'No matching deliveries.',
      }),
      answerOffline,
    );
  queue
    .command('show')
    .argument(...MESSAGE)
    .description('Show a message with all recipients and delivery attempts, even if the daemon is not running')
    .operator(showing(routes.show, writeMessage), answerOffline);
  for (const verb of VERBS) {
    filtered(queue.command(verb.verb), ['queued', 'deferred'])
      .argument(verb.argument[0], verb.argument[1])
      .description(verb.description)
      .option('--dry-run', 'Only count the matching deliveries', false)
      .confirmed()
      .example(`queue ${verb.verb} --tenant ten_… --older-than 2h`, verb.does)
      .operator((api, what: string | undefined, flags: Selection) => act(api, verb, { ...flags, what }));
  }
  program
    .command('inbound')
    .description('Show received and rejected mail')
    .command('list')
    .description('List accepted, rejected and deferred recipients, newest first')
    .choice('--outcome <outcome>', 'Only this outcome', ['accepted', 'rejected', 'deferred'])
    .option('--domain <domain>', 'Only this domain')
    .option('--reason <reason>', 'Only this reason, such as unknown_recipient')
    .timeRange()
    .pages()
    .example('inbound list --outcome rejected --from 2026-01-31', 'Mail rejected since a date')
    .operator(
      listing(mailLog.inbound, {
        rows: ({ inbound }) => inbound,
        columns: {
          AT: 'at',
          OUTCOME: 'outcome',
          REASON: 'reason',
          FROM: 'ip',
          SENDER: ({ sender }) => sender || '<>',
          RECIPIENT: ({ recipient }) => recipient || '-',
          REPLY: 'reply',
        },
        nothing: 'No matching mail.',
      }),
    );
  program
    .command('explain')
    .summary('Explain how mail would be handled')
    .argument('<what>', 'An address, or a form: example.com/contact, c/team/join, frm_…')
    .description('Explain step by step how mail would be handled. Exits with 1 if it would not be delivered')
    .example('explain hello+news@example.com', 'Which forwarding rule matches, and where the mail goes')
    .example('explain example.com/contact', 'Recipients, DKIM key and MX hosts of a form')
    .operator(explain);
  program
    .command('trace')
    .summary('Trace a request or message')
    .argument('<id>', 'ID of a request (X-Request-Id), submission, message, delivery, event or received message')
    .description('Trace a request or message from its arrival to the last SMTP reply')
    .example('trace req_01k9xvcz2m4d7e8f9g0h1j2k3m', 'Trace a request')
    .operator(showing(mailLog.trace, writeTrace), answerOffline);
}

function filtered(command: CliCommand, states: readonly string[]): CliCommand {
  return command
    .choice('--state <state>', 'Only this state', states)
    .option('--tenant <id>', 'Only this account')
    .option('--domain <domain>', 'Only this destination domain or webhook')
    .option('--sender <domain>', 'Only mail sent from this domain')
    .option('--project <slug>', 'Only mail sent from the domains of this project (of --tenant, or your own)')
    .option('--older-than <duration>', 'Only mail queued for longer than this, such as 2h or 3d');
}

/** Writes a message with every attempt. */
function writeMessage({ message, deliveries }: AnswerOf<typeof routes.show>, { write, width }: Terminal): void {
  write(`${message.id}  ${message.kind} from ${message.domain}\n`);
  if (message.submission !== null) write(`submission  ${message.submission}\n`);
  write(`accepted    ${shortTime(message.created_at)}, expires ${shortTime(message.expires_at)}\n`);
  if (message.size > 0) write(`size        ${message.size} bytes\n`);
  for (const { tries, ...row } of deliveries) {
    write(`\n${row.id}  ${printable(row.recipient)}  ${row.state}${nextText(row)}\n`);
    if (tries.length === 0 && row.last_reply !== null) write(`  ${printable(row.last_reply)}\n`);
    const rows = tries.map((attempt) => [
      `  ${attempt.number}`,
      shortTime(attempt.at),
      attempt.outcome,
      [attempt.host, attempt.address].filter((part) => part !== null).join(' '),
      tlsText(attempt),
      attempt.reply,
    ]);
    if (rows.length > 0) write(table(['  ATTEMPT', 'AT', 'OUTCOME', 'HOST', 'TLS', 'REPLY'], rows, width));
  }
}

type Attempt = AnswerOf<typeof routes.show>['deliveries'][number]['tries'][number];

function tlsText({ tls, tls_policy, tls_result }: Attempt): string {
  const policy = tls_policy === null ? '' : ` (${tls_policy}: ${tls_result ?? 'not reached'})`;
  return `${tls ?? 'clear text'}${policy}`;
}

type Delivery = AnswerOf<typeof routes.list>['deliveries'][number];

/** For what it waits beside its next attempt. */
function blockedBy({ state, held, suspended }: Delivery): 'held' | 'suspended' | undefined {
  if (state !== 'queued' && state !== 'deferred') return undefined;
  if (held) return 'held';
  return suspended ? 'suspended' : undefined;
}

function nextText(row: Delivery): string {
  const reason = blockedBy(row);
  if (reason === 'suspended') return ', waiting until its account is resumed';
  if (reason === 'held') {
    // A delivery that is held by itself has no next attempt.
    const how = row.next_attempt_at === null ? `--domain ${row.destination}` : row.destination;
    return `, held; to release it, run: postern queue release ${how}`;
  }
  return row.next_attempt_at === null ? '' : `, next attempt ${shortTime(row.next_attempt_at)}`;
}

/** How long hundreds of thousands of deliveries may take: a little less than the daemon leaves a connection idle. */
const PATIENCE_MS = 115_000;

/** One message, delivery or destination, or all deliveries that match. */
interface Selection {
  readonly what?: string | undefined;
  readonly state?: string | undefined;
  readonly domain?: string | undefined;
  readonly tenant?: string | undefined;
  readonly sender?: string | undefined;
  readonly project?: string | undefined;
  readonly olderThan?: string | undefined;
  readonly dryRun: boolean;
  readonly yes: boolean;
}

/** Does it to one message or delivery (`retry`, `cancel`) or destination (`hold`, `release`), or to all that match. */
export async function act(api: Api, verb: Verb, selection: Selection): Promise<number | void> {
  const { what, dryRun, yes, state, domain, tenant, sender, project, olderThan } = selection;
  const filter = { state, domain, tenant, sender, project, older_than: olderThan };
  const isFiltered = Object.values(filter).some((value) => value !== undefined);
  if ((what === undefined) !== isFiltered || (what !== undefined && dryRun))
    throw new UsageError(
      `Specify what to ${verb.verb}, or a filter: --tenant, --project, --domain, --sender, --older-than or --state.`,
    );
  if (what !== undefined) return actOnOne(api, verb, what);
  const { client, terminal, json } = api;
  const body = { action: verb.verb, filter };
  if (!yes || dryRun) {
    const { data, read } = await client.ask({ route: routes.act, body: { ...body, dry_run: true } });
    const deliveries = counted(read().count, 'delivery');
    if (dryRun && json) return writeJson(terminal, data);
    if (dryRun) return terminal.write(`${deliveries} would be ${verb.done}\n`);
    const question = `${verb.verb.replace(/^./, (first) => first.toUpperCase())} ${deliveries}?`;
    if (read().count > 1 && !(await isConfirmed(terminal, question, yes))) return EXIT.failed;
  }
  return print(api, { route: routes.act, body, idleMs: PATIENCE_MS }, ({ count, in_progress: inProgress }) => {
    terminal.write(`${counted(count, 'delivery')} ${verb.done}\n`);
    if (inProgress > 0)
      terminal.writeError(`${counted(inProgress, 'delivery')} skipped: a delivery attempt is in progress.\n`);
  });
}

function actOnOne(api: Api, { verb, done }: Verb, what: string): Promise<number | void> {
  const { write, writeError } = api.terminal;
  switch (verb) {
    case 'retry':
    case 'cancel':
      return print(api, { route: routes[verb], params: { id: what } }, ({ deliveries, held }) => {
        for (const id of deliveries) write(`${id} ${done}\n`);
        for (const name of verb === 'retry' ? held : [])
          writeError(`Mail to ${name} is held. To release it, run: postern queue release ${name}\n`);
      });
    case 'hold':
    case 'release':
      return print(api, { route: routes[verb], body: { domain: what } }, ({ destination, held }) =>
        write(held ? `Holding mail to ${destination}\n` : `Released mail to ${destination}\n`),
      );
  }
}

const HEADINGS: ReadonlyMap<string, string> = new Map([
  ['inbound', 'Mail received for'],
  ['outbound', 'Mail sent to'],
  ['form', 'Submission to'],
]);

/** Explains an address or a form. Answers 1 where something on the way stops the mail. */
async function explain({ client, terminal, json }: Api, what: string): Promise<number> {
  const { data, read } = await client.ask({ route: mailLog.explain, query: { what } });
  const { kind, steps, ...explained } = read();
  if (json) writeJson(terminal, data);
  else {
    terminal.write(`${HEADINGS.get(kind) ?? kind} ${printable(explained.what)}\n`);
    writeSteps(terminal, steps);
  }
  return steps.some(({ verdict }) => verdict === 'stop') ? EXIT.failed : EXIT.done;
}

/** Steps about one recipient are grouped under its address. */
function writeSteps({ write, style }: Terminal, steps: AnswerOf<typeof mailLog.explain>['steps']): void {
  let about: string | undefined;
  for (const step of steps) {
    if (step.about !== about) {
      about = step.about;
      if (about !== undefined) write(`\n${style('bold', `to ${printable(about)}`)}\n`);
    }
    const [first = '', ...more] = step.found.split('\n').map(printable);
    const [mark, colour] = MARKS.get(step.verdict) ?? OK;
    write(`${style(colour, mark)} ${step.step.replaceAll('_', ' ').padEnd(14)}  ${first}\n`);
    for (const line of more) write(`${INDENT}${line}\n`);
    write(`${INDENT}${style('dim', `(${printable(step.because)})`)}\n`);
  }
}

const INDENT = ' '.repeat(18);
type Mark = readonly [sign: string, colour: 'green' | 'yellow' | 'red'];
const OK: Mark = ['+', 'green'];
const MARKS: ReadonlyMap<string, Mark> = new Map<string, Mark>([
  ['warning', ['!', 'yellow']],
  ['stop', ['x', 'red']],
]);

/** Writes what happened, oldest first. */
function writeTrace(traced: AnswerOf<typeof mailLog.trace>, { write, style }: Terminal): void {
  const { request, submission, messages, timeline } = traced;
  for (const [name, ids] of Object.entries({ request, submission, messages: messages.join(' ') }))
    if (ids) write(`${name.padEnd(10)}  ${ids}\n`);
  write('\n');
  for (const entry of timeline) {
    const step = entry.step === 'waits' ? style('yellow', 'waits    ') : entry.step.padEnd(9);
    const at = localTime(entry.at);
    write(`${style('dim', at)}  ${step}  ${printable(entry.text)}\n`);
    write(`${' '.repeat(at.length + 13)}${style('dim', entry.id)}\n`);
  }
}
