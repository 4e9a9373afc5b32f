/**
 * The digest of a project: a mail to its owner with the submissions that were kept as spam and the notifications that failed
 * since the last one, where there are any. That it is sent is one unit with up to when it tells, so that each is sent once,
 * also after a crash and with several daemons. Links in it release or confirm each submission, and all of them.
 */
import type { KeyObject } from 'node:crypto';
import type { FormConfig } from '../config/schema.ts';
import { responsible, type Project, type Snapshot } from '../config/snapshot.ts';
import { dateFormat, translationOf, type Language, type Translation } from '../languages/languages.ts';
import { inRounds } from '../lib/batch.ts';
import type { Clock } from '../lib/clock.ts';
import { escapeHtml } from '../lib/html.ts';
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
  type FailedNotifications,
  type Span,
} from '../store/digests.ts';
import type { Statement } from '../store/statement.ts';
import { writeIfMet, type Store } from '../store/store.ts';
import { findSubmission } from '../store/submissions.ts';
import type { SubmissionRow } from '../store/tables.ts';
import {
  bodyText,
  firstRow,
  labelText,
  lastRow,
  link,
  links,
  mailPage,
  row,
  smallText,
  titleText,
  valueText,
  visitorName,
} from '../templates/builtin.ts';
import { emailOf, isEmailField, readFields, readReasons, valuesOf } from './fields.ts';
import { OWNER_LINK_MS, ownerToken, ownerUrl, type DigestLink, type OwnerLink } from './owner-links.ts';

