/**
 * Erases a person, by mail address: submissions with such an address in a field, mail to it, copies of mail from it, and
 * what is known of it. An address is in no index, so that everything is looked through, some stretches in one call and
 * others in the next (`next`): no call is long, nothing is remembered between them, and the same call twice does no harm.
 * What is being sent just then is left, and counted: a second run finds it.
 *
 * Mail that the person said "never again" to must stay forbidden: of that a hash of the address stays.
 */
import { z } from 'zod';
import { canonicalMailbox, domainsOf, hashedAddress, parseAddress } from '../lib/addresses.ts';
import { portions } from '../lib/batch.ts';
import type { Clock } from '../lib/clock.ts';
import { findMailbox, forgetMailbox, refuseMailbox } from '../store/consents.ts';
import { recomputeDueAmong } from '../store/destinations.ts';
import * as erase from '../store/erase.ts';
import { eventsOfMessages, eventsOfSubmission } from '../store/events.ts';
import { forgetPostsOfEvents } from '../store/webhook-deliveries.ts';
import { dropRaws, findInbound, forgetInbound } from '../store/inbound.ts';
import { deliveriesOfMessages, endWaiting, findMessages } from '../store/messages.ts';
import type { Statement } from '../store/statement.ts';
import type { Store } from '../store/store.ts';
import { suppress } from '../store/suppressions.ts';
import { deliveriesOfSubmission, partsOf } from '../store/submission-list.ts';
import { findSubmission, removeOldSubmissions, sizesOf } from '../store/submissions.ts';
import type { DeliveryRow, InboundLogRow, MessageKind, SubmissionRow } from '../store/tables.ts';

export interface EraseParts {
  readonly store: Store;
  readonly clock: Clock;
  /** The queue has changed. */
  readonly wake: () => void;
}

export interface Erasure {
  readonly address: string;
  /** Whose data; undefined: all of the server. */
  readonly tenant: string | undefined;
  /** Only count. */
  readonly dryRun: boolean;
  /** Where the call before ended. */
  readonly from?: string | undefined;
}

/** How much was erased, or would be. */
export interface Counts {
  submissions: number;
  files: number;
  /** Mail to the address, and about those submissions, with its place in the queue and its events. */
  messages: number;
  /** Copies of mail that came from the address. */
  inbound: number;
  /** Entries of the log of inbound mail. */
  log_entries: number;
  /** Agreements to get mail, and when it had an acknowledgment. */
  consents: number;
  suppressions: number;
  /** Of these a hash stays, because mail to them is forbidden. */
  kept_as_hash: number;
  /** Being sent just then: left for another run. */
  in_progress: number;
  /** Mail to the address as a recipient that a configuration names: it stays. */
  configured: number;
}

export interface Erased {
  readonly counts: Readonly<Counts>;
  /** Submissions that name the address in the midst of a text, which stay; of each call the first hundred. */
  readonly mentions: readonly string[];
  /** `from` of the next call; undefined at the end. */
  readonly next: string | undefined;
}

