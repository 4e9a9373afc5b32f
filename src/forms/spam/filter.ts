/**
 * Whether a submission is spam: a probability, with the reasons by name, so that its owner can see why. Each reason has
 * points, ten of which make spam ten times as likely; the probability is that of their sum. In time linear in the text, of
 * which the first 256 KiB are read. docs/spam.md says what counts for how much.
 */
import { deflateRawSync, inflateRawSync } from 'node:zlib';
import type { Snapshot } from '../../config/snapshot.ts';
import type { HttpClient } from '../../dns/guarded-fetch.ts';
import type { Clock } from '../../lib/clock.ts';
import { errorFields } from '../../lib/errors.ts';
import { environmentOf } from '../../lib/ids.ts';
import type { Log } from '../../lib/log.ts';
import { LruMap } from '../../lib/lru.ts';
import { findRevision } from '../../store/projects.ts';
import { findLearned, insertLearned, noteLearned, recentSubmissions, updateLearned } from '../../store/spam.ts';
import type { Statement } from '../../store/statement.ts';
import type { Store } from '../../store/store.ts';
import { listSubmissions } from '../../store/submission-list.ts';
import type { SubmissionRow } from '../../store/tables.ts';
import { readControl, readFields } from '../fields.ts';
import { findFormOf } from '../find.ts';
import {
  createTextFilter,
  extract,
  logOdds,
  pointsFor,
  readModel,
  shareOf,
  type Features,
  type Model,
} from './model.ts';
import { createSpamServices, type SpamServices } from './services.ts';
import {
  blockedBy,
  createRepetition,
  disguiseReasons,
  disposableReasons,
  gibberishReasons,
  headerReasons,
  linkReasons,
  NO_MX_POINTS,
  noMx,
  probeReasons,
  repetitionReasons,
  visitReasons,
  type Reason,
  type RefusesMail,
  type Repetition,
} from './signs.ts';
import { readText, type Rules, type SpamInput, type Text } from './text.ts';

export interface SpamVerdict {
  readonly verdict: 'accept' | 'spam';
  /** How likely it is spam, in percent. */
  readonly score: number;
  readonly reasons: readonly Reason[];
}

/** Rates a submission by its form's `spam_protection`; a promise only where somebody has to be asked. */
export type SpamFilter = (form: Rules, submission: SpamInput) => SpamVerdict | Promise<SpamVerdict>;

/** Spam from this probability on. */
const SPAM_FROM = { normal: 0.79, strict: 0.6 } as const;
const CERTAIN = 100;

interface SpamFilterParts {
  readonly model: Model;
  readonly refusesMail: RefusesMail;
  readonly learning?: Pick<Learning, 'weightsOf'>;
  readonly repetition?: Repetition;
  readonly services?: SpamServices;
}

/** The spam filter. It asks DNS whether the visitor's domain takes mail where that alone decides, and services where the form names some. */
export function createSpamFilter(parts: SpamFilterParts): SpamFilter {
  const { refusesMail, learning, services } = parts;
  const check = createSpamCheck(parts);

  return (form, submission) => {
    const weights = learning?.weightsOf({ tenant: form.tenant, project: form.project?.slug ?? '' });
    return weights instanceof Promise
      ? weights.then((loaded) => withQuestions(form, submission, check(form, submission, loaded)))
      : withQuestions(form, submission, check(form, submission, weights));
  };

  function withQuestions(
    form: Rules,
    submission: SpamInput,
    { verdict, domain }: Checked,
  ): SpamVerdict | Promise<SpamVerdict> {
    const { level, content_filter: filters, akismet, rspamd } = form.config.spam_protection;
    if (!filters || verdict.verdict === 'spam') return verdict;
    const asksDns = domain !== undefined && probability(pointsOf(verdict) + NO_MX_POINTS) >= SPAM_FROM[level];
    const asksServices = services !== undefined && (akismet !== undefined || rspamd !== undefined);
    if (!asksDns && !asksServices) return verdict;
    return ask();

    async function ask(): Promise<SpamVerdict> {
      const found = await Promise.all([
        asksDns && domain !== undefined ? askDns(domain) : [],
        asksServices ? services.ask(form, submission) : [],
      ]);
      const reasons = found.flat();
      return reasons.length === 0 ? verdict : verdictOf([...verdict.reasons, ...reasons], level);
    }
  }

  async function askDns(domain: string): Promise<Reason[]> {
    return (await refusesMail(domain)) ? [noMx(domain)] : [];
  }
}

interface Checked {
  readonly verdict: SpamVerdict;
  /** Of the visitor's address. */
  readonly domain: string | undefined;
}

/** What the submission itself says, and what was posted before. */
type SpamCheck = (form: Rules, submission: SpamInput, learned?: Weights) => Checked;

