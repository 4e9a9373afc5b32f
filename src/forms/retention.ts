/**
 * Forgets submissions with their files and mail when they are as old as their form, else the server, says: never while
 * mail about them waits or a webhook has not been told. Their counts stay. And drops what a form does not `store` of them
 * once their mail has arrived.
 */
import { keptSince, type Retention } from '../config/scalars.ts';
import type { Snapshot } from '../config/snapshot.ts';
import { inRounds, portions } from '../lib/batch.ts';
import type { Clock } from '../lib/clock.ts';
import { firstId } from '../lib/ids.ts';
import {
  dropSubmissionContent,
  FIRST_SECTION,
  oldSubmissions,
  reducibleSubmissions,
  removeOldSubmissions,
  sectionAfter,
  type Section,
} from '../store/submissions.ts';
import { indexSome, mergeSome } from '../store/search.ts';
import { restOf, type Store } from '../store/store.ts';
import { findFormOf } from './find.ts';

export interface ForgetParts {
  readonly store: Store;
  readonly clock: Clock;
  readonly snapshot: () => Snapshot;
}

/** A section of submissions, and behind which of them to go on. */
interface Place extends Section {
  readonly after: string;
}

const MINUTE = 60_000;
const REDUCE_EVERY = 10_000;
/** What reached nobody, spam included, is kept so long at least: somebody may release it, or have it sent once more. */
const UNREACHED = 7 * 86_400_000;
const STEPS = 2000;
/** So many submissions, or so many bytes, go in one commit, so that what is accepted meanwhile waits for milliseconds. */
const BATCH = 50;
const MAX_BATCH_BYTES = 4 * 1024 * 1024;
/** After every id. */
const END = '~';

/** A job to run every few seconds. */
export function forgetOldSubmissions({ store, clock, snapshot }: ForgetParts): () => Promise<void> {
  async function step({ after, ...section }: Place): Promise<Place | undefined> {
    const current = after === END ? await sectionAfter(store, section) : section;
    if (current === undefined) return undefined;
    const keep = await retentionOf(current, snapshot(), store);
    if (keep === undefined) return { ...current, after: END };
    const now = clock.now();
    const since = keptSince(keep, now);
    const found = await oldSubmissions(store, {
      ...current,
      after: after === END ? '' : after,
      before: firstId('sub', since),
      unreached: firstId('sub', Math.min(since, now - UNREACHED)),
      limit: BATCH,
    });
    for (const part of portions(found, ({ bytes }) => bytes, MAX_BATCH_BYTES))
      await store.write(removeOldSubmissions(part));
    return { ...current, after: found.length === BATCH ? (found.at(-1)?.id ?? END) : END };
  }

  return inRounds({
    clock,
    every: MINUTE,
    steps: STEPS,
    rest: restOf(store),
    start: { ...FIRST_SECTION, after: END },
    step,
  });
}

/** A job to run every few seconds: what stays of each submission is in its row since it came. */
export function reduceSubmissions({ store, clock }: Pick<ForgetParts, 'store' | 'clock'>): () => Promise<void> {
  async function step(after: string): Promise<string | undefined> {
    const unreached = firstId('sub', clock.now() - UNREACHED);
    const found = await reducibleSubmissions(store, { after, unreached, limit: BATCH });
    for (const part of portions(found, ({ bytes }) => bytes, MAX_BATCH_BYTES)) {
      const { none = [], metadata = [] } = Object.groupBy(part, ({ stored }) =>
        stored === 'none' ? 'none' : 'metadata',
      );
      await store.write([...removeOldSubmissions(none), ...dropSubmissionContent(metadata)]);
    }
    return found.length === BATCH ? found.at(-1)?.id : undefined;
  }

  return inRounds({ clock, every: REDUCE_EVERY, steps: STEPS, rest: restOf(store), start: '', step });
}

/**
 * Indexing a submission costs a third of accepting it. It takes a tenth of the time, so that in a burst it waits;
 * what is not indexed yet is found by its text.
 */
const INDEX_REST = 9;
/** So many go in one commit: a part of the index costs much less a row than many small ones. */
const INDEX_BATCH = 200;

/**
 * A job to run every few seconds: the words of what came, and of what was there before, go into the search index, and after
 * each commit its parts are merged.
 */
export function indexSubmissions({ store, clock }: Pick<ForgetParts, 'store' | 'clock'>): () => Promise<void> {
  async function step(task: 'index' | 'merge'): Promise<'index' | 'merge' | undefined> {
    if (task === 'merge') return (await mergeSome(store)) ? 'merge' : 'index';
    return (await indexSome(store, INDEX_BATCH)) > 0 ? 'merge' : undefined;
  }

  return inRounds({ clock, every: 0, steps: STEPS, rest: INDEX_REST, start: 'index', step });
}

/** For how long submissions of a form are kept; undefined where that is in a project that cannot be read just now. */
async function retentionOf(
  { tenant, form: id }: Section,
  snapshot: Snapshot,
  store: Store,
): Promise<Retention | undefined> {
  const form = await findFormOf({ tenant, id }, snapshot, store);
  if (form === undefined && snapshot.unread.has(tenant)) return undefined;
  return form?.config.retention ?? snapshot.server.retention.submissions;
}
