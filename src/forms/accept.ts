/**
 * Accepting: everything that must survive is one durable unit, the submission, its files, the mail that it causes, and the
 * answer under an idempotency key. Before `accept` resolves it is on the disk; where it rejects nothing happened, unless
 * the error says that this is not known. A submission that is spam is kept the same way and causes no mail. Mail for
 * recipients that have not agreed to get it waits in the queue; until one of them has, the visitor gets none either.
 */
import type { Consent } from '../accounts/consent.ts';
import { type Limits, clientBucket } from '../accounts/rate-limits.ts';
import type { ServerConfig } from '../config/schema.ts';
import type { Form } from '../config/snapshot.ts';
import { canonicalMailbox, parseAddress } from '../lib/addresses.ts';
import type { Clock } from '../lib/clock.ts';
import { newId, counterOf } from '../lib/ids.ts';
import { cleanText } from '../mail/header.ts';
import { enqueue } from '../queue/enqueue.ts';
import { acknowledge, forgetAcknowledged, isRefused } from '../store/consents.ts';
import { recordEvent } from '../store/events.ts';
import type { Statement } from '../store/statement.ts';
import { UnmetError, writeNamed, type Store } from '../store/store.ts';
import { countSubmission, insertSubmission, insertFile, insertFileChunk } from '../store/submissions.ts';
import {
  type Control,
  type Field,
  emailOf,
  replyToOf,
  writeControl,
  writeFields,
  type AcknowledgmentSource,
  type NotificationSource,
} from './fields.ts';
import type { Upload } from './files.ts';
import type { SpamVerdict } from './spam/filter.ts';
import { countOverflow, overflow } from './overflow.ts';
import { routeOf } from '../config/forwarding.ts';
import { isSuppressed } from '../store/suppressions.ts';
import { senderAddress } from './form-mail.ts';

export interface Admitted {
  readonly form: Form;
  readonly fields: readonly Field[];
  readonly control: Control;
  readonly files: readonly Upload[];
  readonly spamVerdict: SpamVerdict;
  readonly ip: string;
  readonly userAgent: string;
  readonly referer: string;
  /** `req_…` */
  readonly request?: string | undefined;
  /** Of the key that it came with: mail of `test` is never delivered. `live` unless told. */
  readonly environment?: 'live' | 'test' | undefined;
  /** More for the unit, once the id is known: the answer under an idempotency key. Called again where the unit is tried again. */
  readonly also?: ((accepted: Accepted) => readonly Statement[]) | undefined;
}

export interface Accepted {
  readonly id: string;
  readonly status: 'accepted' | 'spam';
  /** It was one too many in this hour, which is no fault of the visitor's. */
  readonly isOverflow: boolean;
}

export interface AcceptOptions {
  readonly store: Store;
  readonly clock: Clock;
  readonly limits: Pick<Limits, 'take' | 'takePost'>;
  readonly consent: Pick<Consent, 'statuses' | 'ask'>;
  readonly config: () => ServerConfig;
  /** Tells the queue that there is something to do. */
  readonly wake: () => void;
}

const DAY = 86_400_000;
const MAX_HEADER_LENGTH = 1000;

/**
 * Commits the submission. Rejects with UnmetError only where the claim of an idempotency key in `also` was taken over, and
 * with StoreError where the database cannot write.
 */
export async function acceptSubmission(given: Admitted, options: AcceptOptions): Promise<Accepted> {
  const { store, clock, config, consent, wake, limits } = options;
  const { form } = given;
  const now = clock.now();
  const isSpam = given.spamVerdict.verdict === 'spam';
  const isOverflow = !isSpam && !(await limits.takePost({ id: counterOf(form), maxPerHour: form.maxPerHour })).allowed;
  const submission = isOverflow ? { ...given, spamVerdict: overflow(given.spamVerdict, form) } : given;
  const spam = isSpam || isOverflow;
  const accepted: Accepted = { id: newId('sub', now), status: spam ? 'spam' : 'accepted', isOverflow };
  const question = { tenant: form.tenant, addresses: form.to };
  const statuses = spam ? [] : [...(await consent.statuses(question)).values()];
  const visitor = statuses.includes('confirmed') ? await acknowledgeeOf(submission, options) : OFF;
  await commit(store, { submission, accepted, expire: config().delivery.expire, now }, visitor);
  if (!spam) wake();
  if (statuses.includes('pending') && submission.environment !== 'test') void consent.ask(question);
  return accepted;
}

