/** What went wrong, what to correct in which field, and the form again with all submitted values. */
import type { Form } from '../../config/forms.ts';
import type { FieldError } from '../../forms/check.ts';
import type { ErrorCode } from '../../contract/errors.ts';
import { wordsOf, type Refusal } from '../errors.ts';
import { html, type Content } from '../../lib/html.ts';
import { layout, mark, type Page } from './layout.ts';
import { refilledForm, type SubmittedValues } from './submitted.ts';

export interface ErrorPage {
  readonly refusal: Refusal;
  readonly requestId: string;
  readonly form?: Form | undefined;
  /** What was read of the body; undefined where nothing was. */
  readonly submitted?: SubmittedValues | undefined;
  /** Until the limit has room again, seconds. */
  readonly wait?: number | undefined;
  readonly formAction?: readonly string[];
  /** Where the form is sent again; undefined: where it came from. */
  readonly action?: string | undefined;
  readonly ancestors?: readonly string[];
}

const HEADINGS: Partial<Record<ErrorCode, string>> = {
  VALIDATION_FAILED: 'Please check the form',
  RATE_LIMITED: 'Too many requests',
  NOT_FOUND: 'Page not found',
  METHOD_NOT_ALLOWED: 'Page not found',
  ORIGIN_NOT_ALLOWED: 'Form not available from this page',
};

export function errorPage({
  refusal,
  requestId,
  form,
  submitted,
  wait,
  formAction,
  action,
  ancestors,
}: ErrorPage): Page {
  const faults = refusal.errors ?? [];
  const again =
    form !== undefined && submitted !== undefined
      ? refilledForm({ form, submitted, errors: faults, action })
      : undefined;
  const heading = HEADINGS[refusal.code] ?? 'Your message was not sent';
  return layout({
    title: `Error: ${heading}`,
    requestId,
    ...(again === undefined || formAction === undefined ? {} : { formAction }),
    ...(ancestors === undefined ? {} : { ancestors }),
    content: html`${mark('bad')}
<h1>${heading}</h1>
${form !== undefined && html`<p class="soft">${form.name}</p>\n`}<div class="alert" role="alert" tabindex="-1" autofocus>
<p>${wordsOf(refusal)}</p>
${faults.length > 0 && html`<ul>${inOrder(faults, again?.ids).map((fault) => faultLine(fault, again?.ids))}</ul>\n`}</div>
${advice({ code: refusal.code, givenBack: again !== undefined, wait })}
${again?.html}`,
  });
}

/** As the fields stand on the page; faults of the whole form first. */
function inOrder(faults: readonly FieldError[], ids: ReadonlyMap<string, string> = new Map()): readonly FieldError[] {
  const names = [...ids.keys()].map((name) => name.replace(/\[\]$/, ''));
  return faults.toSorted((a, b) => names.indexOf(a.field ?? '') - names.indexOf(b.field ?? ''));
}

function faultLine({ field = '', message }: FieldError, ids: ReadonlyMap<string, string> | undefined): Content {
  const id = ids?.get(field) ?? ids?.get(`${field}[]`);
  return id === undefined ? html`<li>${message}</li>` : html`<li><a href="#${id}">${message}</a></li>`;
}

function advice({ code, givenBack, wait }: { code: ErrorCode; givenBack: boolean; wait: number | undefined }): Content {
  if (code === 'NOT_FOUND' || code === 'METHOD_NOT_ALLOWED' || code === 'ORIGIN_NOT_ALLOWED') return undefined;
  if (code === 'OUTCOME_UNKNOWN') {
    return html`<p>Your message may have been received. Please wait a few minutes for a reply before you send it again.</p>`;
  }
  const when = wait === undefined ? '' : ` Please try again in ${waitWords(wait)}.`;
  if (!givenBack) {
    return html`<p>Nothing was sent.${when} Use your browser’s Back button to return to the form; most browsers keep what you entered.</p>`;
  }
  return code === 'UNAVAILABLE' || code === 'INTERNAL'
    ? html`<p>Your entries are below. Please wait a minute and send the form again.</p>`
    : html`<p>Please check the marked fields.</p>`;
}

/** "about 12 minutes", for a wait in seconds. */
function waitWords(seconds: number): string {
  if (seconds < 90) return 'about a minute';
  const minutes = Math.ceil(seconds / 60);
  return minutes < 90 ? `about ${minutes} minutes` : `about ${Math.ceil(minutes / 60)} hours`;
}
