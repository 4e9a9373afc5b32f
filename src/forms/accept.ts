/**
 * Accepting: everything that must survive is one durable unit, the submission, its files, the mail that it causes, and the
 * answer under an idempotency key. Before `accept` resolves it is on the disk; where it rejects nothing happened, unless
 * the error says that this is not known. A submission that is spam is kept the same way and causes no mail. Mail for
 * recipients that have not agreed to get it waits in the queue; until one of them has, the visitor gets none either. One
 * that its visitor has to confirm (opt-in.ts) is pending, and causes only the mail with the link.
 */
import { createHmac, type KeyObject } from 'node:crypto';
import ipaddr from 'ipaddr.js';
import type { Consent } from '../accounts/consent.ts';
import { clientBucket, type Limits } from '../accounts/rate-limits.ts';
import type { FormConfig, ServerConfig } from '../config/schema.ts';
import type { Form } from '../config/snapshot.ts';
import { canonicalMailbox } from '../lib/addresses.ts';
import type { Clock } from '../lib/clock.ts';
import { newId, counterOf } from '../lib/ids.ts';
import { naming } from '../store/blobs.ts';
import { acknowledge, forgetAcknowledged } from '../store/consents.ts';
import { recordEvent } from '../store/events.ts';
import type { Statement } from '../store/statement.ts';
import { UnknownOutcomeError, UnmetError, type Blob, type Store } from '../store/store.ts';
import { countSubmission, insertSubmission, insertFile, insertFileChunk, noteToIndex } from '../store/submissions.ts';
import { type Control, type Field, writeControl, writeFields } from './fields.ts';
import type { Upload } from './files.ts';
import type { SpamVerdict } from './spam/filter.ts';
import { countOverflow, overflow } from './overflow.ts';
import type { SubmissionRow } from '../store/tables.ts';
import {
  acknowledgmentTo,
  addresseeOf,
  enqueueFormMail,
  enqueueNotification,
  OFF,
  visitorOf,
  withheld,
  type Addressee,
} from './messages.ts';
import { startOptIn } from './opt-in.ts';

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
  /** Of the key that it came with: mail of `test` is never delivered. Default: `live`. */
  readonly environment?: 'live' | 'test' | undefined;
  /** More for the unit, once the id is known: the answer under an idempotency key. Called again where the unit is tried again. */
  readonly also?: ((accepted: Accepted) => readonly Statement[]) | undefined;
}

export interface Accepted {
  readonly id: string;
  readonly status: SubmissionRow['status'];
  /** It was one too many in this hour, which is no fault of the visitor's. */
  readonly isOverflow: boolean;
  /** The visitor's address as the form keeps it. */
  readonly ip: string;
}

export interface AcceptOptions {
  readonly store: Store;
  readonly clock: Clock;
  readonly limits: Pick<Limits, 'take' | 'takePost'>;
  readonly consent: Pick<Consent, 'statuses' | 'ask'>;
  readonly config: () => ServerConfig;
  /** Hashes addresses of visitors. */
  readonly clientKey: KeyObject;
  /** Tells the queue that there is something to do. */
  readonly wake: () => void;
}

const DAY = 86_400_000;
const MAX_HEADER_LENGTH = 1000;

/** Accepts submissions; see `acceptSubmission`. */
export function createAccept(options: AcceptOptions): (given: Admitted) => Promise<Accepted> {
  return (given) => acceptSubmission(given, options);
}

/**
 * Commits the submission. Rejects with UnmetError only where the claim of an idempotency key in `also` was taken over, and
 * with StoreError where the database cannot write.
 */