/** Forgets acknowledgments that no longer count. */
export async function sweepAcknowledged({ store, clock }: Pick<AcceptOptions, 'store' | 'clock'>): Promise<void> {
  await store.write([forgetAcknowledged({ before: clock.now() - DAY })]);
}

interface Entry {
  readonly submission: Admitted;
  readonly accepted: Accepted;
  readonly expire: ServerConfig['delivery']['expire'];
  readonly now: number;
}

const OFF: Acknowledgee = { kind: 'off' };

async function commit(store: Store, entry: Entry, visitor: Acknowledgee): Promise<void> {
  try {
    await writeNamed(store, entry.accepted.id, unitOf(entry, visitor));
  } catch (error) {
    if (!(error instanceof UnmetError) || visitor.kind !== 'to') throw error;
    // The mailbox had its acknowledgment today: the submission counts all the same.
    const without = { kind: 'withheld', reason: 'the address had one within 24 hours' } as const;
    await writeNamed(store, entry.accepted.id, unitOf(entry, without));
  }
}

/** Rows that many submissions share come last: on PostgreSQL they stay locked until the commit. */
function unitOf({ submission, accepted, expire, now }: Entry, visitor: Acknowledgee): Statement[] {
  const { form, files, environment = 'live', also } = submission;
  const unit: Statement[] = [submissionRow(submission, accepted, now), ...fileStatements(accepted.id, files, now)];
  if (also !== undefined) unit.push(...also(accepted));
  if (visitor.kind === 'to') {
    const { address } = visitor;
    const ttl = expire.acknowledgment;
    const source: AcknowledgmentSource = { form: form.key, to: address, replyTo: form.config.replyTo ?? form.to[0] };
    const name = { tenant: form.tenant, address: canonicalMailbox(address), at: now, since: now - DAY };
    const mail = { form, submission: accepted.id, ttl, environment, now };
    unit.push(acknowledge(name, 1), ...enqueueMail({ ...mail, kind: 'acknowledgment', source, to: [address] }));
  }
  unit.push(eventOf(submission, accepted, { now, visitor }));
  // Of posts with test keys nobody is mailed.
  if (accepted.isOverflow && environment === 'live') unit.push(countOverflow(form, now));
  if (accepted.status === 'spam') return unit;
  unit.push(...enqueueNotification({ form, submission: accepted.id, ttl: expire.default, environment, now }));
  unit.push(countSubmission({ form: counterOf(form), at: now }));
  return unit;
}

function submissionRow(submission: Admitted, { id, status }: Accepted, now: number): Statement {
  const { form, fields, control, spamVerdict, ip, userAgent, referer, environment = 'live' } = submission;
  return insertSubmission({
    id,
    tenant: form.tenant,
    form: form.id,
    domain: form.domain,
    // A form that the API made stands in none.
    revision: form.project?.revision ?? '',
    fields: writeFields(fields),
    control: writeControl(control),
    ip,
    user_agent: cleanText(userAgent, MAX_HEADER_LENGTH),
    referer: cleanText(referer, MAX_HEADER_LENGTH),
    status,
    spam_score: spamVerdict.score,
    spam_reasons: JSON.stringify(spamVerdict.reasons),
    environment,
    created_at: now,
  });
}

function eventOf(
  { form, spamVerdict, environment, request }: Admitted,
  { id, status }: Accepted,
  { now, visitor }: { readonly now: number; readonly visitor: Acknowledgee },
): Statement {
  // Why a visitor who expects an acknowledgment got none: shown by trace.
  const withheld = visitor.kind === 'withheld' ? { acknowledgment_withheld: visitor.reason } : undefined;
  const reasons = spamVerdict.reasons.map(({ name }) => name);
  const test = environment === 'test' ? { environment } : undefined;
  return recordEvent({
    type: `submission.${status}`,
    tenant: form.tenant,
    at: now,
    data:
      status === 'spam'
        ? { form: form.id, score: spamVerdict.score, reasons, ...test }
        : { form: form.id, ...withheld, ...test },
    submission: id,
    form: form.id,
    domain: form.domain,
    request,
  });
}

interface FormMessage {
  readonly form: Form;
  /** Its id. */
  readonly submission: string;
  readonly ttl: number;
  readonly environment: 'live' | 'test';
  readonly now: number;
}

/** The statements that enqueue the mail to the form's recipients. */
export function enqueueNotification(message: FormMessage): Statement[] {
  const { key, to } = message.form;
  const source: NotificationSource = { form: key, to: [...to] };
  return enqueueMail({ ...message, kind: 'notification', source, to });
}

