/**
 * One message on its way in: what the wire gives goes into the store in pieces, within the limits, and then to whoever
 * takes it. Memory is bounded by a constant whatever the size; a message that is refused or cut off leaves nothing.
 */
import { isAscii } from 'node:buffer';
import { asciiAddress } from '../lib/addresses.ts';
import type { Clock } from '../lib/clock.ts';
import { errorFields } from '../lib/errors.ts';
import type { Garbage } from '../lib/gc.ts';
import { newId } from '../lib/ids.ts';
import type { Log } from '../lib/log.ts';
import type { Store } from '../store/store.ts';
import { storeRefusal, type Accept } from './accept.ts';
import { MAX_HEADER_BYTES, MAX_HEADER_LINES, refuseHeaders, type Refusal } from './header-check.ts';
import type { Client, InboundMessage } from './interfaces.ts';
import { Chunks } from './chunks.ts';
import type { Accepted } from './recipients.ts';
import type { Recorder } from './record.ts';
import type { Sink } from './wire.ts';

export interface ReceiveParts {
  readonly store: Store;
  readonly clock: Clock;
  readonly log: Log;
  readonly accept: Accept;
  readonly record: Recorder;
  /** Takes note of bytes that came and are done with. */
  readonly garbage: Garbage;
  readonly limits: () => { readonly message: number; readonly hops: number };
}

export interface Envelope extends Client {
  readonly sender: string;
  readonly smtpUtf8: boolean;
  readonly recipients: readonly Accepted[];
}

export interface Answer {
  /** The reply to the whole message; called once, unless it was given up. */
  reply(reply: string): void;
  /** The reply while more is still coming: it will not be read. */
  stop(reply: string): void;
}

const SPOILT: Refusal = { reply: '554 5.6.0 a message has no bare CR, bare LF or NUL', reason: 'bare_newline' };

export class Reception implements Sink {
  readonly #parts: ReceiveParts;
  readonly #envelope: Envelope;
  readonly #answer: Answer;
  readonly #id: string;
  readonly #pieces: Chunks;
  #refusal: Refusal | undefined;
  #looked = false;
  #ascii = true;
  /** Of what was refused, and read all the same. */
  #wasted = 0;
  #state: 'open' | 'ended' | 'stopped' = 'open';

  constructor(parts: ReceiveParts, envelope: Envelope, answer: Answer) {
    const now = parts.clock.now();
    this.#parts = parts;
    this.#envelope = envelope;
    this.#answer = answer;
    this.#id = newId('inb', now);
    this.#pieces = new Chunks(parts.store, this.#id, now);
  }

  write(bytes: Uint8Array): Promise<void> | undefined {
    if (this.#state !== 'open') return undefined;
    const { message: most } = this.#parts.limits();
    if (this.#pieces.size + this.#wasted + bytes.length > most) {
      this.#refusal = { reply: `552 5.3.4 a message has at most ${most} bytes`, reason: 'too_large' };
      this.#stop();
      return undefined;
    }
    if (this.#pieces.failure !== undefined) this.#refusal ??= storeRefusal(this.#pieces.failure);
    if (this.#refusal !== undefined) {
      this.#wasted += bytes.length;
      return undefined;
    }
    this.#ascii &&= isAscii(bytes);
    this.#parts.garbage.add(bytes.length);
    return this.#pieces.add(bytes, () => this.#look());
  }

  spoil(): void {
    this.#refusal ??= SPOILT;
  }

  end(): void {
    if (this.#state !== 'open') return;
    this.#state = 'ended';
    this.#finish().catch((error: unknown) => {
      this.#parts.log.error('inbound.failed', { inbound: this.#id, ...errorFields(error) });
      this.#answer.reply(storeRefusal(error).reply);
    });
  }

  /** The client is gone, or was too slow: nothing of it stays. */
  giveUp(): void {
    if (this.#state !== 'open') return;
    this.#state = 'stopped';
    void this.#drop();
  }

  #stop(): void {
    this.#state = 'stopped';
    this.#written();
    this.#answer.stop(this.#refusal?.reply ?? SPOILT.reply);
    void this.#drop();
  }

  /** Looks at the header, once the beginning is here. */
  #look(): void {
    const { start } = this.#pieces;
    if (this.#looked || start === undefined) return;
    this.#looked = true;
    this.#refusal ??= refuseHeaders(start, {
      bytes: MAX_HEADER_BYTES,
      lines: MAX_HEADER_LINES,
      hops: this.#parts.limits().hops,
      recipients: this.#envelope.recipients.map(({ original }) => asciiAddress(original).toLowerCase()),
    });
  }

  async #finish(): Promise<void> {
    await this.#pieces.settle();
    this.#look();
    if (this.#pieces.failure !== undefined) this.#refusal ??= storeRefusal(this.#pieces.failure);
    if (this.#refusal === undefined) {
      this.#answer.reply(await this.#parts.accept(this.#incoming(), this.#pieces));
      return;
    }
    this.#written();
    this.#answer.reply(this.#refusal.reply);
    await this.#drop();
  }

  #incoming(): InboundMessage {
    const { smtpUtf8, ...envelope } = this.#envelope;
    // RFC 6531 §3.4: of the message SMTPUTF8 is about the header; a body needs 8BITMIME.
    const encoding = this.#ascii ? '7bit' : smtpUtf8 && !isAscii(headerOf(this.#pieces.start)) ? 'smtputf8' : '8bit';
    const pieces = () => this.#pieces.all();
    const { size } = this.#pieces;
    return { ...envelope, id: this.#id, size, encoding, at: this.#parts.clock.now(), pieces };
  }

  /** Why it was refused, for each recipient. */
  #written(): void {
    const refusal = this.#refusal;
    if (refusal === undefined) return;
    const { ip, helo, sender, recipients } = this.#envelope;
    this.#parts.record(
      recipients.map(({ original, tenant, domain }) => ({
        ip,
        helo,
        sender,
        recipient: original,
        tenant,
        domain,
        ...refusal,
      })),
    );
  }

  /** What cannot be dropped now is swept later. */
  async #drop(): Promise<void> {
    await this.#pieces.settle();
    const unit = this.#pieces.dropped();
    if (unit.length === 0) return;
    const { store, log } = this.#parts;
    await store.write(unit).catch((error: unknown) => log.warn('inbound.cleanup_failed', errorFields(error)));
  }
}

/** The header block that a message begins with. */
function headerOf(start: Buffer = Buffer.alloc(0)): Buffer {
  const end = start.indexOf('\r\n\r\n');
  return start.subarray(0, start.indexOf('\r\n') === 0 ? 0 : end === -1 ? start.length : end);
}
