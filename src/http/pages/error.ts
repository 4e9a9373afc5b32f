/** What went wrong, what to correct in which field, and the form again with all submitted values. */
import type { Form } from '../../config/snapshot.ts';
import type { ErrorCode } from '../../contract/errors.ts';
import { localized, type MessageName, type Translation } from '../../languages/languages.ts';
import { type Refusal, type VisitorWords, visitorWords } from '../answer.ts';
import { html, type Content, type Html } from '../../lib/html.ts';
import { brandOf } from './brand.ts';
import { layout, mark, type Page } from './layout.ts';
import { enteredText, type Fault, refilledForm, type RefilledForm, type SubmittedValues } from './refill.ts';

export interface ErrorPage {
  readonly refusal: Refusal;
  readonly translation: Translation;
  readonly requestId: string;
  readonly form?: Form | undefined;
  /** What was read of the body; undefined where nothing was. */
  readonly submitted?: SubmittedValues | undefined;
  readonly formAction?: readonly string[];
  /** Where the form is sent again; undefined: where it came from. */
  readonly action?: string | undefined;
  /** Of this page, sent with the form. */
  readonly token?: string | undefined;
  readonly ancestors?: readonly string[];
  /** The `<turbo-frame>` that it is for. */
  readonly frame?: string | undefined;
}

const HEADINGS: Partial<Record<ErrorCode, MessageName>> = {
  VALIDATION_FAILED: 'heading.checkForm',
  RATE_LIMITED: 'heading.tooMany',
  NOT_FOUND: 'heading.pageNotFound',
  METHOD_NOT_ALLOWED: 'heading.pageNotFound',
  ORIGIN_NOT_ALLOWED: 'heading.notAvailable',
};

/** Refusals that the same form, sent from our own page, would not meet again: all others are not the visitor's to overcome. */
const SENDABLE = new Set<ErrorCode>([
  'VALIDATION_FAILED',
  'BODY_MALFORMED',
  'BODY_TOO_LARGE',
  'BLOCKED',
  'NO_FILE_UPLOADS',
  'FILES_TOO_BIG',
  'TOO_MANY_FILES',
  'RATE_LIMITED',
  'IDEMPOTENCY_CONFLICT',
  'INTERNAL',
  'UNAVAILABLE',
  'OUTCOME_UNKNOWN',
]);

/** Whether the form can be sent from our page: the captcha of a provider is on the site's own page alone. */
function isSendable({ code }: Refusal, { config }: Form): boolean {
  const { challenge } = config.spam_protection;
  if (typeof challenge !== 'string') return false;
  return SENDABLE.has(code) || code === 'CHALLENGE_REQUIRED' || code === 'CHALLENGE_FAILED';
}

/** Without it nobody could send the form from here. */
function needsScript(form: Form | undefined): boolean {
  return form?.config.spam_protection.challenge === 'pow';
}

/** The page of a refusal. */
export function errorPage(given: ErrorPage): Page {
  const { refusal, form, requestId, ancestors, frame, translation } = given;
  const { alert, advice, again, entered, detail } = composed(given);
  const heading = translation.say(HEADINGS[refusal.code] ?? 'heading.notSent');
  const brand = form && brandOf(form);
  // A form without a name has that of its key, which says nothing to a visitor.
  const named = form?.config.name === brand?.name ? undefined : form?.config.name;
  const content = html`${mark('bad')}
<h1>${heading}</h1>
${named !== undefined && html`<p class="soft">${named}</p>\n`}${alert}
${advice}
${again && html`<form${formAttributes(given, again)} novalidate>\n${again.content}\n</form>`}${entered}${detail}`;
  return layout({
    title: translation.say('heading.error', { heading }),
    translation,
    brand,
    requestId,
    formAction: again && given.formAction,
    needsScript: again && needsScript(form),
    ancestors,
    content: framed(content, frame),
  });
}

/** What is in the frame of the page that asked, if one did. */
export function framed(content: Html, frame: string | undefined): Html {
  return frame === undefined ? content : html`<turbo-frame id="${frame}">\n${content}\n</turbo-frame>`;
}

/**
 * The same for htmx. With `replaces` it takes the place of the form, whose `id` that may be; otherwise the form stays where
 * it is, and what was entered in it.
 */