interface DigestParts {
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
interface Quarantined {
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

// What a digest says. What visitors wrote is in it bounded and inert: no mail program makes a link of it, because most of
// it is spam.

/** A submission that is kept as spam. */
interface QuarantinedText {
  readonly form: string;
  /** ms */
  readonly at: number;
  readonly sender: string;
  /** How it begins. */
  readonly words: string;
  readonly reasons: readonly string[];
}

/** The same with its links. */
interface DigestEntry extends QuarantinedText {
  readonly view: string;
  readonly release: string;
  readonly confirm: string;
}

interface Digest {
  readonly project: string;
  readonly weekly: boolean;
  readonly timezone: string;
  readonly translation: Translation;
  readonly entries: readonly DigestEntry[];
  /** Of all that are kept as spam, listed or not. */
  readonly count: number;
  readonly releaseAll: string;
  readonly confirmAll: string;
  readonly failed: readonly FailedNotifications[];
}

const MAX_WORDS_CHARACTERS = 200;
const MAX_SENDER_CHARACTERS = 120;
const MAX_REASONS = 3;
const MAX_REASON_CHARACTERS = 120;
const MAX_REPLY_CHARACTERS = 200;

/** The submission in a few words; `config` is its form's, where that is still there. */
export function entryOf(submission: SubmissionRow, config: FormConfig | undefined): QuarantinedText {
  const fields = readFields(submission.fields);
  const name = visitorName(fields);
  const address = config === undefined ? undefined : emailOf(fields, config);
  const sender = [name, address && (name === undefined ? address : `<${address}>`)].filter(Boolean).join(' ');
  const otherFields = fields.filter(([key]) => config === undefined || !isEmailField(key, config));
  const texts = otherFields.map(([, value]) => valuesOf(value).join(', ')).filter((text) => text.trim() !== name);
  return {
    form: inert(config?.name ?? submission.form, MAX_SENDER_CHARACTERS),
    at: submission.created_at,
    sender: line(sender, MAX_SENDER_CHARACTERS),
    words: inert(texts.join(' · '), MAX_WORDS_CHARACTERS),
    reasons: readReasons(submission.spam_reasons)
      .filter(({ score }) => score > 0)
      .slice(0, MAX_REASONS)
      .map(({ detail }) => inert(detail, MAX_REASON_CHARACTERS)),
  };
}

/** One line of at most so many characters. */
function line(text: string, most: number): string {
  const squished = text
    .slice(0, 20 * most)
    .replaceAll(/[\p{C}\p{Z}\s]+/gu, ' ')
    .trim();
  const characters = Array.from(squished);
  return characters.length <= most ? squished : `${characters.slice(0, most - 1).join('')}…`;
}

/** The same without anything that a mail program would make a link of. */
function inert(text: string, most: number): string {
  return line(text, most)
    .replaceAll(/:\/\//g, ': //')
    .replaceAll(/(?<=[\p{L}\p{N}-])\.(?=\p{L})/gu, '[.]');
}

/** The mail. */
export function digestMail(digest: Digest): { subject: string; text: string; html: string } {
  const { project, count, failed, translation } = digest;
  const { say } = translation;
  const failures = failed.reduce((sum, { count: some }) => sum + some, 0);
  const subject =
    count > 0 ? say('digest.subject', { project, count }) : say('digest.subjectFailed', { project, count: failures });
  return { subject, text: textOf(digest), html: mailPage(subject, rowsOf(digest), translation) };
}

function intro({ count, translation: { say } }: Digest): string {
  return `${say('digest.kept', { count })} ${say('digest.decide')}`;
}

function more({ count, entries, translation: { say } }: Digest): string | undefined {
  const left = count - entries.length;
  return left > 0 ? say('digest.more', { count: left }) : undefined;
}

function why({ weekly, translation: { say } }: Digest): string {
  return say(weekly ? 'digest.whyWeekly' : 'digest.whyDaily');
}

function failureOf({ form, recipient, count, reply }: FailedNotifications, { say }: Translation): string {
  const words = say('digest.failedOne', { form, recipient, count });
  return reply === null ? words : `${words} ${line(reply, MAX_REPLY_CHARACTERS)}`;
}

function textOf(digest: Digest): string {
  const { project, count, entries, failed, translation, timezone, releaseAll, confirmAll } = digest;
  const { say, language } = translation;
  const time = dateFormat(language, timezone);
  const paragraphs = [project];
  if (count > 0) {
    paragraphs.push(intro(digest));
    for (const { form, at, sender, words, reasons, view, release, confirm } of entries) {
      const facts = [`${form}, ${time(at)}`, sender, words, reasons.join('; ')].filter((text) => text !== '');
      const urls = [
        `${say('owner.hamButton')}:\n${release}`,
        `${say('owner.confirmButton')}:\n${confirm}`,
        `${say('mail.view')}:\n${view}`,
      ];
      paragraphs.push(`----\n${facts.join('\n')}`, urls.join('\n'));
    }
    paragraphs.push('----', ...[more(digest) ?? []].flat());
    if (count > 1)
      paragraphs.push(
        `${say('owner.releaseAllButton')}:\n${releaseAll}\n${say('owner.confirmAllButton')}:\n${confirmAll}`,
      );
  }
  if (failed.length > 0)
    paragraphs.push(say('digest.failed'), failed.map((each) => `- ${failureOf(each, translation)}`).join('\n'));
  return `${[...paragraphs, why(digest)].join('\n\n')}\n`;
}

function rowsOf(digest: Digest): string[] {
  const { project, count, entries, failed, translation, timezone, releaseAll, confirmAll } = digest;
  const { say, language } = translation;
  const time = dateFormat(language, timezone);
  const rows = [
    firstRow([titleText(escapeHtml(project)), ...(count > 0 ? [bodyText(escapeHtml(intro(digest)))] : [])]),
    ...entries.map(({ form, at, sender, words, reasons, view, release, confirm }) =>
      row([
        labelText(escapeHtml(`${form}, ${time(at)}`)),
        ...(sender === '' ? [] : [valueText(`<strong>${escapeHtml(sender)}</strong>`)]),
        valueText(escapeHtml(words)),
        smallText(escapeHtml(reasons.join('; '))),
        `<div style="padding-top:8px">${valueText(
          links([
            link(release, escapeHtml(say('owner.hamButton'))),
            link(confirm, escapeHtml(say('owner.confirmButton'))),
            link(view, escapeHtml(say('mail.view'))),
          ]),
        )}</div>`,
      ]),
    ),
  ];
  const left = more(digest);
  if (left !== undefined) rows.push(row([smallText(escapeHtml(left))]));
  if (count > 1) {
    const all = [
      link(releaseAll, escapeHtml(say('owner.releaseAllButton'))),
      link(confirmAll, escapeHtml(say('owner.confirmAllButton'))),
    ];
    rows.push(row([valueText(links(all))]));
  }
  if (failed.length > 0) {
    const items = failed.map((each) => bodyText(escapeHtml(failureOf(each, translation))));
    rows.push(row([labelText(escapeHtml(say('digest.failed'))), ...items]));
  }
  return [...rows, lastRow([smallText(escapeHtml(why(digest)))])];
}
