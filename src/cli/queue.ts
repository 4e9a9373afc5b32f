/** `postern queue …`, `inbound …`, `explain` and `trace`: the operator's view of the mail. */
import { mailLog, queue } from '../contract/queue.ts';
import type { AnswerOf } from '../contract/route.ts';
import {
  readAnswer,
  isConfirmed,
  EXIT,
  queryOf,
  run,
  UsageError,
  shortTime,
  writeJson,
  type CommandOptions,
} from './run.ts';
import type { PageFlags, TimeRangeFlags } from './commands/options.ts';
import { type Terminal, printable } from './terminal.ts';

import { writePage, table } from './output.ts';

/** Which deliveries. */
export interface Filter {
  readonly state?: string | undefined;
  readonly domain?: string | undefined;
  readonly tenant?: string | undefined;
  readonly sender?: string | undefined;
  readonly olderThan?: string | undefined;
}

export interface ListFilter extends PageFlags, Filter {}

/** One message, delivery or destination, or all deliveries that match. */
export interface QueueSelection extends Filter {
  readonly what?: string | undefined;
  readonly dryRun: boolean;
  readonly yes: boolean;
}

export type Verb = 'retry' | 'cancel' | 'hold' | 'release';

/** Lists deliveries, newest first. Returns the exit code, as all of these do. */
export function queueList(options: CommandOptions, { olderThan, ...filter }: ListFilter): Promise<number> {
  return run(options, async ({ client, terminal, json }) => {
    const data = await client.get(`/admin/queue${queryOf({ ...filter, older_than: olderThan })}`);
    if (json) return writeJson(terminal, data);
    const { deliveries, ...page } = readAnswer(queue.list, data);
    const rows = deliveries.map((row) => [
      row.id,
      row.state,
      String(row.attempts),
      blockedBy(row) ?? shortTime(row.next_attempt_at),
      row.recipient,
      row.last_reply ?? '',
    ]);
    const headings = ['DELIVERY', 'STATE', 'ATTEMPTS', 'NEXT ATTEMPT', 'RECIPIENT', 'LAST REPLY'];
    writePage(terminal, { headings, rows }, { ...page, nothing: 'No matching deliveries.' });
  });
}

/** Shows a message, by its id or a delivery's, with every attempt. */
export function queueShow(options: CommandOptions, id: string): Promise<number> {
  return run(options, async ({ client, terminal, json }) => {
    const data = await client.get(`/admin/queue/${encodeURIComponent(id)}`);
    if (json) return writeJson(terminal, data);
    const { message, deliveries } = readAnswer(queue.show, data);
    terminal.write(`${message.id}  ${message.kind} of ${message.domain}\n`);
    if (message.submission !== null) terminal.write(`submission  ${message.submission}\n`);
    terminal.write(`accepted    ${shortTime(message.created_at)}, expires ${shortTime(message.expires_at)}\n`);
    if (message.size > 0) terminal.write(`size        ${message.size} bytes\n`);
    for (const { tries, ...row } of deliveries) {
      terminal.write(`\n${row.id}  ${printable(row.recipient)}  ${row.state}${nextText(row)}\n`);
      if (tries.length === 0 && row.last_reply !== null) terminal.write(`  ${printable(row.last_reply)}\n`);
      const rows = tries.map((attempt) => [
        `  ${attempt.number}`,
        shortTime(attempt.at),
        attempt.outcome,
        [attempt.host, attempt.address].filter((part) => part !== null).join(' '),
        attempt.tls ?? 'clear',
        attempt.reply,
      ]);
      if (rows.length > 0)
        terminal.write(table(['  ATTEMPT', 'AT', 'OUTCOME', 'HOST', 'TLS', 'REPLY'], rows, terminal.width));
    }
  });
}

/** For what it waits beside its next try. */
function blockedBy({
  state,
  held,
  suspended,
}: AnswerOf<typeof queue.list>['deliveries'][number]): 'held' | 'suspended' | undefined {
  if (state !== 'queued' && state !== 'deferred') return undefined;
  if (held) return 'held';
  return suspended ? 'suspended' : undefined;
}

