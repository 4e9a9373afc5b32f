/** Spam protection, composed: the filter, what it learns, and what forms have in common. */
import type { Snapshot } from '../../config/snapshot.ts';
import type { HttpDoor } from '../../dns/guarded-fetch.ts';
import type { Clock } from '../../lib/clock.ts';
import type { Log } from '../../lib/log.ts';
import { recentSubmissions } from '../../store/spam.ts';
import type { Store } from '../../store/store.ts';
import { readControl, readFields } from '../fields.ts';
import { createSpamFilter, createTools, type SpamFilter } from './filter.ts';
import { createLearning, type Learning } from './learning.ts';
import { readModel } from './model.ts';
import { createRepetition } from './repetition.ts';
import { createSpamServices } from './services.ts';
import { readText } from './text.ts';
import type { RefusesMail } from './visit.ts';

export interface SpamProtection {
  readonly filter: SpamFilter;
  readonly learning: Learning;
  /** A job: reads what was posted before this daemon started, and what is posted to others. */
  readonly catchUp: () => Promise<void>;
}

export interface SpamProtectionParts {
  readonly store: Store;
  readonly clock: Clock;
  readonly log: Log;
  readonly snapshot: () => Snapshot;
  readonly refusesMail: RefusesMail;
  /** Guarded, for the services that forms name. */
  readonly http: Pick<HttpDoor, 'request'>;
}

/** Of the submissions that are stored, so many are compared with what is posted next. */
const MAX_CAUGHT_UP = 1000;
const MAX_FIELDS_LENGTH = 20_000;
/** So many are read between two turns of the event loop. */
const AT_ONCE = 50;

export function createSpamProtection({
  store,
  clock,
  log,
  snapshot,
  refusesMail,
  http,
}: SpamProtectionParts): SpamProtection {
  const tools = createTools();
  const model = readModel();
  const learning = createLearning({ store, clock, log, snapshot, model, extract: tools.extract });
  const repetition = createRepetition(tools.hosts, clock);
  const services = createSpamServices({ http, log });
  let last = '';

  async function catchUp(): Promise<void> {
    // On SQLite there is no other daemon.
    if (last !== '' && store.dialect === 'sqlite') return;
    const rows = await recentSubmissions(store, last, MAX_FIELDS_LENGTH, MAX_CAUGHT_UP);
    last = rows[0]?.id ?? (last || ' ');
    for (const [index, { form, domain, fields, control }] of rows.reverse().entries()) {
      const text = readText({ fields: readFields(fields), control: readControl(control) }, domain);
      repetition.note({ words: tools.extract(text).words, links: text.links, email: text.email, form, domain });
      if (index % AT_ONCE === AT_ONCE - 1) await new Promise((resolve) => setImmediate(resolve));
    }
  }

  const filter = createSpamFilter({ tools, model, refusesMail, learning, repetition, services });
  return { filter, learning, catchUp };
}
