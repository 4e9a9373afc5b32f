/**
 * Forgets messages, all of whose deliveries are settled: what they say after `retention.message_bodies`, and who got them
 * when after `retention.events` or with the submission that they tell of, whichever is later.
 */
import { keptSince } from '../config/scalars.ts';
import type { ServerConfig } from '../config/schema.ts';
import { inRounds, portions } from '../lib/batch.ts';
import type { Clock } from '../lib/clock.ts';
import { firstId } from '../lib/ids.ts';
import { agedMessages, dropContent, forgetMessages, type AgedMessage, findMessages } from '../store/messages.ts';
import { restOf, type Store } from '../store/store.ts';
import type { MessageRow } from '../store/tables.ts';

export interface ForgetParts {
  readonly store: Store;
  readonly clock: Clock;
  readonly config: () => Pick<ServerConfig, 'retention'>;
  /** What stays of `messages.source` once nobody is to know any more what the message said. */
  readonly withoutContent: (message: Pick<MessageRow, 'kind' | 'source'>) => string;
}

const HOUR = 3_600_000;
const STEPS = 2000;
/** So many are looked at in one go, and so many bytes dropped in one commit: what is accepted meanwhile waits for milliseconds. */
const STRETCH = 100;
const MAX_BYTES = 4 * 1024 * 1024;

/** A job to run every few seconds. */
export function forgetOldMessages({ store, clock, config, withoutContent }: ForgetParts): () => Promise<void> {
  async function step(after: string): Promise<string | undefined> {
    const now = clock.now();
    const { message_bodies, events } = config().retention;
    const bodiesSince = keptSince(message_bodies, now);
    const recordsSince = now - events;
    const before = firstId('msg', Math.max(bodiesSince, recordsSince));
    const found = await agedMessages(store, { after, before, limit: STRETCH });
    const telling = found.filter((message) => message.body !== 'dropped' && isOver(message, bodiesSince));
    for (const part of portions(telling, ({ bytes }) => bytes, MAX_BYTES)) await drop(part);
    const silent = found.filter((message) => message.body === 'dropped' && message.has_submission === 0);
    const past = silent.filter((message) => isOver(message, recordsSince)).map(({ id }) => id);
    if (past.length > 0) await store.write([forgetMessages(past)]);
    return found.length === STRETCH ? found.at(-1)?.id : undefined;
  }

  async function drop(part: readonly AgedMessage[]): Promise<void> {
    const ids = part.map(({ id }) => id);
    const rows = [...(await findMessages(store, ids)).values()];
    await store.write(rows.flatMap((row) => dropContent({ id: row.id, source: withoutContent(row) })));
  }

  return inRounds({ clock, every: HOUR, steps: STEPS, rest: restOf(store), start: '', step });
}

function isOver({ settled_at }: AgedMessage, since: number): boolean {
  return settled_at !== null && settled_at < since;
}