function nextText(row: AnswerOf<typeof queue.list>['deliveries'][number]): string {
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

const SINGLE: Readonly<Record<Verb, (options: CommandOptions, what: string) => Promise<number>>> = {
  retry: (options, id) => changeMessage(options, { id, verb: 'retry', done: 'due now' }),
  cancel: (options, id) => changeMessage(options, { id, verb: 'cancel', done: 'cancelled' }),
  hold: (options, domain) => changeDestination(options, domain, 'hold'),
  release: (options, domain) => changeDestination(options, domain, 'release'),
};

/** Does it to one message or delivery (`retry`, `cancel`) or destination (`hold`, `release`), or to all that match. */
export function queueAct(
  options: CommandOptions,
  verb: Verb,
  { what, dryRun, yes, ...filter }: QueueSelection,
): Promise<number> {
  const isFiltered = Object.values(filter).some((value) => value !== undefined);
  if ((what === undefined) !== isFiltered || (what !== undefined && dryRun)) {
    throw new UsageError(
      `Specify what to ${verb}, or a filter: --tenant, --domain, --sender, --older-than or --state.`,
    );
  }
  return what === undefined ? actOnMany(options, verb, { filter, dryRun, yes }) : SINGLE[verb](options, what);
}

const DONE: Readonly<Record<Verb, string>> = {
  retry: 'due now',
  cancel: 'cancelled',
  hold: 'held',
  release: 'released',
};

const QUESTION: Readonly<Record<Verb, string>> = {
  retry: 'Retry',
  cancel: 'Cancel',
  hold: 'Hold',
  release: 'Release',
};

interface Many {
  readonly filter: Filter;
  readonly dryRun: boolean;
  readonly yes: boolean;
}

function actOnMany(options: CommandOptions, verb: Verb, { filter, dryRun, yes }: Many): Promise<number> {
  const { olderThan, ...rest } = filter;
  const body = { action: verb, filter: { ...rest, older_than: olderThan } };
  return run(options, async ({ client, terminal, json }) => {
    if (!yes || dryRun) {
      const data = await client.post('/admin/queue/actions', { ...body, dry_run: true });
      const { count } = readAnswer(queue.act, data);
      if (dryRun && json) return writeJson(terminal, data);
      if (dryRun) return terminal.write(`${deliveries(count)} would be ${DONE[verb]}\n`);
      if (count > 1 && !(await isConfirmed(terminal, `${QUESTION[verb]} ${deliveries(count)}?`, yes)))
        return EXIT.failed;
    }
    const path = '/admin/queue/actions';
    const { data } = await client.ask({ method: 'POST', path, body, idleMs: PATIENCE_MS });
    if (json) return writeJson(terminal, data);
    const { count, in_progress: inProgress } = readAnswer(queue.act, data);
    terminal.write(`${deliveries(count)} ${DONE[verb]}\n`);
    if (inProgress > 0) terminal.writeError(`${deliveries(inProgress)} skipped: a delivery attempt is in progress.\n`);
  });
}

function deliveries(count: number): string {
  return count === 1 ? '1 delivery' : `${count} deliveries`;
}

function changeMessage(
  options: CommandOptions,
  what: { id: string; verb: 'retry' | 'cancel'; done: string },
): Promise<number> {
  return run(options, async ({ client, terminal, json }) => {
    const data = await client.post(`/admin/queue/${encodeURIComponent(what.id)}/${what.verb}`);
    if (json) return writeJson(terminal, data);
    const { deliveries, held } = readAnswer(queue.retry, data);
    for (const id of deliveries) terminal.write(`${id} ${what.done}\n`);
    if (what.verb === 'cancel') return;
    for (const name of held)
      terminal.writeError(`Mail to ${name} is held. To release it, run: postern queue release ${name}\n`);
  });
}

function changeDestination(options: CommandOptions, domain: string, verb: 'hold' | 'release'): Promise<number> {
  return run(options, async ({ client, terminal, json }) => {
    const data = await client.post(`/admin/queue/${verb}`, { domain });
    if (json) return writeJson(terminal, data);
    const { destination, held } = readAnswer(queue.hold, data);
    terminal.write(held ? `Holding mail to ${destination}\n` : `Released mail to ${destination}\n`);
  });
}

export interface InboundFilter extends PageFlags, TimeRangeFlags {
  readonly outcome?: string | undefined;
  readonly domain?: string | undefined;
  readonly reason?: string | undefined;
}

/** Lists what was said of each recipient, newest first. Returns the exit code. */
export function inboundList(options: CommandOptions, filter: InboundFilter): Promise<number> {
  return run(options, async ({ client, terminal, json }) => {
    const data = await client.get(`/admin/inbound${queryOf(filter)}`);
    if (json) return writeJson(terminal, data);
    const { inbound, ...page } = readAnswer(mailLog.inbound, data);
    const rows = inbound.map(({ at, outcome, reason, ip, sender, recipient, reply }) => [
      shortTime(at),
      outcome,
      reason,
      ip,
      sender === '' ? '<>' : sender,
      recipient === '' ? '-' : recipient,
      reply,
    ]);
    const headings = ['AT', 'OUTCOME', 'REASON', 'FROM', 'SENDER', 'RECIPIENT', 'REPLY'];
    writePage(terminal, { headings, rows }, { ...page, nothing: 'No matching mail.' });
  });
}

type Step = AnswerOf<typeof mailLog.explain>['steps'][number];

const HEADINGS: ReadonlyMap<string, string> = new Map([
  ['inbound', 'Mail received for'],
  ['outbound', 'Mail sent to'],
  ['form', 'Submission to'],
]);

/** Explains an address or a form. Answers 1 where something on the way stops the mail. */
export function explain(options: CommandOptions, what: string): Promise<number> {
  return run(options, async ({ client, terminal, json }) => {
    const data = await client.get(`/admin/explain${queryOf({ what })}`);
    const { kind, steps, ...explained } = readAnswer(mailLog.explain, data);
    if (json) writeJson(terminal, data);
    else {
      terminal.write(`${HEADINGS.get(kind) ?? kind} ${printable(explained.what)}\n`);
      writeSteps(terminal, steps);
    }
    return steps.some(({ verdict }) => verdict === 'stop') ? EXIT.failed : EXIT.done;
  });
}

/** Steps about one recipient are grouped under its address. */
function writeSteps({ write, style }: Terminal, steps: readonly Step[]): void {
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

/** Shows what happened, oldest first. */
export function trace(options: CommandOptions, id: string): Promise<number> {
  return run(options, async ({ client, terminal, json }) => {
    const data = await client.get(`/admin/trace/${encodeURIComponent(id)}`);
    if (json) return writeJson(terminal, data);
    const { request, submission, messages, timeline } = readAnswer(mailLog.trace, data);
    const { write, style } = terminal;
    for (const [name, ids] of Object.entries({ request, submission, messages: messages.join(' ') }))
      if (ids) write(`${name.padEnd(10)}  ${ids}\n`);
    write('\n');
    for (const entry of timeline) {
      const step = entry.step === 'waits' ? style('yellow', 'waits    ') : entry.step.padEnd(9);
      write(`${style('dim', entry.at)}  ${step}  ${printable(entry.text)}\n`);
      write(`${' '.repeat(37)}${style('dim', entry.id)}\n`);
    }
  });
}