/** The check by a model; without `repetition` it does not see what other forms get. */
export function createSpamCheck({ model, repetition }: Pick<SpamFilterParts, 'model' | 'repetition'>): SpamCheck {
  const textReasons = createTextFilter(model);

  return (form, submission, learned) => {
    const { level, content_filter: filters, blocklist } = form.config.spam_protection;
    const reasons: Reason[] = [];
    const [trap] = submission.control.trapped;
    if (trap !== undefined) {
      reasons.push({ name: 'honeypot', score: CERTAIN, detail: `the field ${trap.slice(0, 60)} was filled in` });
    }
    if (!filters && blocklist.length === 0) return { verdict: verdictOf(reasons, level), domain: undefined };
    const text = readText(submission, form.domain, form.config);
    const blocked = blockedBy(blocklist, { text: text.text, ip: submission.ip });
    if (blocked !== undefined) reasons.push({ name: 'blocklist', score: CERTAIN, detail: blocked });
    const domain = text.email?.slice(text.email.lastIndexOf('@') + 1);
    // What is certain needs no other reason.
    if (filters && reasons.length === 0) {
      const features = extract(text);
      reasons.push(
        ...textReasons(text, features),
        ...learnedReasons(learned, features),
        ...contentReasons(form, text, features),
        ...disposableReasons(domain),
        ...visitReasons(submission.visit ?? {}),
        ...repeated(form, text, features),
      );
    }
    return { verdict: verdictOf(reasons, level), domain };
  };

  function repeated({ id: form, domain, tenant }: Rules, { links, email }: Text, { words }: Features): Reason[] {
    if (repetition === undefined || environmentOf(tenant) === 'test') return [];
    return repetition.note({ words, links, email, form, domain });
  }
}

function contentReasons(form: Rules, text: Text, { words }: Features): Reason[] {
  const hasLinks = text.links.length > 0;
  return [
    ...linkReasons(text),
    ...headerReasons(text.values, text.text),
    ...probeReasons(text.values),
    ...repetitionReasons(text, words),
    ...disguiseReasons(text.text, () => ownTexts(form), hasLinks),
    ...gibberishReasons(text.values),
  ];
}

/** The words that the form itself shows to its visitors, as far as the configuration knows them. */
function ownTexts({ config }: Rules): string {
  const labels = Object.values(config.fields).map(({ label }) => label ?? '');
  return [config.name ?? '', config.thank_you ?? '', ...labels].join('\n');
}

function pointsOf({ reasons }: Pick<SpamVerdict, 'reasons'>): number {
  return reasons.reduce((points, { score }) => points + score, 0);
}

/** The probability that so many points stand for. */
function probability(points: number): number {
  return 1 / (1 + 10 ** (-points / 10));
}

/** The verdict of all reasons at this level. */
export function verdictOf(reasons: readonly Reason[], level: keyof typeof SPAM_FROM): SpamVerdict {
  const likely = reasons.length === 0 ? 0 : probability(pointsOf({ reasons }));
  return { verdict: likely >= SPAM_FROM[level] ? 'spam' : 'accept', score: Math.round(likely * 100), reasons };
}

// What a project has learned: weights of words that are added to those of the shipped model, which is where every project
// starts. A decision moves the weights of the words of its submission just so far that it would have been decided so, and
// never so far that what the form accepted lately would be spam.

/** Words share these: a power of two. */
const LEARNED_BUCKETS = 2 ** 16;
/** What a unit of a weight is, in log-odds of a text with one word. */
const UNIT = 0.025;
const MAX_WEIGHT = 127;
const MAX_LEARNED_POINTS = 40;

/** By bucket, in units. */
type Weights = Int8Array;

/** Nothing learned yet. */
function noWeights(): Weights {
  return new Int8Array(LEARNED_BUCKETS);
}

function writeWeights(weights: Weights): Uint8Array {
  return deflateRawSync(weights);
}

function readWeights(bytes: Uint8Array): Weights {
  const weights = new Int8Array(inflateRawSync(bytes, { maxOutputLength: LEARNED_BUCKETS }));
  return weights.length === LEARNED_BUCKETS ? weights : noWeights();
}

/** The log-odds that a text is spam, which the project's decisions add. */
function learnedOdds(weights: Weights, { tokens }: Pick<Features, 'tokens'>): number {
  let sum = 0;
  for (const token of tokens) sum += weights[token % LEARNED_BUCKETS] ?? 0;
  return sum * UNIT * shareOf(tokens.length);
}

/** What the project has learned says of a text. */
function learnedReasons(weights: Weights | undefined, features: Features): Reason[] {
  const score = weights === undefined ? 0 : pointsFor(learnedOdds(weights, features), MAX_LEARNED_POINTS);
  if (score === 0) return [];
  return [
    { name: 'learned', score, detail: `similar to submissions that were ${score > 0 ? 'marked as spam' : 'released'}` },
  ];
}

/** A submission, and what all but the learned weights say of it, in log-odds. */
interface Lesson {
  readonly features: Pick<Features, 'tokens'>;
  readonly odds: number;
}

interface Decision extends Lesson {
  readonly isSpam: boolean;
  /** What the form accepted lately. */
  readonly accepted: readonly Lesson[];
}

/** Sure enough, in log-odds: beyond either threshold. */
const MARGIN = 3.5;
/** What was accepted stays below this, where it was before. */
const HONEST_MARGIN = -1;
/** One decision says no more than that, however wrong the filter was. */
const MAX_STEP = 10;
const ROUNDS = 4;

