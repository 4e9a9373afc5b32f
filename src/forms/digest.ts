/**
 * The digest of a project: a mail to its owner with the submissions that were kept as spam and the notifications that failed
 * since the last one, where there are any. That it is sent is one unit with up to when it tells, so that each is sent once,
 * also after a crash and with several daemons. Links in it release or confirm each submission, and all of them.
 */
import type { KeyObject } from 'node:crypto';
import { responsible, type Project, type Snapshot } from '../config/snapshot.ts';
import { translationOf, type Language } from '../languages/languages.ts';
import { inRounds } from '../lib/batch.ts';
import type { Clock } from '../lib/clock.ts';
import { environmentOf } from '../lib/ids.ts';
import { systemMail } from '../queue/system-mail.ts';
import {
  beginDigests,
  countQuarantined,
  endDigests,
  failedNotifications,
  findDigest,
  moveDigest,
  quarantinedIds,
  type Span,
} from '../store/digests.ts';
import type { Statement } from '../store/statement.ts';
import { type Store, writeIfMet } from '../store/store.ts';
import { findSubmission } from '../store/submissions.ts';
import type { SubmissionRow } from '../store/tables.ts';
import { digestMail, entryOf, type DigestEntry } from './digest-mail.ts';
import { type DigestLink, OWNER_LINK_MS, ownerToken, ownerUrl, type OwnerLink } from './owner-links.ts';

export interface DigestParts {
  readonly store: Store;
  readonly clock: Clock;
  readonly snapshot: () => Snapshot;
  /** Signs the links. */
  readonly ownerKey: KeyObject;
  /** Tells the queue that there is something to do. */
  readonly wake: () => void;
}

const MINUTE = 60_000;
const HOUR = 3_600_000;
const DAY = 24 * HOUR;
/** When a digest is sent, in the time zone of its project. */
const SENT_AT_MS = 7 * HOUR;
const MONDAY = 1;
const STEPS = 100;
/** Submissions that a digest lists, and those that one of its links decides about at most. */
const MAX_LISTED = 50;
const MAX_DECIDED = 500;
const MAX_FAILED = 20;
/** Of what happened before, a digest does not tell: its links would not work for long. */
const MAX_SPAN_MS = 14 * DAY;

/** A job to run every few seconds: sends the digests that are due. */
export function createDigests(parts: DigestParts): () => Promise<void> {
  async function step(index: number): Promise<number | undefined> {
    const project = parts.snapshot().projects[index];
    if (project === undefined) return undefined;
    await sendDigest(project, parts);
    return index + 1;
  }

  return inRounds({ clock: parts.clock, every: MINUTE, steps: STEPS, start: 0, step });
}

async function sendDigest(project: Project, parts: DigestParts): Promise<void> {
  const { store, clock, wake } = parts;
  const { tenant, slug, config } = project;
  const { digest } = config.project;
  if (environmentOf(tenant) === 'test') return;
  const row = await findDigest(store, tenant, slug);
  if (digest === 'off') {
    if (row !== undefined) await store.write([endDigests({ tenant, project: slug })]);
    return;
  }
  const until = lastDue(clock.now(), { digest, timezone: config.settings.timezone });
  if (row === undefined) {
    await store.write([beginDigests({ tenant, project: slug, until })]);
    return;
  }
  if (row.until >= until) return;
  const span = { tenant, forms: formsOf(project), since: Math.max(row.until, until - MAX_SPAN_MS), until };
  const mail = await mailAbout(project, span, parts);
  const moved = moveDigest({ tenant, project: slug, from: row.until, until }, 1);
  if ((await writeIfMet(store, [moved, ...mail])) !== undefined && mail.length > 0) wake();
}

