/**
 * The finished bytes of messages, rendered once. What must be sent again, or to several destinations, is stored and from
 * then on read back, so that every try sends the same bytes; so is what is large, which then passes through memory in
 * pieces. Of a message whose rest lies in the store already only the beginning is stored. Everything that is being
 * rendered or held counts against one budget, which is the queue's back-pressure.
 */
import { isAscii } from 'node:buffer';
import { bodyChunk, CHUNK_BYTES, findMessage, storeBody, storePrefix } from '../store/messages.ts';
import { UnmetError, type Store } from '../store/store.ts';
import type { MessageRow } from '../store/tables.ts';
import type { Body, Opened, Prepared, Source, Streamed } from './transport.ts';

export interface Bodies {
  /** A holder of the message's bytes; `release` it when its try has ended. `row` is the message, where it was just read. */
  hold(id: string, row?: MessageRow): HeldBody;
}

export interface HeldBody {
  /** The message; undefined where it is gone. */
  message(): Promise<MessageRow | undefined>;
  /** The bytes; the same for all who hold the message at the same time. */
  open(): Promise<Opened>;
  /** Stores the bytes where they were rendered in this try and a server may have seen them. */
  keep(): Promise<void>;
  release(): void;
}

export interface BodiesOptions {
  readonly store: Store;
  readonly source: Source;
  /** Told of what went wrong with a message; it is tried again later. */
  readonly onFault: (message: string, error: unknown) => void;
}

const BUDGET = 64 * 1024 * 1024;
/** Put aside for a message whose size is not known before it is rendered: so many are rendered at a time. */
const RESERVE = 4 * 1024 * 1024;

type Ready = Extract<Prepared, { kind: 'ready' }>;
type Fresh = Ready | Streamed;

/** One message while somebody holds it. */
interface HeldMessage {
  holders: number;
  message: Promise<MessageRow | undefined> | undefined;
  opened: Promise<Opened> | undefined;
  /** What was rendered here and is not stored yet. */
  fresh: Fresh | undefined;
  /** What it takes of the budget. */
  charged: number;
}

