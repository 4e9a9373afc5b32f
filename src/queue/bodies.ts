/**
 * The finished bytes of messages, rendered once. What must be sent again, or to several destinations, is stored and from
 * then on read back, so that every try sends the same bytes; so is what is large, which then passes through memory in
 * pieces. Of a message whose rest lies in the store already only the beginning is stored. Everything that is being
 * rendered or held counts against one budget, which is the queue's back-pressure.
 */
import { isAscii } from 'node:buffer';
import { Budget } from '../lib/batch.ts';
import { errorFields } from '../lib/errors.ts';
import type { Log } from '../lib/log.ts';
import { isPassing } from '../store/faults.ts';
import { bodyChunk, CHUNK_BYTES, findMessage, putContent, storeBody, storePrefix } from '../store/messages.ts';
import { UnmetError, type Store } from '../store/store.ts';
import type { MessageRow } from '../store/tables.ts';
import type { Body, Finished, Opened, Prepared, Source, Streamed } from './transport.ts';

export interface BodiesOptions {
  readonly store: Store;
  readonly source: Source;
  readonly log: Log;
}

const BUDGET_BYTES = 64 * 1024 * 1024;
/** Put aside for a message whose size is not known before it is rendered: so many are rendered at a time. */
const RESERVE_BYTES = 4 * 1024 * 1024;

type Fresh = Finished | Streamed;

export class Bodies {
  readonly #options: BodiesOptions;
  readonly #budget = new Budget(BUDGET_BYTES);
  readonly #held = new Map<string, HeldBody>();

  constructor(options: BodiesOptions) {
    this.#options = options;
  }

  /** The message's bytes; `release` them when the try has ended. `row` is the message, where it was just read. */
  hold(id: string, row?: MessageRow): HeldBody {
    const held =
      this.#held.get(id) ?? new HeldBody(id, this.#options, { budget: this.#budget, end: () => this.#held.delete(id) });
    this.#held.set(id, held);
    held.hold(row);
    return held;
  }
}

/** One message while somebody holds it; the same for all who do at the same time. */
export class HeldBody {
  readonly #id: string;
  readonly #options: BodiesOptions;
  readonly #budget: Budget;
  readonly #end: () => void;
  #holders = 0;
  #message: Promise<MessageRow | undefined> | undefined;
  #opened: Promise<Opened> | undefined;
  /** What was rendered here and is not stored yet. */
  #fresh: Fresh | undefined;
  /** What it takes of the budget. */
  #charged = 0;

  constructor(id: string, options: BodiesOptions, { budget, end }: { budget: Budget; end: () => void }) {
    this.#id = id;
    this.#options = options;
    this.#budget = budget;
    this.#end = end;
  }

  hold(row: MessageRow | undefined): void {
    this.#holders += 1;
    if (row !== undefined) this.#message ??= Promise.resolve(row);
  }

  release(): void {
    this.#holders -= 1;
    if (this.#holders > 0) return;
    this.#end();
    // What is still being rendered gives its share back when it is done.
    void Promise.resolve(this.#opened).then(() => this.#refund());
    // Maps keep what was in them for a while (store/sqlite); of this only the shell.
    this.#message = this.#opened = this.#fresh = undefined;
  }

  /** The message; undefined where it is gone. */
  message(): Promise<MessageRow | undefined> {
    this.#message ??= findMessage(this.#options.store, this.#id).catch((error: unknown) => {
      this.#message = undefined;
      throw error;
    });
    return this.#message;
  }

  /** The bytes; the same each time. */
  open(): Promise<Opened> {
    if (this.#opened !== undefined) return this.#opened;
    const opened = this.message().then((message) => this.#openAs(message));
    this.#opened = opened.catch((error: unknown) => {
      this.#options.log.error('delivery.unprepared', { message: this.#id, ...errorFields(error) });
      // Whoever asks next tries again.
      this.#opened = undefined;
      return { kind: 'unavailable', reason: 'the message could not be prepared', isPassing: isPassing(error) };
    });
    return this.#opened;
  }