async function acceptSubmission(given: Admitted, options: AcceptOptions): Promise<Accepted> {
  const { store, clock, config, consent, wake, limits, clientKey } = options;
  const { form } = given;
  const now = clock.now();
  const isSpam = given.spamVerdict.verdict === 'spam';
  const isOverflow = !isSpam && !(await limits.takePost({ id: counterOf(form), maxPerHour: form.maxPerHour })).allowed;
  const submission = isOverflow ? { ...given, spamVerdict: overflow(given.spamVerdict, form) } : given;
  const spam = isSpam || isOverflow;
  const status = spam ? 'spam' : form.config.double_opt_in ? 'pending' : 'accepted';
  const ip = keptAddress(given.ip, form.config.ip, { key: clientKey, tenant: form.tenant });
  const accepted: Accepted = { id: newId('sub', now), status, isOverflow, ip };
  const question = { tenant: form.tenant, addresses: form.to };
  const statuses = spam ? [] : [...(await consent.statuses(question)).values()];
  const visitor = statuses.includes('confirmed') ? await addresseeOf(submission, options) : OFF;
  const files = await Promise.all(
    given.files.map(async (upload) => ({ ...upload, last: await store.blobs.put(upload.tail) })),
  );
  await commit(store, { submission, files, accepted, server: config(), clientKey, now }, visitor);
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
  readonly server: ServerConfig;
  readonly files: readonly KeptUpload[];
  readonly clientKey: KeyObject;
  readonly now: number;
}

/** A file all of which is kept. */
export interface KeptUpload extends Upload {
  /** Its last chunk, as the row is to hold it. */
  readonly last: Blob;
}

async function commit(store: Store, entry: Entry, visitor: Addressee): Promise<void> {
  try {
    await write(store, entry, visitor);
  } catch (error) {
    if (error instanceof UnknownOutcomeError) throw error.of(entry.accepted.id);
    if (!(error instanceof UnmetError) || visitor.kind !== 'to') throw error;
    // The mailbox had its mail today: the submission counts all the same.
    await commit(store, entry, withheld('the address got one within the last 24 hours'));
  }
}

/** No async function, which would hold on to the unit while the disk writes. */
function write(store: Store, entry: Entry, visitor: Addressee): Promise<unknown> {
  return store.write(unitOf(entry, visitor));
}

/** Rows that many submissions share come last: on PostgreSQL they stay locked until the commit. */
function unitOf(entry: Entry, visitor: Addressee): Statement[] {
  const { submission, files, accepted, server, now } = entry;
  const { form, environment = 'live', also } = submission;
  const { expire } = server.delivery;
  const unit: Statement[] = [
    submissionRow(entry),
    noteToIndex({ submission: accepted.id }),
    ...fileStatements(accepted.id, files, now),
  ];
  if (also !== undefined) unit.push(...also(accepted));
  const mail = { form, submission: accepted.id, ttl: expire.acknowledgment, environment, now };
  if (visitor.kind === 'to') {
    const { address } = visitor;
    unit.push(acknowledge({ tenant: form.tenant, address: canonicalMailbox(address), at: now, since: now - DAY }, 1));
    if (accepted.status === 'accepted') {
      const source = acknowledgmentTo(address, form);
      unit.push(...enqueueFormMail({ ...mail, kind: 'acknowledgment', source, to: [address] }));
    }
  }
  if (accepted.status === 'pending') {
    const hash = { key: entry.clientKey, tenant: form.tenant };
    const client = hashedClient(submission.ip, hash);
    const mailbox = canonicalMailbox(visitorOf(submission) ?? '');
    unit.push(
      ...startOptIn(mail, { mailbox, client, to: visitor.kind === 'to' ? visitor.address : undefined }, server),
    );
  }
  unit.push(eventOf(submission, accepted, { now, visitor }));
  // Of posts with test keys nobody is mailed.
  if (accepted.isOverflow && environment === 'live') unit.push(countOverflow(form, now));
  if (accepted.status !== 'accepted') return unit;
  unit.push(...enqueueNotification({ ...mail, ttl: expire.default }));
  unit.push(countSubmission({ form: counterOf(form) }));
  return unit;
}