export function createBodies({ store, source, onFault }: BodiesOptions): Bodies {
  const budget = new MemoryLimit(BUDGET);
  const entries = new Map<string, HeldMessage>();

  function messageOf(id: string, entry: HeldMessage): Promise<MessageRow | undefined> {
    entry.message ??= findMessage(store, id).catch((error: unknown) => {
      entry.message = undefined;
      throw error;
    });
    return entry.message;
  }

  async function open(id: string, entry: HeldMessage): Promise<Opened> {
    try {
      return await openMessage(await messageOf(id, entry), entry);
    } catch (error) {
      onFault(id, error);
      // Whoever asks next tries again.
      entry.opened = undefined;
      return { kind: 'unavailable', reason: 'the message could not be prepared' };
    }
  }

  async function openMessage(message: MessageRow | undefined, entry: HeldMessage): Promise<Opened> {
    switch (message?.body) {
      case undefined:
      case 'dropped':
        return { kind: 'unrenderable', reason: 'the message is gone' };
      case 'stored':
        return storedBody(message);
      case 'prefixed':
        return resume(message, entry);
      case 'none':
        return render(message, entry);
    }
  }

  async function render(message: MessageRow, entry: HeldMessage): Promise<Opened> {
    const prepared = await prepare(message, entry);
    if (prepared.kind === 'unrenderable') return prepared;
    entry.fresh = prepared;
    charge(entry, heldBytes(prepared));
    const toStore = prepared.kind === 'streamed' ? prepared.prefix.length : prepared.size;
    const isKeptHere = message.destinations === 1 && toStore <= CHUNK_BYTES;
    if (isKeptHere || hasPlain(prepared)) return bodyOf(prepared);
    await keep(message.id, entry);
    refund(entry);
    return openMessage(await findMessage(store, message.id), entry);
  }

  /** Goes on with a message of which the beginning is kept. */
  async function resume(message: MessageRow, entry: HeldMessage): Promise<Opened> {
    const kept: Uint8Array[] = [];
    for await (const piece of storedPieces(message.id)) kept.push(piece);
    const prepared = await prepare(message, entry, Buffer.concat(kept));
    if (prepared.kind === 'unrenderable') return prepared;
    charge(entry, heldBytes(prepared));
    return bodyOf(prepared);
  }

  async function prepare(message: MessageRow, entry: HeldMessage, kept?: Uint8Array): Promise<Prepared> {
    await budget.take(RESERVE);
    entry.charged += RESERVE;
    return source.prepare(message, kept).finally(() => refund(entry));
  }

  /** Where another daemon was faster, its bytes are the message's from now on. */
  async function keep(id: string, entry: HeldMessage): Promise<void> {
    const { fresh } = entry;
    // Which of two mails is sent each server decides: they are rendered again.
    if (fresh === undefined || hasPlain(fresh)) return;
    entry.fresh = undefined;
    const unit =
      fresh.kind === 'streamed' ? storePrefix(id, fresh) : storeBody(id, { ...fresh, encoding: encodingOf(fresh) });
    await store.write(unit).catch((error: unknown) => {
      if (error instanceof UnmetError) return;
      entry.fresh = fresh;
      throw error;
    });
  }

  function storedBody({ id, sender, size, encoding }: MessageRow): Body {
    return { kind: 'ready', sender: sender ?? '', size, encoding, pieces: () => storedPieces(id) };
  }

  async function* storedPieces(id: string): AsyncGenerator<Uint8Array> {
    for (let seq = 0; ; seq++) {
      const piece = await bodyChunk(store, id, seq);
      if (piece === undefined) return;
      yield piece;
    }
  }

  function charge(entry: HeldMessage, bytes: number): void {
    entry.charged += bytes;
    budget.add(bytes);
  }

  function refund(entry: HeldMessage): void {
    budget.give(entry.charged);
    entry.charged = 0;
  }

  return {
    hold(id, row) {
      const entry = entries.get(id) ?? {
        holders: 0,
        message: undefined,
        opened: undefined,
        fresh: undefined,
        charged: 0,
      };
      entry.holders += 1;
      if (row !== undefined) entry.message ??= Promise.resolve(row);
      entries.set(id, entry);
      return {
        message: () => messageOf(id, entry),
        open: () => (entry.opened ??= open(id, entry)),
        keep: () => keep(id, entry),
        release() {
          entry.holders -= 1;
          if (entry.holders > 0) return;
          entries.delete(id);
          // What is still being rendered gives its share back when it is done.
          void Promise.resolve(entry.opened).then(() => refund(entry));
          // Maps keep what was in them for a while (store/sqlite); of this only the shell.
          entry.message = entry.opened = entry.fresh = undefined;
        },
      };
    },
  };
}

function bodyOf(prepared: Fresh): Body {
  const { sender, size } = prepared;
  if (prepared.kind === 'streamed') {
    return { kind: 'ready', sender, size, encoding: prepared.encoding, pieces: () => joined(prepared) };
  }
  const { content, plain } = prepared;
  const forAll = plain && bodyOf({ kind: 'ready', sender, smtpUtf8: false, content: plain.content, size: plain.size });
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

function encodingOf({ smtpUtf8, content }: Ready): MessageRow['encoding'] {
  if (smtpUtf8) return 'smtputf8';
  return content.every((piece) => isAscii(piece)) ? '7bit' : '8bit';
}

/** A share of memory that many ask for: who comes when it is used up waits, first come, first served. */
export class MemoryLimit {
  readonly #total: number;
  readonly #waiting: { readonly amount: number; readonly go: () => void }[] = [];
  #used = 0;

  constructor(total: number) {
    this.#total = total;
  }

  /** Takes `amount` as soon as it is there; more than all there is, when nobody else has any. */
  take(amount: number): Promise<void> {
    if (this.#waiting.length === 0 && this.#fits(amount)) {
      this.#used += amount;
      return Promise.resolve();
    }
    return new Promise((go) => this.#waiting.push({ amount, go }));
  }

  /** Takes `amount`, there or not: it is in memory already. */
  add(amount: number): void {
    this.#used += amount;
  }

  give(amount: number): void {
    this.#used -= amount;
    for (let next = this.#waiting[0]; next !== undefined && this.#fits(next.amount); next = this.#waiting[0]) {
      this.#waiting.shift();
      this.#used += next.amount;
      next.go();
    }
  }

  #fits(amount: number): boolean {
    return this.#used === 0 || this.#used + amount <= this.#total;
  }
}
