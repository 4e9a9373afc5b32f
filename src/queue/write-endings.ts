/** Writes how tries ended, and what follows from it, in one unit. */
import type { Clock } from '../lib/clock.ts';
import { errorFields } from '../lib/errors.ts';
import type { Log } from '../lib/log.ts';
import type { Statement } from '../store/statement.ts';
import { StoreError, UnmetError, type Store } from '../store/store.ts';
import type { Consequence, OnFailure } from './interfaces.ts';
import type { Ending } from './outcome.ts';

export interface WritingOptions {
  readonly store: Store;
  readonly clock: Clock;
  readonly log: Log;
  readonly onFailure: OnFailure;
  /** Called when what followed may be due. */
  readonly wake: () => void;
}

const NOTHING: Consequence = { unit: [], data: {} };

/**
 * Commits the endings of deliveries of one message, and `more` after them: together, or one by one where another has
 * decided about one of them. Rejects where the store cannot.
 */
export async function writeEndings(
  endings: readonly Ending[],
  more: readonly Statement[],
  options: WritingOptions,
): Promise<void> {
  const { store, log, wake } = options;
  try {
    const { unit, data } = await consequenceOf(endings, options);
    await store.write([...endings.flatMap((ending) => ending.unit(data)), ...unit, ...more]);
    for (const { event, fields } of endings) log.info(event, { ...fields, ...data });
    if (unit.length > 0) wake();
  } catch (error) {
    if (!(error instanceof UnmetError)) throw error;
    const [only] = endings;
    if (endings.length > 1) {
      for (const ending of endings) await writeEndings([ending], more, options);
    } else if (only !== undefined) {
      // It was taken back while we were busy with it: whoever has it now decides.
      log.warn('delivery.lease_lost', only.fields);
    }
  }
}

async function consequenceOf(
  endings: readonly Ending[],
  { clock, log, onFailure }: WritingOptions,
): Promise<Consequence> {
  const failures = endings.flatMap(({ failure }) => failure ?? []);
  const [first] = failures;
  if (first === undefined) return NOTHING;
  const recipients = failures.map(({ recipient }) => recipient);
  try {
    return await onFailure({ message: first.message, recipients, at: clock.now() });
  } catch (error) {
    if (error instanceof StoreError) throw error;
    // What has ended has ended: it must not be made again for a fault in what follows.
    log.error('delivery.unfollowed', { message: first.message.id, ...errorFields(error) });
    return NOTHING;
  }
}
