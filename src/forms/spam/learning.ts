/**
 * Learns from the owners of forms: what they call spam, and what they release. It is kept in the database for each project,
 * in the unit that marks the submission, so that a decision is learned once or not made. Weights that are in use are held in
 * memory; those that another daemon has learned are active here within a minute.
 */
import type { Snapshot } from '../../config/snapshot.ts';
import type { Clock } from '../../lib/clock.ts';
import { Recent } from '../../lib/lru.ts';
import { errorFields } from '../../lib/errors.ts';
import type { Log } from '../../lib/log.ts';
import { findRevision } from '../../store/projects.ts';
import { findLearned, insertLearned, noteLearned, updateLearned } from '../../store/spam.ts';
import type { Statement } from '../../store/statement.ts';
import type { Store } from '../../store/store.ts';
import { listSubmissions } from '../../store/submission-list.ts';
import type { SubmissionRow } from '../../store/tables.ts';
import { readControl, readFields } from '../fields.ts';
import { findFormOf } from '../find.ts';
import type { Extract } from './features.ts';
import { learn, noWeights, readWeights, writeWeights, type Lesson, type Weights } from './learned.ts';
import { logOdds, type Model } from './model.ts';
import { readText } from './text.ts';

export interface ProjectKey {
  readonly tenant: string;
  /** Its slug; empty for forms that the API made. */
  readonly project: string;
}

/** What a decision adds to the unit that makes it. */
export interface Learned {
  /** They fail their unit where this, or another decision of the project, was learned meanwhile. */
  readonly statements: readonly Statement[];
  /** Called once the unit is committed. */
  readonly committed: () => void;
}

export interface Learning {
  /** What the project has learned; a promise only at its first use, which never rejects. */
  weightsOf(key: ProjectKey): Weights | undefined | Promise<Weights | undefined>;
  /** Learns that the submission is spam, or that it is not. */
  learn(row: SubmissionRow, isSpam: boolean): Promise<Learned>;
}

export interface LearningParts {
  readonly store: Store;
  readonly clock: Clock;
  readonly log: Log;
  readonly snapshot: () => Snapshot;
  readonly model: Model;
  readonly extract: Extract;
}

/** Projects whose weights are held, 64 KiB each. */
const MAX_PROJECTS = 100;
const FRESH_MS = 60_000;
/** So many of the submissions that the form accepted last must not become spam. */
const ACCEPTED = 40;
/** The same for texts that are longer than most: what is read of them at a decision is bounded. */
const MAX_FIELDS_LENGTH = 20_000;

interface Held {
  weights: Weights | undefined;
  loadedAt: number;
  isLoading: boolean;
}

export function createLearning({ store, clock, log, snapshot, model, extract }: LearningParts): Learning {
  const held = new Recent<Held>(MAX_PROJECTS);

  async function load({ tenant, project }: ProjectKey): Promise<Weights | undefined> {
    const row = await findLearned(store, tenant, project);
    return row && readWeights(row.weights);
  }

  async function refresh(key: ProjectKey, name: string): Promise<Weights | undefined> {
    const entry = held.get(name) ?? { weights: undefined, loadedAt: 0, isLoading: false };
    entry.isLoading = true;
    try {
      entry.weights = await load(key);
      held.set(name, entry);
    } catch (error) {
      // Without what was learned, the shipped model decides: no lead is refused for it.
      log.error('spam.learned_not_read', { ...key, ...errorFields(error) });
    } finally {
      entry.loadedAt = clock.monotonic();
      entry.isLoading = false;
    }
    return entry.weights;
  }

  function lessonOf({ fields, control, domain }: SubmissionRow): Lesson {
    const features = extract(readText({ fields: readFields(fields), control: readControl(control) }, domain));
    const { words, structure, phrases } = logOdds(model, features);
    return { features, odds: words + structure + phrases };
  }

  /** That of the form as it is now; where it is gone, as it was then. */
  async function projectOf({ tenant, form: id, revision }: SubmissionRow): Promise<ProjectKey> {
    const form = await findFormOf({ tenant, id }, snapshot(), store);
    if (form !== undefined) return { tenant, project: form.project?.slug ?? '' };
    const found = revision === '' ? undefined : await findRevision(store, revision);
    return { tenant, project: found?.slug ?? '' };
  }

  return {
    weightsOf(key) {
      const name = nameOf(key);
      const entry = held.get(name);
      if (entry === undefined) return refresh(key, name);
      if (!entry.isLoading && clock.monotonic() - entry.loadedAt > FRESH_MS) void refresh(key, name);
      return entry.weights;
    },
    async learn(row, isSpam) {
      const lesson = lessonOf(row);
      // Its text is not stored: there is nothing to learn from.
      if (lesson.features.tokens.length === 0) return { statements: [], committed: () => undefined };
      const key = await projectOf(row);
      const known = await findLearned(store, key.tenant, key.project);
      const { rows } = await listSubmissions(
        store,
        { tenant: row.tenant, form: row.form, status: 'accepted' },
        { limit: ACCEPTED },
      );
      const accepted = rows.filter(({ id, fields }) => id !== row.id && fields.length <= MAX_FIELDS_LENGTH);
      const before = known === undefined ? noWeights() : readWeights(known.weights);
      const weights = learn(before, { ...lesson, isSpam, accepted: accepted.map(lessonOf) });
      const next = {
        ...key,
        weights: writeWeights(weights),
        decisions: (known?.decisions ?? 0) + 1,
        updated_at: clock.now(),
      };
      return {
        statements: [
          noteLearned({ id: row.id, learned: isSpam ? 'spam' : 'ham' }, 1),
          known === undefined ? insertLearned(next, 1) : updateLearned({ ...next, before: known.decisions }, 1),
        ],
        committed: () => held.set(nameOf(key), { weights, loadedAt: clock.monotonic(), isLoading: false }),
      };
    },
  };
}

function nameOf({ tenant, project }: ProjectKey): string {
  return `${tenant}/${project}`;
}
