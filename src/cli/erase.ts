/** `postern erase <address>`: removes a person from everything that is kept, and says what it did. */
import { erasure as routes } from '../contract/erase.ts';
import type { AnswerOf } from '../contract/route.ts';
import type { CliCommand } from './command.ts';
import { counted, listed, writeFacts, writeJson } from './output.ts';
import { EXIT, isConfirmed, type Api } from './run.ts';
import { mailAddress } from './values.ts';

type Answer = AnswerOf<typeof routes.erase>;

interface Flags {
  readonly allAccounts: boolean;
  readonly dryRun: boolean;
  readonly yes: boolean;
}

/** One part may take the daemon so long, ms. */
const PATIENCE_MS = 300_000;

/** Adds `erase`. */
export function addCommands(program: CliCommand): void {
  program
    .command('erase')
    .argument('<address>', 'Email address of the person', mailAddress)
    .description(
      'Erase the data of a person: submissions with this address in a field, mail to it, copies of mail from it',
    )
    .option('--all-accounts', 'In all accounts on the server (requires the permission `admin`)', false)
    .option('--dry-run', 'Only show what would be erased', false)
    .confirmed()
    .example('erase ana@example.com --dry-run', 'See what is stored about a person')
    .account(erase);
}

/** Shows what there is, asks, and erases it. */
async function erase(api: Api, address: string, { allAccounts, dryRun, yes }: Flags): Promise<number | void> {
  const route = allAccounts ? routes.eraseAll : routes.erase;
  const found = await all(api, route, { address, dry_run: true });
  if (dryRun) return show(api, found);
  if (!yes) {
    if (!api.json) show(api, found);
    const question = `Erase all of the above for ${address}? This cannot be undone.`;
    if (!(await isConfirmed(api.terminal, question, false))) return EXIT.failed;
  }
  const erased = await all(api, route, { address, dry_run: false });
  show(api, erased);
  return erased.in_progress > 0 ? EXIT.failed : EXIT.done;
}

/** Repeats the request until all is looked through, and adds the numbers up. */
async function all(
  { client, terminal }: Api,
  route: typeof routes.erase | typeof routes.eraseAll,
  given: { readonly address: string; readonly dry_run: boolean },
): Promise<Answer> {
  let sum: Answer | undefined;
  let cursor: string | undefined;
  do {
    const body = { ...given, ...(cursor === undefined ? {} : { cursor }) };
    const answer = await client.call<string, Answer>({ route, body, idleMs: PATIENCE_MS });
    sum = sum === undefined ? answer : added(sum, answer);
    cursor = answer.next_cursor ?? undefined;
    terminal.progress(cursor === undefined ? '' : `searched up to ${cursor}`);
  } while (cursor !== undefined);
  return sum;
}

function added(one: Answer, other: Answer): Answer {
  const { erased } = one;
  return {
    ...other,
    erased: {
      submissions: erased.submissions + other.erased.submissions,
      files: erased.files + other.erased.files,
      messages: erased.messages + other.erased.messages,
      inbound: erased.inbound + other.erased.inbound,
      log_entries: erased.log_entries + other.erased.log_entries,
      consents: erased.consents + other.erased.consents,
      suppressions: erased.suppressions + other.erased.suppressions,
    },
    kept_as_hash: one.kept_as_hash + other.kept_as_hash,
    in_progress: one.in_progress + other.in_progress,
    configured: one.configured + other.configured,
    mentions: [...one.mentions, ...other.mentions],
  };
}

/** Prints what was erased, or would be, what stays, and what this does not reach. */
function show({ terminal, json }: Api, answer: Answer): void {
  if (json) return writeJson(terminal, answer);
  const { address, dry_run, erased, kept_as_hash, in_progress, configured, mentions, not_erased } = answer;
  const { write, style } = terminal;
  write(`${style('bold', `${dry_run ? 'Would erase' : 'Erased'} for ${address}`)}\n`);
  writeFacts(terminal, {
    submissions: `${erased.submissions}, with ${counted(erased.files, 'file')}`,
    mail: `${counted(erased.messages, 'message')} with queue entries and events`,
    'incoming mail': `${counted(erased.inbound, 'message')}, ${counted(erased.log_entries, 'log entry')}`,
    consents: String(erased.consents),
    suppressions: String(erased.suppressions),
  });
  const kept = [
    ...(kept_as_hash === 0 ? [] : [`${counted(kept_as_hash, 'entry')} that forbid mail to the address, as a hash`]),
    ...(configured === 0 ? [] : [`${counted(configured, 'message')} to the address as a configured recipient`]),
    ...(in_progress === 0 ? [] : [`${in_progress} being sent right now: run the command again later`]),
    ...(mentions.length === 0 ? [] : [`submissions that mention the address in a text: ${listed(mentions, 20)}`]),
  ];
  if (kept.length > 0) writeFacts(terminal, { kept });
  write(`\n${style('bold', 'Not covered')}\n`);
  for (const text of not_erased) write(`  ${text}\n`);
}