const SIZE = 500;
const STRETCHES = 40;
const MAX_MENTIONS = 100;
/** What stands around an address in a text. */
const NO_ADDRESS = /[\s"'<>()[\],;:!?]+/u;
const MAX_BATCH_BYTES = 16 * 1024 * 1024;
const REPLY = 'cancelled: the data of its recipient was erased';
const WAITS: ReadonlySet<DeliveryRow['state']> = new Set(['queued', 'deferred']);
const PHASES = ['submissions', 'messages', 'inbound', 'rest'] as const;
type Phase = (typeof PHASES)[number];

/** Mail whose recipient a configuration names, or a reply of the owner's: it is not the person's because it went there. */
const CONFIGURED: ReadonlySet<MessageKind> = new Set(['notification', 'forward', 'webhook']);

/** Erases as much as one call may. */
export async function erasePerson(erasure: Erasure, parts: EraseParts): Promise<Erased> {
  const work = new Eraser(erasure, parts);
  let [phase, after] = placeOf(erasure.from);
  for (let i = 0; i < STRETCHES; i++) {
    const next = await work.stretch(phase, after);
    // Reading is done in this thread: others have their turn.
    await parts.clock.sleep(0);
    if (next !== '') after = next;
    else {
      const following = PHASES[PHASES.indexOf(phase) + 1];
      if (following === undefined) return work.result(undefined);
      [phase, after] = [following, ''];
    }
  }
  return work.result(`${phase}.${after}`);
}

function placeOf(from = ''): [Phase, string] {
  const [name = '', after = ''] = from.split('.');
  return [PHASES.find((phase) => phase === name) ?? 'submissions', after];
}

class Eraser {
  readonly #erasure: Erasure;
  readonly #parts: EraseParts;
  readonly #mailbox: string;
  readonly #domains: readonly string[];
  readonly #mentions: string[] = [];
  readonly #counts: Counts = {
    submissions: 0,
    files: 0,
    messages: 0,
    inbound: 0,
    log_entries: 0,
    consents: 0,
    suppressions: 0,
    kept_as_hash: 0,
    in_progress: 0,
    configured: 0,
  };

  constructor(erasure: Erasure, parts: EraseParts) {
    this.#erasure = erasure;
    this.#parts = parts;
    this.#mailbox = canonicalMailbox(erasure.address);
    this.#domains = domainsOf(parseAddress(erasure.address) ?? { domain: '' });
  }

  result(next: string | undefined): Erased {
    return { counts: this.#counts, mentions: this.#mentions, next };
  }

  /** Does what there is behind this id, and answers where to go on; empty at the end of the phase. */
  async stretch(phase: Phase, after: string): Promise<string> {
    const { store } = this.#parts;
    const stretch = { tenant: this.#erasure.tenant, domains: this.#domains, after, size: SIZE };
    switch (phase) {
      case 'submissions': {
        const { rows, next } = await erase.submissionsNaming(store, stretch);
        await this.#submissions(rows);
        return next;
      }
      case 'messages': {
        const { rows, next } = await erase.deliveriesNaming(store, stretch);
        await this.#mail(rows.filter(({ webhook, recipient }) => webhook === null && this.#isPerson(recipient)));
        return next;
      }
      case 'inbound': {
        const { rows, next } = await erase.inboundNaming(store, stretch);
        await this.#inbound(
          rows.filter(({ sender, recipient }) => this.#isPerson(sender) || this.#isPerson(recipient)),
        );
        return next;
      }
      case 'rest':
        await this.#rest();
        return '';
    }
  }

  #isPerson(text: string): boolean {
    const parsed = parseAddress(text.trim());
    return parsed !== undefined && canonicalMailbox(parsed.address) === this.#mailbox;
  }

  #isBy({ fields, control }: SubmissionRow): boolean {
    return textsOf(fields, control).some((text) => this.#isPerson(text));
  }

  async #submissions(rows: readonly SubmissionRow[]): Promise<void> {
    const { store } = this.#parts;
    const own = rows.filter((row) => this.#isBy(row));
    for (const row of rows) {
      if (own.includes(row) || this.#mentions.length === MAX_MENTIONS) continue;
      const words = textsOf(row.fields, row.control).flatMap((text) => text.split(NO_ADDRESS));
      if (words.some((word) => this.#isPerson(word.replace(/\.$/, '')))) this.#mentions.push(row.id);
    }
    if (own.length === 0) return;
    const about = await partsOf(store, own);
    const counts = this.#counts;
    if (!this.#erasure.dryRun) await this.#removeSubmissions(own, (id) => about(id).messages);
    const left = this.#erasure.dryRun ? [] : await erase.submissionsLeft(store, own.map(idOf));
    const gone = own.filter(({ id }) => !left.some((each) => each.id === id));
    counts.in_progress += left.length;
    counts.submissions += gone.length;
    for (const { id } of gone) {
      counts.files += about(id).files.length;
      counts.messages += about(id).messages.length;
    }
  }

  async #removeSubmissions(rows: readonly SubmissionRow[], messagesOf: (id: string) => readonly string[]) {
    const { store } = this.#parts;
    const waiting = await Promise.all(rows.map(({ id }) => deliveriesOfSubmission(store, id)));
    await this.#cancel(waiting.flat());
    for (const part of portions(await sizesOf(store, rows), ({ bytes }) => bytes, MAX_BATCH_BYTES)) {
      const events = await Promise.all(part.map((row) => eventsOfSubmission(store, row)));
      const mail = await eventsOfMessages(
        store,
        part.flatMap(({ id }) => messagesOf(id)),
      );
      const ids = part.map(idOf);
      await store.write([
        // Answers of webhooks may repeat what they were sent.
        forgetPostsOfEvents({ ids: events.flat().map(idOf) }),
        ...removeOldSubmissions(part),
        erase.forgetMessagesOfGone({ ids }),
        erase.forgetEventsOfGone({ ids: [...events.flat(), ...mail].map(idOf) }),
        erase.forgetTokensAbout(ids),
      ]);
    }
  }

  /** Ends what waits. */
  async #cancel(rows: readonly Pick<DeliveryRow, 'id' | 'state' | 'destination'>[]): Promise<void> {
    const waiting = rows.filter(({ state }) => WAITS.has(state));
    if (waiting.length === 0) return;
    const { store, clock, wake } = this.#parts;
    const at = clock.now();
    const names = [...new Set(waiting.map(({ destination }) => destination))].sort();
    await store.write([
      ...waiting.map(({ id }) => endWaiting({ id, state: 'cancelled', reply: REPLY, at })),
      recomputeDueAmong({ names }),
    ]);
    wake();
  }

  async #mail(rows: readonly DeliveryRow[]): Promise<void> {
    const { store } = this.#parts;
    const messages = await findMessages(store, [...new Set(rows.map(({ message }) => message))]);
    const own: string[] = [];
    for (const { id, kind, submission } of messages.values()) {
      if (CONFIGURED.has(kind)) this.#counts.configured++;
      // Of a dry run: it is counted with its submission.
      else if (!this.#erasure.dryRun || !(await this.#isCounted(submission))) own.push(id);
    }
    if (!this.#erasure.dryRun) await this.#cancel(rows.filter(({ message }) => own.includes(message)));
    this.#counts.messages += await this.#forgetMessages(own);
  }

  async #isCounted(submission: string | null): Promise<boolean> {
    const row = submission === null ? undefined : await findSubmission(this.#parts.store, submission);
    return row !== undefined && this.#isBy(row);
  }

  /** Forgets them as a whole, whoever else got them; those that others wait for stay. Answers how many went, or would go. */
  async #forgetMessages(ids: readonly string[]): Promise<number> {
    if (ids.length === 0 || this.#erasure.dryRun) return ids.length;
    const { store } = this.#parts;
    const events = (await eventsOfMessages(store, ids)).map(idOf);
    await store.write([
      erase.forgetSettled({ ids }),
      erase.forgetEventsOfGone({ ids: events }),
      erase.forgetBouncesOf(ids),
    ]);
    const left = (await findMessages(store, ids)).size;
    this.#counts.in_progress += left;
    return ids.length - left;
  }

  async #inbound(rows: readonly InboundLogRow[]): Promise<void> {
    const { store } = this.#parts;
    const kept = new Set<string>();
    for (const [inbound, entries] of Map.groupBy(rows, (row) => row.inbound)) {
      if (inbound === null || !entries.some(({ sender }) => this.#isPerson(sender))) continue;
      if (!(await this.#removeInbound(inbound))) kept.add(inbound);
    }
    const gone = rows.filter(({ inbound }) => inbound === null || !kept.has(inbound));
    this.#counts.log_entries += gone.length;
    if (gone.length === 0 || this.#erasure.dryRun) return;
    const events = gone.flatMap(({ tenant, ...row }) =>
      tenant === null ? [] : erase.forgetInboundEvents({ tenant, ...row }),
    );
    await store.write([erase.forgetLogEntries(gone.map(idOf)), ...events]);
  }

  /** Removes a message that came from the person, with what became of it; false where some of that must stay now. */
  async #removeInbound(id: string): Promise<boolean> {
    const { store } = this.#parts;
    const row = await findInbound(store, id);
    if (row === undefined) return true;
    const messages = await findMessages(store, z.array(z.string()).parse(JSON.parse(row.messages)));
    const ids = [...messages.keys()];
    const { tenant, dryRun } = this.#erasure;
    // Of another account's copy that account decides.
    if (tenant !== undefined && [...messages.values()].some((message) => message.tenant !== tenant)) return true;
    if (!dryRun) await this.#cancel(await deliveriesOfMessages(store, ids));
    const gone = await this.#forgetMessages(ids);
    this.#counts.messages += gone;
    if (gone < ids.length) return false;
    this.#counts.inbound++;
    if (!dryRun) await store.write([dropRaws([id]), forgetInbound([id]), erase.forgetBouncesIn([id])]);
    return true;
  }

  /** What is known by the address itself. */
  async #rest(): Promise<void> {
    const { store } = this.#parts;
    const { address, tenant = '', dryRun } = this.#erasure;
    const counts = this.#counts;
    const spellings = [...new Set([address.toLowerCase(), this.#mailbox])];
    const consents = await erase.consentsAmong(store, spellings, tenant);
    const acknowledged = await erase.acknowledgedAmong(store, this.#mailbox, tenant);
    const suppressions = await erase.suppressionsAmong(store, spellings, tenant);
    const unwanted = suppressions.filter(({ reason }) => reason !== 'bounce');
    const unit: Statement[] = [
      ...consents.map((row) => erase.forgetConsent(row)),
      ...acknowledged.map((row) => erase.forgetAcknowledgment(row)),
      ...suppressions.map((row) => erase.forgetSuppression(row)),
      ...unwanted.map((row) => suppress({ ...row, address: hashedAddress(row.address) })),
    ];
    counts.consents += consents.length + acknowledged.length;
    counts.suppressions += suppressions.length;
    counts.kept_as_hash += unwanted.length;
    if (tenant === '') {
      unit.push(erase.forgetTokensAbout(spellings));
      const mailbox = await findMailbox(store, address);
      // That of an account belongs to it, until the account ends.
      if (mailbox?.mailbox === this.#mailbox && mailbox.account === null && mailbox.refused_at !== null) {
        counts.kept_as_hash++;
        unit.push(forgetMailbox(mailbox));
        unit.push(refuseMailbox({ mailbox: hashedAddress(this.#mailbox), at: mailbox.refused_at }));
      }
    }
    if (!dryRun && unit.length > 0) await store.write(unit);
  }
}

const storedFields = z.array(z.tuple([z.string(), z.union([z.string(), z.array(z.string())])]));
const storedControl = z.record(z.string(), z.string().optional());

/** Every value that was typed. */
function textsOf(fields: string, control: string): string[] {
  const values = storedFields.parse(JSON.parse(fields)).flatMap(([, value]) => value);
  const replyTo = storedControl.parse(JSON.parse(control))['_replyto'];
  return replyTo === undefined ? values : [...values, replyTo];
}

function idOf({ id }: { readonly id: string }): string {
  return id;
}