export function errorFragment(given: ErrorPage, replaces: { readonly id: string | undefined } | undefined): Html {
  const { alert, advice, again, entered } = composed(given);
  if (replaces === undefined) return html`${alert}\n${advice}`;
  if (again === undefined) return html`<div>${alert}\n${advice}${entered}</div>`;
  const { action = '' } = given;
  const id = replaces.id !== undefined && html` id="${replaces.id}"`;
  const encoding = again.hasFiles && html` hx-encoding="multipart/form-data"`;
  return html`<form${id}${formAttributes(given, again)} hx-post="${action}" hx-target="this" hx-swap="outerHTML"${encoding}>
${alert}
${advice}
${again.content}
</form>`;
}

function formAttributes({ action, form }: ErrorPage, { hasFiles }: RefilledForm): Html {
  return html` method="post"${needsScript(form) && html` data-postern data-postern-redirect`}${action !== undefined && html` action="${action}"`}${hasFiles && html` enctype="multipart/form-data"`} accept-charset="utf-8"`;
}

interface Composed {
  /** The summary, which links to the fields. */
  readonly alert: Html;
  readonly advice: Content;
  readonly again: RefilledForm | undefined;
  readonly entered: Html | undefined;
  readonly detail: Content;
}

function composed({ refusal, form, submitted, token, translation }: ErrorPage): Composed {
  const errors = (refusal.errors ?? []).map(({ field, message }) => ({
    field,
    message: localized(message, translation),
  }));
  const words = visitorWords(refusal, translation);
  const refill = submitted && { config: form?.config ?? NO_RULES, submitted, errors, translation };
  const again =
    refill && form !== undefined && isSendable(refusal, form) ? refilledForm({ ...refill, token }) : undefined;
  const entered = refill && again === undefined ? enteredText(refill) : undefined;
  const faults = inOrder(errors, again?.ids);
  const isAlone = faults.length === 1 && idOf(faults[0], again?.ids) === undefined;
  const summary =
    faults.length === 0 || isAlone || refusal.message !== undefined
      ? words.text
      : translation.say('form.faults', { count: faults.length });
  const list = isAlone ? [] : faults;
  return {
    again,
    entered,
    detail: ownerDetail(words, translation),
    alert: html`<div class="alert" role="alert" tabindex="-1" autofocus>
<p>${summary}</p>
${list.length > 0 && html`<ul>${list.map((fault) => faultLine(fault, again?.ids))}</ul>\n`}</div>`,
    advice: advice(refusal, { isKept: again !== undefined || entered !== undefined, translation }),
  };
}

/** Where no form is known. */
export const NO_RULES = { fields: {}, spam_protection: { honeypot: '' } };

/** What is wrong in the words of the reference, for the owner of the site. */
function ownerDetail({ detail }: VisitorWords, { say }: Translation): Content {
  if (detail === undefined) return undefined;
  return html`<details>\n<summary>${say('form.detailsForOwner')}</summary>\n<p lang="en" dir="ltr">${detail}</p>\n</details>`;
}

/** As the fields stand on the page; faults of the whole form first. */
function inOrder(faults: readonly Fault[], ids: ReadonlyMap<string, string> = new Map()): readonly Fault[] {
  const names = [...ids.keys()].map((name) => name.replace(/\[\]$/, ''));
  return faults.toSorted((a, b) => names.indexOf(a.field ?? '') - names.indexOf(b.field ?? ''));
}

function idOf(fault: Fault | undefined, ids: ReadonlyMap<string, string> | undefined): string | undefined {
  return ids?.get(fault?.field ?? '') ?? ids?.get(`${fault?.field}[]`);
}

function faultLine(fault: Fault, ids: ReadonlyMap<string, string> | undefined): Content {
  const id = idOf(fault, ids);
  return id === undefined ? html`<li>${fault.message}</li>` : html`<li><a href="#${id}">${fault.message}</a></li>`;
}

interface Advice {
  /** Whether what was entered is on the page. */
  readonly isKept: boolean;
  readonly translation: Translation;
}

function advice({ code, errors = [] }: Refusal, { isKept, translation: { say } }: Advice): Content {
  if (code === 'NOT_FOUND' || code === 'METHOD_NOT_ALLOWED') return undefined;
  if (code === 'OUTCOME_UNKNOWN') return html`<p>${say('form.maybeReceived')}</p>`;
  if (isKept && (code === 'UNAVAILABLE' || code === 'INTERNAL')) return html`<p>${say('form.kept')}</p>`;
  const words = [
    ...(isKept ? [] : [say('form.nothingSent')]),
    ...(!isKept ? [say('form.useBack')] : errors.length > 0 ? [] : [say('form.below')]),
  ];
  return words.length > 0 && html`<p>${words.join(' ')}</p>`;
}
