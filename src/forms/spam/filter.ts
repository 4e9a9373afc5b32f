/**
 * Whether a submission is spam: a probability, with the reasons by name, so that its owner can see why. Each reason has
 * points, ten of which make spam ten times as likely; the probability is that of their sum. In time linear in the text, of
 * which the first 256 KiB are read. docs/spam.md says what counts for how much.
 */
import type { Snapshot } from '../../config/snapshot.ts';
import type { HttpClient } from '../../dns/guarded-fetch.ts';
import type { Clock } from '../../lib/clock.ts';
import { environmentOf } from '../../lib/ids.ts';
import type { Log } from '../../lib/log.ts';
import { recentSubmissions } from '../../store/spam.ts';
import type { Store } from '../../store/store.ts';
import { readControl, readFields } from '../fields.ts';
import { extract, type Features } from './features.ts';
import { createLearning, createTextFilter, readModel, type Learning, type Model, type Weights } from './model.ts';
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
        ...textReasons(text, features, learned),
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
const MAX_FIELDS_LENGTH = 20_000;
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