/** The weights after the decision; those given stay as they are. */
function learn(before: Weights, { features, odds, isSpam, accepted }: Decision): Weights {
  const weights = Int8Array.from(before);
  const margins = accepted.map((lesson) => Math.max(HONEST_MARGIN, lesson.odds + learnedOdds(before, lesson.features)));
  for (let round = 0; round < ROUNDS; round++) {
    const now = odds + learnedOdds(weights, features);
    const missing = isSpam ? Math.max(0, MARGIN - now) : Math.min(0, -MARGIN - now);
    move(weights, features, Math.max(-MAX_STEP, Math.min(MAX_STEP, missing)));
    if (!isSpam) break;
    for (const [index, lesson] of accepted.entries()) {
      const above = lesson.odds + learnedOdds(weights, lesson.features) - (margins[index] ?? 0);
      if (above > 0) move(weights, lesson.features, -above);
    }
  }
  return weights;
}

/** Moves the log-odds of the text by so much, all its words alike. */
function move(weights: Weights, { tokens }: Lesson['features'], odds: number): void {
  if (odds === 0 || tokens.length === 0) return;
  const counts = new Map<number, number>();
  for (const token of tokens) counts.set(token % LEARNED_BUCKETS, (counts.get(token % LEARNED_BUCKETS) ?? 0) + 1);
  const step = odds / (UNIT * shareOf(tokens.length) * tokens.length);
  for (const bucket of counts.keys()) {
    const next = Math.round((weights[bucket] ?? 0) + step);
    weights[bucket] = Math.max(-MAX_WEIGHT, Math.min(MAX_WEIGHT, next));
  }
}

// Learns from the owners of forms: what they call spam, and what they release. It is kept in the database for each project,
// in the unit that marks the submission, so that a decision is learned once or not made. Weights that are in use are held in
// memory; those that another daemon has learned are active here within a minute.

interface ProjectKey {
  readonly tenant: string;
  /** Its slug; empty for forms that the API made. */
  readonly project: string;
}

/** What a decision adds to the unit that makes it. */
interface Learned {
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

interface LearningParts {
  readonly store: Store;
  readonly clock: Clock;
  readonly log: Log;
  readonly snapshot: () => Snapshot;
  readonly model: Model;
}

/** Projects whose weights are held, 64 KiB each. */
const MAX_PROJECTS = 100;
const FRESH_MS = 60_000;
/** So many of the submissions that the form accepted last must not become spam. */
const ACCEPTED = 40;
/** Longer texts are not read again: what a decision and a start take is bounded. */
const MAX_FIELDS_LENGTH = 20_000;

interface Held {
  weights: Weights | undefined;
  loadedAt: number;
  isLoading: boolean;
}

function createLearning({ store, clock, log, snapshot, model }: LearningParts): Learning {
  const held = new LruMap<Held>(MAX_PROJECTS);

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

interface SpamProtection {
  readonly filter: SpamFilter;
  readonly learning: Learning;
  /** A job: reads what was posted before this daemon started, and what is posted to others. */
  readonly catchUp: () => Promise<void>;
}

interface SpamProtectionParts {
  readonly store: Store;
  readonly clock: Clock;
  readonly log: Log;
  readonly snapshot: () => Snapshot;
  readonly refusesMail: RefusesMail;
  /** Guarded, for the services that forms name. */
  readonly http: Pick<HttpClient, 'request'>;
}

/** Of the submissions that are stored, so many are compared with what is posted next. */
const MAX_CAUGHT_UP = 1000;
/** So many are read between two turns of the event loop. */
const AT_ONCE = 50;

/** The shipped model, once it is read. */
let shipped: Model | undefined;

/** Spam protection of a daemon: the filter, what it learns, and what forms have in common. */
export function createSpamProtection({
  store,
  clock,
  log,
  snapshot,
  refusesMail,
  http,
}: SpamProtectionParts): SpamProtection {
  const model = (shipped ??= readModel());
  const learning = createLearning({ store, clock, log, snapshot, model });
  const repetition = createRepetition(clock);
  const services = createSpamServices({ http, log });
  let last = '';

  async function catchUp(): Promise<void> {
    // On SQLite there is no other daemon.
    if (last !== '' && store.dialect === 'sqlite') return;
    const rows = await recentSubmissions(store, last, MAX_FIELDS_LENGTH, MAX_CAUGHT_UP);
    last = rows[0]?.id ?? (last || ' ');
    for (const [index, { form, domain, fields, control }] of rows.reverse().entries()) {
      const text = readText({ fields: readFields(fields), control: readControl(control) }, domain);
      repetition.note({ words: extract(text).words, links: text.links, email: text.email, form, domain });
      if (index % AT_ONCE === AT_ONCE - 1) await new Promise((resolve) => setImmediate(resolve));
    }
  }

  const filter = createSpamFilter({ model, refusesMail, learning, repetition, services });
  return { filter, learning, catchUp };
}