  /**
   * Stores the bytes where they were rendered in this try and a server may have seen them. Where another daemon was faster,
   * its bytes are the message's from now on.
   */
  async keep(): Promise<void> {
    const fresh = this.#fresh;
    // Which of two mails is sent each server decides: they are rendered again.
    if (fresh === undefined || hasPlain(fresh)) return;
    this.#fresh = undefined;
    await this.#store(fresh).catch((error: unknown) => {
      if (error instanceof UnmetError) return;
      this.#fresh = fresh;
      throw error;
    });
  }

  async #store(fresh: Fresh): Promise<void> {
    const { store } = this.#options;
    await store.write(
      fresh.kind === 'streamed'
        ? storePrefix(this.#id, { ...fresh, prefix: await putContent(store, [fresh.prefix]) })
        : storeBody(this.#id, {
            ...fresh,
            content: await putContent(store, fresh.content),
            encoding: encodingOf(fresh),
          }),
    );
  }

  async #openAs(message: MessageRow | undefined): Promise<Opened> {
    switch (message?.body) {
      case undefined:
      case 'dropped':
        return { kind: 'unrenderable', reason: 'the message has been deleted' };
      case 'stored': {
        const { sender, size, encoding } = message;
        return { kind: 'ready', sender: sender ?? '', size, encoding, pieces: () => this.#pieces() };
      }
      case 'prefixed': {
        const prepared = await this.#prepare(message, Buffer.concat(await Array.fromAsync(this.#pieces())));
        return prepared.kind === 'unrenderable' ? prepared : bodyOf(prepared);
      }
      case 'none': {
        const prepared = await this.#prepare(message);
        if (prepared.kind === 'unrenderable') return prepared;
        this.#fresh = prepared;
        const toStore = prepared.kind === 'streamed' ? prepared.prefix.length : prepared.size;
        const isKeptHere = message.destinations === 1 && toStore <= CHUNK_BYTES;
        if (isKeptHere || hasPlain(prepared)) return bodyOf(prepared);
        await this.keep();
        this.#refund();
        return this.#openAs(await findMessage(this.#options.store, this.#id));
      }
    }
  }

  async #prepare(message: MessageRow, kept?: Uint8Array): Promise<Prepared> {
    await this.#budget.take(RESERVE_BYTES);
    this.#charged += RESERVE_BYTES;
    const prepared = await this.#options.source.prepare(message, kept).finally(() => this.#refund());
    if (prepared.kind !== 'unrenderable') this.#charge(heldBytes(prepared));
    return prepared;
  }

  async *#pieces(): AsyncGenerator<Uint8Array> {
    for (let seq = 0; ; seq++) {
      const piece = await bodyChunk(this.#options.store, this.#id, seq);
      if (piece === undefined) return;
      yield piece;
    }
  }

  #charge(bytes: number): void {
    this.#charged += bytes;
    this.#budget.add(bytes);
  }

  #refund(): void {
    this.#budget.give(this.#charged);
    this.#charged = 0;
  }
}

function bodyOf(prepared: Fresh): Body {
  const { sender, size } = prepared;
  if (prepared.kind === 'streamed') {
    return { kind: 'ready', sender, size, encoding: prepared.encoding, pieces: () => joined(prepared) };
  }
  const { content, plain } = prepared;
  const forAll = plain && bodyOf({ kind: 'ready', sender, smtpUtf8: false, ...plain });
  return { kind: 'ready', sender, size, encoding: encodingOf(prepared), plain: forAll, pieces: () => content };
}

function hasPlain(prepared: Fresh): boolean {
  return prepared.kind === 'ready' && prepared.plain !== undefined;
}

async function* joined({ prefix, pieces }: Streamed): AsyncGenerator<Uint8Array> {
  yield prefix;
  yield* pieces();
}

/** What takes memory until it is sent. */
function heldBytes(prepared: Fresh): number {
  return prepared.kind === 'streamed'
    ? Math.min(prepared.size, prepared.prefix.length + CHUNK_BYTES)
    : prepared.size + (prepared.plain?.size ?? 0);
}

function encodingOf({ smtpUtf8, content }: Finished): MessageRow['encoding'] {
  if (smtpUtf8) return 'smtputf8';
  return content.every((piece) => isAscii(piece)) ? '7bit' : '8bit';
}
