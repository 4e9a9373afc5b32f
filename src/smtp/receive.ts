/**
 * One message on its way in: what the wire gives goes into the store in chunks, within the limits, and then to whoever
 * takes it. Memory is bounded by a constant whatever the size; a message that is refused or cut off leaves nothing.
 */
import { isAscii } from 'node:buffer';
import { asciiAddress } from '../lib/addresses.ts';
import type { Clock } from '../lib/clock.ts';
import { codeOf, errorFields } from '../lib/errors.ts';
import type { BufferCollector } from '../lib/gc.ts';
import { newId } from '../lib/ids.ts';
import type { Log } from '../lib/log.ts';
import type { Refusal } from '../mail/auth-results.ts';
import { cleanText, decodeWords, fieldsOf, valueOf } from '../mail/header.ts';
import { naming } from '../store/blobs.ts';
import { recordEvent } from '../store/events.ts';
import { deleteRaw, insertInboundLog, insertRawChunk, rawChunks, RAW_CHUNK_BYTES } from '../store/inbound.ts';
import type { Statement } from '../store/statement.ts';
import { StoreError, UnknownOutcomeError, type Store } from '../store/store.ts';
import type { InboundLogRow } from '../store/tables.ts';
import type { Accepted } from './recipients.ts';
import type { Sink } from './smtp-server.ts';

/** A client, and how it introduced itself. */
export interface Client {
  readonly ip: string;
  /** The argument of EHLO. */
  readonly helo: string;
  /** `TLSv1.3`, … ; null for clear text. */
  readonly tls: string | null;
  /** `ESMTPS`, … (RFC 3848), for Received. */
  readonly protocol: string;
  /** Whether it is this very daemon, with mail of its own. */
  readonly isOwn: boolean;
}

export interface Envelope extends Client {
  /** In its normal form; empty for the null sender. */
  readonly sender: string;
  readonly smtpUtf8: boolean;
  readonly recipients: readonly Accepted[];
}

/** A whole message that is not answered yet. */
export interface InboundMessage extends Omit<Envelope, 'smtpUtf8'> {
  /** `inb_…` */
  readonly id: string;
  readonly size: number;
  readonly encoding: '7bit' | '8bit' | 'smtputf8';
  /** When it had come, ms. */
  readonly at: number;
  /** Decoded; undefined where it has none. */
  readonly subject?: string | undefined;
  /** Its bytes as they came, dots unstuffed, chunk by chunk; may be called again. */
  pieces(): AsyncIterable<Uint8Array>;
}

export interface ReceiveParts {
  /** The first word of its log events. */
  readonly name: 'inbound' | 'submission';
  readonly store: Store;
  readonly clock: Clock;
  readonly log: Log;
  /** Commits a whole message, and answers its 250, or says why it is not taken. */
  readonly accept: (mail: InboundMessage, chunks: Chunks) => Promise<string | Refusal>;
  /** Notes why mail was refused; nobody waits for it. */
  readonly record: (said: readonly LoggedReply[]) => void;
  /** Takes note of bytes that came and are done with. */
  readonly usedBuffers: BufferCollector;
  readonly limits: () => { readonly message: number; readonly hops: number };
}

const SPOILT: Refusal = {
  reply: '554 5.6.0 the message contains a bare CR, a bare LF or a NUL',
  reason: 'bare_newline',
};
/** The longest header block that is taken; what the first chunk has to hold of a longer message. */
const MAX_HEADER_BYTES = 100 * 1024;
const MAX_HEADER_LINES = 1000;
const MAX_SUBJECT_LENGTH = 300;

export class Reception implements Omit<Sink, 'end'> {
  readonly #parts: ReceiveParts;
  readonly #envelope: Envelope;
  readonly #stop: (reply: string) => void;
  readonly #id: string;
  readonly #chunks: Chunks;
  #refusal: Refusal | undefined;
  #looked = false;
  #ascii = true;
  /** Of what was refused, and read all the same. */
  #wasted = 0;
  #state: 'open' | 'ended' | 'stopped' = 'open';

  /** `stop` gives the reply while more is still coming: it will not be read. */
  constructor(parts: ReceiveParts, envelope: Envelope, stop: (reply: string) => void) {
    const now = parts.clock.now();
    this.#parts = parts;
    this.#envelope = envelope;
    this.#stop = stop;
    this.#id = newId('inb', now);
    this.#chunks = new Chunks(parts.store, this.#id, now);
  }