function enqueueMail({
  form: { tenant, id: form, domain },
  now,
  to: recipients,
  ...message
}: FormMessage & {
  readonly kind: 'notification' | 'acknowledgment';
  readonly source: NotificationSource | AcknowledgmentSource;
  readonly to: readonly string[];
}): Statement[] {
  return enqueue({ ...message, tenant, form, domain, recipients }, now).unit;
}

const HOUR = 3_600_000;
const PER_CLIENT = { count: 20, windowMs: HOUR };
const PER_FORM = { count: 500, windowMs: HOUR };

/**
 * Of RFC 2142 those that run a network, and names of programs and lists. Those that people of a small firm answer to
 * (`info@`, `sales@`, `office@`) are visitors like any other.
 */
const ROLES = new Set(
  (
    'abuse administrator all bounce bounces daemon devnull do-not-reply donotreply everyone ftp hostmaster list listserv ' +
    'mailer mailer-daemon majordomo newsletter no-reply nobody noc noreply null postmaster root security spam sysadmin ' +
    'undisclosed-recipients unsubscribe usenet uucp webmaster www www-data'
  ).split(' '),
);

/** To whom a submission is acknowledged, or why to nobody; `off` where its form acknowledges nothing. */
type Acknowledgee =
  | { readonly kind: 'to'; readonly address: string }
  | { readonly kind: 'withheld'; readonly reason: string }
  | { readonly kind: 'off' };

/**
 * Whom an acknowledgment may be sent to. Anybody may have entered the address, so it gets one in 24 hours (held by the
 * database in the unit that accepts), few are sent per client and form, and none to addresses that people share or programs
 * read (RFC 3834 §2), that refused mail of this server, or that would make a loop.
 */
async function acknowledgeeOf(
  { form, fields, control, ip }: Admitted,
  { store, limits }: Pick<AcceptOptions, 'store' | 'limits'>,
): Promise<Acknowledgee> {
  if (form.config.acknowledgment?.enabled !== true) return OFF;
  const address = emailOf(fields, form.config) ?? replyToOf(control);
  if (address === undefined) return withheld('the visitor gave no address');
  if (isRole(address)) return withheld('the address is a role address');
  if (isOurs(address, form)) return withheld('the address is one of the form or its domain');
  const { tenant } = form;
  if (await isSuppressed(store, tenant, address)) return withheld('the address is on the suppression list');
  if (await isRefused(store, address)) return withheld('the address wants no mail of this server');
  const client = await limits.take(`acknowledged:${tenant}:${clientBucket(ip)}`, PER_CLIENT);
  if (!client.allowed) return withheld(`the visitor has caused ${PER_CLIENT.count} within an hour`);
  const { allowed } = await limits.take(`acknowledged:${counterOf(form)}`, PER_FORM);
  return allowed ? { kind: 'to', address } : withheld(`the form has caused ${PER_FORM.count} within an hour`);
}

function withheld(reason: string): Acknowledgee {
  return { kind: 'withheld', reason };
}

function isRole(address: string): boolean {
  const [local = ''] = canonicalMailbox(address).split('@');
  return ROLES.has(local) || local.startsWith('owner-') || local.endsWith('-request') || local.endsWith('-bounces');
}

/** The recipient's own address, our sender's, or one that we forward ourselves. */
function isOurs(address: string, { to, domain, config, project }: Form): boolean {
  const lower = address.toLowerCase();
  const sender = senderAddress(config, domain);
  if ([...to, sender].some((own) => own.toLowerCase() === lower)) return true;
  const parsed = parseAddress(address);
  const forwarding = parsed === undefined ? undefined : project?.config.domains[parsed.domain]?.forwarding;
  return (
    parsed !== undefined && forwarding !== undefined && routeOf(forwarding, parsed.domain, parsed.local) !== undefined
  );
}

/** The statements that tie files to their submission, with the pieces that are not stored yet. */
export function fileStatements(submission: string, uploads: readonly Upload[], now: number): Statement[] {
  return uploads.flatMap(({ id, field, filename, contentType, size, pieces, tail }, position) => {
    const file = insertFile({ id, submission, position, field, filename, content_type: contentType, size });
    if (tail.length === 0) return [file];
    return [file, insertFileChunk({ file: id, seq: pieces, bytes: tail, created_at: now })];
  });
}
