/** Deletes chunks of messages that were never accepted, old entries of the log of inbound mail, and old messages. */
import type { Clock } from '../lib/clock.ts';
import { firstId } from '../lib/ids.ts';
import { deleteRawOrphans, forgetInboundLog, agedInbound, dropRaws, forgetInbound } from '../store/inbound.ts';
import { restOf, type Store } from '../store/store.ts';
import { keptSince } from '../config/scalars.ts';
import type { ServerConfig } from '../config/schema.ts';
import { inRounds, portions, stepByStep } from '../lib/batch.ts';

export interface ForgetParts {
  readonly store: Store;
  readonly clock: Clock;
  readonly config: () => Pick<ServerConfig, 'retention'>;
}

const HOUR = 3_600_000;
/** No transaction lasts so long. */
const ORPHAN_AGE = 3 * HOUR;
/** So many entries go in one commit, so that what is taken meanwhile waits for milliseconds. */
const BATCH = 500;

/** A job to run every few seconds; deletes old entries of the log by `retention.events`. */
export function sweepInbound({ store, clock, config }: ForgetParts): () => Promise<void> {
  let until = 0;
  return async () => {
    const now = clock.now();
    const before = now - ORPHAN_AGE;
    if (Math.abs(before - until) < HOUR) return;
    await store.write([deleteRawOrphans({ since: until, before })]);
    until = before;
    const oldest = firstId('inl', now - config().retention.events);
    await stepByStep({ clock, rest: restOf(store) }, async () => {
      const [{ changes }] = await store.write([forgetInboundLog({ before: oldest, most: BATCH })]);
      return changes === BATCH;
    });
  };
}

const STEPS = 2000;
/** So many are looked at in one go, and so many bytes dropped in one commit: what is accepted meanwhile waits for milliseconds. */
const STRETCH = 100;
const MAX_BYTES = 4 * 1024 * 1024;

/**
 * A job to run every few seconds: deletes inbound messages. Their bytes are kept as long as the bodies of the messages that
 * they became, and that they arrived as long as those messages' recipients, or for `retention.events`.
 */
export function forgetOldInbound({ store, clock, config }: ForgetParts): () => Promise<void> {
  async function step(after: string): Promise<string | undefined> {
    const now = clock.now();
    const { message_bodies, events } = config().retention;
    const pastFrom = firstId('inb', now - events);
    const before = firstId('inb', Math.max(keptSince(message_bodies, now), now - events));
    const found = await agedInbound(store, { after, before, limit: STRETCH });
    const silent = found.filter(({ hasRaw, kept }) => hasRaw && kept !== 'bodies');
    for (const part of portions(silent, ({ size }) => size, MAX_BYTES))
      await store.write([dropRaws(part.map(({ id }) => id))]);
    const past = found.filter(({ id, hasRaw, kept }) => !hasRaw && kept === 'nothing' && id < pastFrom);
    if (past.length > 0) await store.write([forgetInbound(past.map(({ id }) => id))]);
    return found.length === STRETCH ? found.at(-1)?.id : undefined;
  }

  return inRounds({ clock, every: HOUR, steps: STEPS, rest: restOf(store), start: '', step });
}
