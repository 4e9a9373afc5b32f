/**
 * What a digest says. What visitors wrote is in it bounded and inert: no mail program makes a link of it, because most of
 * it is spam.
 */
import type { FormConfig } from '../config/schema.ts';
import { dateFormat, type Translation } from '../languages/languages.ts';
import { escapeHtml } from '../lib/html.ts';
import type { FailedNotifications } from '../store/digests.ts';
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

/** A submission that is kept as spam. */
export interface QuarantinedText {
  readonly form: string;
  /** ms */
  readonly at: number;
  readonly sender: string;
  /** How it begins. */
  readonly words: string;
  readonly reasons: readonly string[];
}

/** The same with its links. */
export interface DigestEntry extends QuarantinedText {
  readonly view: string;
  readonly release: string;
  readonly confirm: string;
}

export interface Digest {
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
  const others = fields.filter(([key]) => config === undefined || !isEmailField(key, config));
  const texts = others.map(([, value]) => valuesOf(value).join(', ')).filter((text) => text.trim() !== name);
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