/** The statements that send the mail; none where there is nothing to tell. */
async function mailAbout(project: Project, span: Span, parts: DigestParts): Promise<Statement[]> {
  const { store, clock, snapshot, ownerKey } = parts;
  const { server } = snapshot();
  const count = await countQuarantined(store, span);
  const failed = await failedNotifications(store, span, MAX_FAILED);
  if (count === 0 && failed.length === 0) return [];
  const now = clock.now();

  function urlOf(link: OwnerLink): string {
    return ownerUrl(ownerToken(link, now + OWNER_LINK_MS, ownerKey), server);
  }

  const entries: DigestEntry[] = [];
  for (const id of await quarantinedIds(store, span, MAX_LISTED)) {
    // One after the other: only the beginning of each is kept.
    const row = await findSubmission(store, id);
    if (row === undefined) continue;
    const links = { view: { action: 'view', submission: id }, ham: { action: 'ham', submission: id } } as const;
    entries.push({
      ...entryOf(row, formOf(row, project)),
      view: urlOf(links.view),
      release: urlOf(links.ham),
      confirm: urlOf({ action: 'spam', submission: id }),
    });
  }
  const { tenant, since, until } = span;
  const all = { tenant, project: project.slug, since, until };
  const { subject, text, html } = digestMail({
    project: project.config.project.name,
    weekly: project.config.project.digest === 'weekly',
    timezone: project.config.settings.timezone,
    translation: translationOf(languageOf(project)),
    entries,
    count,
    releaseAll: urlOf({ action: 'release', ...all }),
    confirmAll: urlOf({ action: 'confirm', ...all }),
    failed,
  });
  const to = responsible(project, server).address;
  return systemMail({ tenant, to, subject, text, html }, server.server.hostname, now);
}

/** What the link of a digest is about, as it is now. */
export interface Quarantined {
  /** One after the other, because each may be large. */
  readonly ids: readonly string[];
  /** Of the project, which may be gone. */
  readonly language: Language | undefined;
}

/** The submissions of a digest that are still kept as spam: so many as are decided about at once. */
export async function quarantinedIn(
  { tenant, project: slug, since, until }: DigestLink,
  snapshot: Snapshot,
  store: Store,
): Promise<Quarantined> {
  const project = snapshot.projects.find((one) => one.tenant === tenant && one.slug === slug);
  if (project === undefined) return { ids: [], language: undefined };
  const ids = await quarantinedIds(store, { tenant, forms: formsOf(project), since, until }, MAX_DECIDED);
  return { ids, language: languageOf(project) };
}

/** The ids of the project's forms. */
function formsOf({ config: { domains, collections } }: Project): string[] {
  return [
    ...Object.entries(domains).flatMap(([name, { forms }]) => Object.keys(forms).map((key) => `${name}/${key}`)),
    ...Object.entries(collections).flatMap(([name, { forms }]) => Object.keys(forms).map((key) => `c/${name}/${key}`)),
  ];
}

function formOf({ form: id }: Pick<SubmissionRow, 'form'>, { config: { domains, collections } }: Project) {
  const [first = '', second = '', third] = id.split('/');
  return third === undefined ? domains[first]?.forms[second] : collections[second]?.forms[third];
}

/** The language of the first of its forms that has one. */
function languageOf(project: Project): Language {
  for (const form of formsOf(project)) {
    const language = formOf({ form }, project)?.theme?.language;
    if (language !== undefined) return language;
  }
  return 'en';
}

/** When the last digest was due, ms. */
export function lastDue(
  now: number,
  { digest, timezone }: { readonly digest: 'daily' | 'weekly'; readonly timezone: string },
): number {
  const midnight = Math.floor(localTimeOf(now, timezone) / DAY) * DAY;
  for (let days = 0; ; days++) {
    const local = midnight - days * DAY + SENT_AT_MS;
    // Twice: the offset may change between the guess and the moment itself.
    const guess = local - (localTimeOf(local, timezone) - local);
    const due = local - (localTimeOf(guess, timezone) - guess);
    if (due <= now && (digest === 'daily' || new Date(local).getUTCDay() === MONDAY)) return due;
  }
}

/** What the clocks there show, as if it were UTC. */
function localTimeOf(ms: number, timeZone: string): number {
  const format = new Intl.DateTimeFormat('en-US', {
    timeZone,
    hourCycle: 'h23',
    year: 'numeric',
    month: 'numeric',
    day: 'numeric',
    hour: 'numeric',
    minute: 'numeric',
  });
  const parts = new Map(format.formatToParts(ms).map(({ type, value }) => [type, Number(value)]));
  const [year = 0, month = 1, day = 1] = [parts.get('year'), parts.get('month'), parts.get('day')];
  return Date.UTC(year, month - 1, day, parts.get('hour'), parts.get('minute'));
}