  write(bytes: Uint8Array): Promise<void> | undefined {
    if (this.#state !== 'open') return undefined;
    const { message: most } = this.#parts.limits();
    if (this.#chunks.size + this.#wasted + bytes.length > most) {
      this.#refusal = { reply: `552 5.3.4 a message may have at most ${most} bytes`, reason: 'too_large' };
      this.#state = 'stopped';
      this.#record(this.#refusal);
      this.#stop(this.#refusal.reply);
      void this.#drop();
      return undefined;
    }
    if (this.#chunks.failure !== undefined) this.#refusal ??= storeRefusal(this.#chunks.failure);
    if (this.#refusal !== undefined) {
      this.#wasted += bytes.length;
      return undefined;
    }
    this.#ascii &&= isAscii(bytes);
    this.#parts.usedBuffers.add(bytes.length);
    return this.#chunks.add(bytes, () => this.#look());
  }

  spoil(): void {
    this.#refusal ??= SPOILT;
  }

  /** The reply to the whole message; undefined where it was given up. Never rejects. */
  end(): Promise<string> | undefined {
    if (this.#state !== 'open') return undefined;
    this.#state = 'ended';
    return this.#finish();
  }

  /** The client is gone, or was too slow: nothing of it stays. */
  giveUp(): void {
    if (this.#state !== 'open') return;
    this.#state = 'stopped';
    void this.#drop();
  }

  /** Looks at the header, once the beginning is here. */
  #look(): void {
    const { start } = this.#chunks;
    if (this.#looked || start === undefined) return;
    this.#looked = true;
    const recipients = this.#envelope.recipients.map(({ original }) => asciiAddress(original).toLowerCase());
    this.#refusal ??= refuseHeader(headerOf(start), this.#parts.limits().hops, recipients);
  }

  async #finish(): Promise<string> {
    const { accept, log, name } = this.#parts;
    await this.#chunks.settle();
    this.#look();
    if (this.#chunks.failure !== undefined) this.#refusal ??= storeRefusal(this.#chunks.failure);
    const done =
      this.#refusal ??
      (await accept(this.#message(), this.#chunks).catch((error: unknown) => {
        log.error(`${name}.failed`, { inbound: this.#id, ...errorFields(error) });
        return storeRefusal(error);
      }));
    if (typeof done === 'string') return done;
    this.#record(done);
    if (done !== OUTCOME_UNKNOWN) await this.#drop();
    return done.reply;
  }

  #message(): InboundMessage {
    const { smtpUtf8, ...envelope } = this.#envelope;
    const { start, size } = this.#chunks;
    // RFC 6531 §3.4: of the message SMTPUTF8 is about the header; a body needs 8BITMIME.
    const header = start === undefined ? undefined : headerOf(start);
    const isUtf8 = smtpUtf8 && header !== undefined && !isAscii(header);
    const encoding = this.#ascii ? '7bit' : isUtf8 ? 'smtputf8' : '8bit';
    const subject = header && subjectOf(header);
    const at = this.#parts.clock.now();
    return { ...envelope, id: this.#id, size, encoding, at, subject, pieces: () => this.#chunks.all() };
  }

  /** Why it was refused, for each recipient. */
  #record(refusal: Refusal): void {
    const { ip, helo, sender, recipients } = this.#envelope;
    const about = { ip, helo, sender, ...refusal };
    this.#parts.record(
      recipients.map(({ original: recipient, tenant, domain }) => ({ ...about, recipient, tenant, domain })),
    );
  }

  /** What cannot be dropped now is swept later. */
  async #drop(): Promise<void> {
    await this.#chunks.settle();
    const unit = this.#chunks.dropped();
    if (unit.length === 0) return;
    const { store, log, name } = this.#parts;
    await store.write(unit).catch((error: unknown) => log.warn(`${name}.cleanup_failed`, errorFields(error)));
  }
}

/** The mail may be in the queue all the same: what is stored of it stays. */
const OUTCOME_UNKNOWN: Refusal = {
  reply: '451 4.3.0 the database did not confirm the message, send it again',
  reason: 'outcome_unknown',
};

/** What a client hears of a store that cannot write: it keeps the mail. */
function storeRefusal(error: unknown): Refusal {
  if (error instanceof UnknownOutcomeError) return OUTCOME_UNKNOWN;
  const isFull = error instanceof StoreError && /^(?:SQLITE_FULL|53100|ENOSPC)/.test(codeOf(error) ?? '');
  return isFull ? DISK_FULL : { reply: '451 4.3.0 mail cannot be stored at the moment', reason: 'store_failed' };
}

export const DISK_FULL: Refusal = { reply: '452 4.3.1 insufficient disk space, try again later', reason: 'disk_full' };

/** The header block that a message begins with, without the empty line. */
function headerOf(start: Buffer): Buffer {
  const end = start.indexOf('\r\n\r\n');
  return start.subarray(0, start.indexOf('\r\n') === 0 ? 0 : end === -1 ? start.length : end + 2);
}

function subjectOf(header: Buffer): string | undefined {
  const field = fieldsOf(header.toString('latin1')).find(({ name }) => name === 'subject');
  return field && cleanText(decodeWords(valueOf(field)), MAX_SUBJECT_LENGTH);
}

/**
 * Why a message with this header is not taken: its size, how many hops it has made (`Received:`), and whether it has been
 * here before, which a Delivered-To with one of the `recipients` (in lower case) says.
 */
function refuseHeader(header: Buffer, hops: number, recipients: readonly string[]): Refusal | undefined {
  const text = header.toString('latin1');
  if (header.length > MAX_HEADER_BYTES || text.split('\r\n').length - 1 > MAX_HEADER_LINES) {
    return { reply: '552 5.3.4 the header of this message is too large', reason: 'header_too_large' };
  }
  const fields = fieldsOf(text);
  const isKnown = fields.some((field) => {
    const [, address = ''] = /^\s*<?([^\s<>]+)>?\s*$/.exec(valueOf(field)) ?? [];
    return field.name === 'delivered-to' && recipients.includes(address.toLowerCase());
  });
  if (isKnown) return { reply: '554 5.4.6 mail loop: this message has been delivered here before', reason: 'loop' };
  function count(wanted: string): number {
    return fields.filter(({ name }) => name === wanted).length;
  }
  if (count('received') > hops) return { reply: '554 5.4.6 too many hops, possible mail loop', reason: 'loop' };
  // Verifiers do not agree on which of them counts (RFC 7489 §6.6.1).
  if (count('from') > 1)
    return { reply: '550 5.7.1 the message must have only one From header', reason: 'several_from' };
  return undefined;
}

/** Most messages are smaller. */
const FIRST_BYTES = 16 * 1024;

/**
 * The bytes of a message on their way into the store: at most two chunks are held, the one that fills and the one that is
 * being written; a client that sends faster than the disk writes waits. The store's thread reads a chunk where it is, in
 * shared memory, and the connection fills it again.
 */
export class Chunks {
  readonly #store: Store;
  readonly #id: string;
  readonly #at: number;
  #filling: Buffer = Buffer.allocUnsafe(FIRST_BYTES);
  #filled = 0;
  /** Chunks that are written or being written. */
  #count = 0;
  #writing: Promise<void> | undefined;
  /** Memory of a chunk that is written. */
  #spare: Buffer | undefined;
  #failure: unknown;
  #size = 0;

  /** `at`: when it began to come, ms. */
  constructor(store: Store, id: string, at: number) {
    this.#store = store;
    this.#id = id;
    this.#at = at;
  }

  get size(): number {
    return this.#size;
  }

  /** What has come, while nothing of it is written. */
  get start(): Buffer | undefined {
    return this.#count === 0 ? this.#filling.subarray(0, this.#filled) : undefined;
  }

  /** Why a chunk could not be written; undefined while all is well. */
  get failure(): unknown {
    return this.#failure;
  }

  /** Adds bytes, which are copied; `beforeFirst` is called before the first chunk is written. Resolves when more may come. */
  async add(bytes: Uint8Array, beforeFirst: () => void): Promise<void> {
    for (let rest = bytes; rest.length > 0;) {
      this.#grow(rest.length);
      const part = rest.subarray(0, this.#filling.length - this.#filled);
      this.#filling.set(part, this.#filled);
      this.#filled += part.length;
      this.#size += part.length;
      rest = rest.subarray(part.length);
      if (this.#filled < RAW_CHUNK_BYTES) continue;
      if (this.#count === 0) beforeFirst();
      await this.#writing;
      this.#send();
    }
  }

  #grow(more: number): void {
    if (this.#filled + more <= this.#filling.length || this.#filling.length === RAW_CHUNK_BYTES) return;
    const larger = sharedChunk();
    this.#filling.copy(larger, 0, 0, this.#filled);
    this.#filling = larger;
  }

  /** Writes the chunk that is full, and goes on with another. */
  #send(): void {
    const bytes = this.#filling;
    this.#filling = this.#spare ?? sharedChunk();
    this.#spare = undefined;
    this.#filled = 0;
    this.#writing = this.#write(this.#count++, bytes)
      .catch((error: unknown) => void (this.#failure ??= error))
      .finally(() => {
        this.#spare = bytes;
        this.#writing = undefined;
      });
  }

  async #write(seq: number, bytes: Uint8Array): Promise<void> {
    const blob = await this.#store.blobs.put(bytes);
    const row = insertRawChunk({ inbound: this.#id, seq, ...blob, created_at: this.#at });
    await this.#store.write([row, ...naming(blob)]);
  }

  /** Waits until what was sent is written. */
  async settle(): Promise<void> {
    await this.#writing;
  }

  /** The statement that writes the last chunk, for the unit that takes the message. Nothing may be added any more. */
  last(): Statement[] {
    if (this.#filled === 0) return [];
    const filled = this.#filling.subarray(0, this.#filled);
    // What is not shared goes in memory of its own: the store's thread is posted all the memory that a view is of.
    const bytes = filled.buffer instanceof SharedArrayBuffer ? filled : Uint8Array.from(filled);
    return [insertRawChunk({ inbound: this.#id, seq: this.#count, bytes, created_at: this.#at })];
  }

  /** The statement that drops what is written; none where nothing is. */
  dropped(): Statement[] {
    return this.#count === 0 ? [] : [deleteRaw({ inbound: this.#id })];
  }

  /** All of it, after `settle`. */
  async *all(): AsyncGenerator<Uint8Array> {
    if (this.#count > 0) yield* rawChunks(this.#store, this.#id);
    if (this.#filled > 0) yield this.#filling.subarray(0, this.#filled);
  }
}

function sharedChunk(): Buffer {
  return Buffer.from(new SharedArrayBuffer(RAW_CHUNK_BYTES));
}

// The log of mail that comes in and is submitted: the reply to each recipient, and an event of it where the address is an account's.

/** What was said, and to whom. */
export interface LoggedReply extends Omit<InboundLogRow, 'id' | 'outcome' | 'inbound' | 'created_at'> {
  /** The message that was taken (`inb_…`). */
  readonly inbound?: string | undefined;
}

const MAX_LENGTH = 500;

/** The statements that write it down, and make an event of it where it is an account's and final. */
export function logReply(said: LoggedReply, now: number): Statement[] {
  const row = rowOf(said, now);
  const { tenant, domain, ip, helo, sender: from, recipient: to, outcome, reply, reason, inbound } = row;
  if (tenant === null || outcome === 'deferred') return [insertInboundLog(row)];
  const data = { from, to, ip, helo, reason, reply, inbound };
  return [insertInboundLog(row), recordEvent({ type: `inbound.${outcome}`, tenant, at: now, data, domain })];
}

function rowOf(said: LoggedReply, now: number): InboundLogRow {
  const { tenant, domain, ip, reply, reason, inbound = null } = said;
  const helo = said.helo.slice(0, MAX_LENGTH);
  const sender = said.sender.slice(0, MAX_LENGTH);
  const recipient = said.recipient.slice(0, MAX_LENGTH);
  const row = { tenant, domain, ip, helo, sender, recipient, outcome: outcomeOf(reply), reply, reason, inbound };
  return { id: newId('inl', now), ...row, created_at: now };
}

function outcomeOf(reply: string): InboundLogRow['outcome'] {
  if (reply.startsWith('2')) return 'accepted';
  return reply.startsWith('4') ? 'deferred' : 'rejected';
}

export interface RecorderParts extends Pick<ReceiveParts, 'store' | 'clock' | 'log'> {
  readonly counters?: SmtpCounters;
}

/**
 * Writes refusals after the answer: nobody waits for them, and mail is refused whether or not the disk has room. What is
 * submitted is of the account that submits it, and makes no event.
 */
export function createRecorder(
  { store, clock, log, counters }: RecorderParts,
  name: ReceiveParts['name'],
  submitter: string | null = null,
): ReceiveParts['record'] {
  return (said) => {
    const now = clock.now();
    const isInbound = name === 'inbound';
    const tenant = isInbound ? {} : { tenant: submitter };
    for (const { ip, sender, recipient, reply, reason } of said) {
      log.info(`${name}.${outcomeOf(reply)}`, { ip, ...tenant, sender, recipient, reply, reason });
      if (isInbound && counters !== undefined) counters.recipients[outcomeOf(reply)]++;
    }
    store
      .write(
        said.flatMap((each) =>
          isInbound ? logReply(each, now) : insertInboundLog(rowOf({ ...each, ...tenant }, now)),
        ),
      )
      .catch((error: unknown) => log.error(`${name}.log_failed`, errorFields(error)));
  };
}

/** Counts since the start. */
export interface SmtpCounters {
  /** Connections accepted, and rejected by a limit. */
  readonly connections: Record<'accepted' | 'rejected', number>;
  /** What RCPT or the message was answered, for each recipient. */
  readonly recipients: Record<InboundLogRow['outcome'], number>;
}

export function createSmtpCounters(): SmtpCounters {
  return {
    connections: { accepted: 0, rejected: 0 },
    recipients: { accepted: 0, rejected: 0, deferred: 0 },
  };
}