function submissionRow({ submission, accepted: { id, status, ip }, now }: Entry): Statement {
  const { form, fields, control, files, spamVerdict, userAgent, referer, environment = 'live' } = submission;
  const reasons = spamVerdict.reasons.map((reason) => {
    // What the filter says of the address is kept as the address is.
    return ip === submission.ip ? reason : { ...reason, detail: reason.detail.replaceAll(submission.ip, ip) };
  });
  return insertSubmission({
    id,
    tenant: form.tenant,
    form: form.id,
    domain: form.domain,
    // A form that the API made is in none.
    revision: form.project?.revision ?? '',
    fields: writeFields(fields),
    control: writeControl(control),
    ip,
    user_agent: oneLine(userAgent),
    referer: oneLine(referer),
    status,
    spam_score: spamVerdict.score,
    spam_reasons: JSON.stringify(reasons),
    environment,
    stored: form.config.store === 'all' ? null : form.config.store,
    learned: null,
    unread: 1,
    has_files: files.length > 0 ? 1 : 0,
    created_at: now,
  });
}

/** What the client says of itself in a header. */
function oneLine(header: string): string {
  return header
    .slice(0, MAX_HEADER_LENGTH)
    .replaceAll(/\p{Cc}/gu, ' ')
    .trim();
}

function eventOf(
  { form, spamVerdict, environment, request }: Admitted,
  { id, status }: Accepted,
  { now, visitor }: { readonly now: number; readonly visitor: Addressee },
): Statement {
  // Why a visitor who expects mail got none: shown by trace.
  const mail = status === 'pending' ? 'confirmation_withheld' : 'acknowledgment_withheld';
  const unsent = visitor.kind === 'withheld' ? { [mail]: visitor.reason } : undefined;
  const reasons = spamVerdict.reasons.map(({ name }) => name);
  const test = environment === 'test' ? { environment } : undefined;
  return recordEvent({
    type: `submission.${status}`,
    tenant: form.tenant,
    at: now,
    data:
      status === 'spam'
        ? { form: form.id, score: spamVerdict.score, reasons, ...test }
        : { form: form.id, ...unsent, ...test },
    submission: id,
    form: form.id,
    domain: form.domain,
    request,
  });
}

/** The statements that tie files to their submission, each with its last chunk. */
export function fileStatements(submission: string, files: readonly KeptUpload[], now: number): Statement[] {
  return files.flatMap(({ id, field, filename, contentType, size, unscanned, pieces, tail, last }, position) => {
    const about = { field, filename, content_type: contentType, size, unscanned: unscanned === true ? 1 : 0 };
    const file = insertFile({ id, submission, position, ...about });
    if (tail.length === 0) return [file];
    return [file, insertFileChunk({ file: id, seq: pieces, ...last, created_at: now }), ...naming(last)];
  });
}

// The visitor's address as a form keeps it (`ip`). Limits and the spam filter use the whole address; what is stored, shown,
// exported, mailed and logged of a submission is this.

/** An IPv4 network of 256 addresses, and the part of an IPv6 address that a provider gives to a site. */
const KEPT_BITS = { ipv4: 24, ipv6: 48 } as const;
const HASH_CHARACTERS = 16;

/** Whose key makes the hashes, and for whom: two accounts must not find that they have the same visitor. */
interface HashContext {
  readonly key: KeyObject;
  readonly tenant: string;
}

/** What is kept of the address; empty where that is nothing. */
function keptAddress(ip: string, keep: FormConfig['ip'], context: HashContext): string {
  switch (keep) {
    case 'full':
      return ip;
    case 'truncated':
      return networkOf(ip);
    case 'hashed':
      return hashedClient(ip, context);
    case 'none':
      return '';
  }
}

/** The same for the same client of the same account: of IPv6 that is a network of /64. */
function hashedClient(ip: string, { key, tenant }: HashContext): string {
  const hash = createHmac('sha256', key)
    .update(`${tenant} ${clientBucket(ip)}`)
    .digest('hex');
  return `hash:${hash.slice(0, HASH_CHARACTERS)}`;
}

/** The address with zeros behind its network; empty for what is no address (a Unix socket). */
function networkOf(ip: string): string {
  if (!ipaddr.isValid(ip)) return '';
  const address = ipaddr.process(ip);
  return address instanceof ipaddr.IPv6
    ? ipaddr.IPv6.networkAddressFromCIDR(`${address.toString()}/${KEPT_BITS.ipv6}`).toString()
    : ipaddr.IPv4.networkAddressFromCIDR(`${address.toString()}/${KEPT_BITS.ipv4}`).toString();
}
