/**
 * The finished bytes of messages, rendered once. What must be sent again, or to several destinations, is stored and from
 * then on read back, so that every try sends the same bytes; so is what is large, which then passes through memory in
 * pieces. Everything that is being rendered or held counts against one budget, which is the queue's back-pressure.
 */
import { isAscii } from 'node:buffer';
import { bodyChunk, CHUNK_BYTES, findMessage, storeBody } from '../store/messages.ts';
import { UnmetError, type Store } from '../store/store.ts';
import type { MessageRow } from '../store/tables.ts';
import { Budget } from './budget.ts';
import type { Body, Opened, Prepared, Source } from './interfaces.ts';

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

/** One message while somebody holds it. */
interface Entry {
  holders: number;
  message: Promise<MessageRow | undefined> | undefined;
  opened: Promise<Opened> | undefined;
  /** What was rendered here and is not stored yet. */
  fresh: Ready | undefined;
  /** What it takes of the budget. */
  charged: number;
}

export function createBodies({ store, source, onFault }: BodiesOptions): Bodies {
  const budget = new Budget(BUDGET);
  const entries = new Map<string, Entry>();

  function messageOf(id: string, entry: Entry): Promise<MessageRow | undefined> {
    entry.message ??= findMessage(store, id).catch((error: unknown) => {
      entry.message = undefined;
      throw error;
    });
    return entry.message;
  }

  async function open(id: string, entry: Entry): Promise<Opened> {
    try {
      const message = await messageOf(id, entry);
      if (message === undefined || message.body === 'dropped')
        return { kind: 'unrenderable', reason: 'the message is gone' };
      return message.body === 'stored' ? storedBody(message) : await render(message, entry);
    } catch (error) {
      onFault(id, error);
      // Whoever asks next tries again.
      entry.opened = undefined;
      return { kind: 'unavailable', reason: 'the message could not be prepared' };
    }
  }

  async function render(message: MessageRow, entry: Entry): Promise<Opened> {
    await budget.take(RESERVE);
    entry.charged += RESERVE;
    const prepared = await source.prepare(message).finally(() => refund(entry));
    if (prepared.kind === 'unrenderable') return prepared;
    entry.fresh = prepared;
    entry.charged += prepared.size;
    budget.add(prepared.size);
    if (message.destinations === 1 && prepared.size <= CHUNK_BYTES) return freshBody(prepared);
    await keep(message.id, entry);
    refund(entry);
    const stored = await findMessage(store, message.id);
    return stored === undefined ? { kind: 'unrenderable', reason: 'the message is gone' } : storedBody(stored);
  }

  /** Where another daemon was faster, its bytes are the message's from now on. */
  async function keep(id: string, entry: Entry): Promise<void> {
    const { fresh } = entry;
    if (fresh === undefined) return;
    entry.fresh = undefined;
    const { sender, size, content } = fresh;
    await store.write(storeBody(id, { sender, size, content, encoding: encodingOf(fresh) })).catch((error: unknown) => {
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

  function refund(entry: Entry): void {
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
        },
      };
    },
  };
}

function freshBody(prepared: Ready): Body {
  const { sender, size, content } = prepared;
  return { kind: 'ready', sender, size, encoding: encodingOf(prepared), pieces: () => content };
}

function encodingOf({ smtpUtf8, content }: Ready): MessageRow['encoding'] {
  if (smtpUtf8) return 'smtputf8';
  return content.every((piece) => isAscii(piece)) ? '7bit' : '8bit';
}
