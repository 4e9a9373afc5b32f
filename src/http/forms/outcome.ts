/**
 * How the sender of a form hears of its end: a browser by a page or a redirect, a script by JSON. And the page that somebody
 * sees who opens a form's address.
 */
import type { Form } from '../../config/snapshot.ts';
import {
  type Answer,
  json,
  languageHeaders,
  page,
  type Refusal,
  seeOther,
  shapeB,
  statusOf,
  visitorWords,
  wantsPage,
} from '../answer.ts';
import { isJson } from '../entries.ts';
import { type FormPath, formTargets, framers, mayUse, type RequestProgress, type FormRequest } from './request.ts';
import { isOwnOrigin, originOf } from '../cors.ts';
import { endpointOf, header, translationFor } from '../context.ts';
import type { Translation } from '../../languages/languages.ts';
import { html, type Content, type Html } from '../../lib/html.ts';
import type { CheckedRecord } from '../../dns/check.ts';
import type { ErrorCode } from '../../contract/errors.ts';
import { errorPage, type SubmittedValues } from '../pages/error.ts';
import { brandOf } from '../pages/brand.ts';
import { type Layout, layout, mark, type Page, paragraphs } from '../pages/layout.ts';

/** Faults that the visitor can do something about: a form's own `error_redirect` may speak of them. */
const CORRECTABLE = new Set<ErrorCode>([
  'VALIDATION_FAILED',
  'BODY_MALFORMED',
  'BLOCKED',
  'NO_FILE_UPLOADS',
  'FILES_TOO_BIG',
  'TOO_MANY_FILES',
  'BODY_TOO_LARGE',
  'RATE_LIMITED',
]);

/** The answer to a post that is refused. */
export function refusedForm(
  formRequest: FormRequest,
  refusal: Refusal,
  { form, submitted, records }: RequestProgress,
): Answer {
  const { exchange, domain, path } = formRequest;
  const status = statusOf(refusal);
  const { headers } = exchange.request;
  const translation = translationFor(exchange, form);
  if (!wantsPage(headers, isJson(headers['content-type']))) {
    const answer = shapeB(refusal, exchange.id, translation);
    return json(answer, status, { ...refusal.headers, ...languageHeaders(translation) });
  }
  const redirect = form?.config.error_redirect;
  if (redirect !== undefined && CORRECTABLE.has(refusal.code)) return seeOther(redirect);
  const brand = form && brandOf(form);
  const frame = { requestId: exchange.id, ancestors: framers({ ...formRequest, form }), translation, brand };
  if (records !== undefined && domain !== undefined) {
    const { text: sorry } = visitorWords(refusal, translation);
    const text = pendingText({ domain: domain.name, records, sorry, isPost: exchange.method === 'POST' }, translation);
    return page(failurePage(translation.say('heading.notActive'), text, frame), status);
  }
  if (refusal.code === 'FORM_NOT_FOUND' || refusal.code === 'DOMAIN_NOT_FOUND') {
    const text = notFoundText(path, domain?.name, translation);
    return page(failurePage(translation.say('heading.notFound'), text, frame), status);
  }
  const retry = refusal.code === 'RATE_LIMITED' ? Number(refusal.headers?.['Retry-After']) : undefined;
  const again = form && {
    submitted: submitted && sentFromHere(submitted, formRequest, form),
    formAction: formTargets(form),
    // Where it came from, but for an address that means another form when our page asks.
    action: path.kind === 'named' ? endpointOf(exchange, form) : undefined,
  };
  return page(errorPage({ ...frame, refusal, form, wait: retry, submitted, ...again }), status, refusal.headers);
}

/** What was submitted, to be sent again from our page: `_next` may be relative to the one where it began. */
function sentFromHere(submitted: SubmittedValues, formRequest: FormRequest, form: Form): SubmittedValues {
  const entries = submitted.entries.flatMap(([name, value]) => {
    if (name !== '_next') return [[name, value] as const];
    const next = nextPage(value, formRequest, form);
    return next === undefined ? [] : [[name, next] as const];
  });
  return { ...submitted, entries };
}

/** The answer to a post that was accepted; `next` is its field `_next`. */
export function acceptedForm(
  formRequest: FormRequest,
  form: Form,
  { id, next }: { readonly id: string; readonly next: string | undefined },
): Answer {
  const { exchange } = formRequest;
  const { headers } = exchange.request;
  const target = nextPage(next, formRequest, form) ?? form.config.redirect;
  if (wantsPage(headers, isJson(headers['content-type']))) {
    return target === undefined ? thankYou(formRequest, form) : seeOther(target);
  }
  const translation = translationFor(exchange, form);
  const message = thankYouText(form, translation);
  const answer = { success: true, ok: true, message, id, next: target ?? `${endpointOf(exchange, form)}?thanks` };
  return json(answer, 200, languageHeaders(translation));
}

/** What a visitor is told of success, on the page and in JSON. */
function thankYouText({ config }: Form, { say }: Translation): string {
  return config.thank_you ?? say(config.double_opt_in ? 'optin.sent' : 'thanks.text');
}

/** The page after a submission, for forms without a `redirect`. */
export function thankYou(formRequest: FormRequest, form: Form): Answer {
  const back = cameFrom(formRequest, form);
  const translation = translationFor(formRequest.exchange, form);
  const { say } = translation;
  const title = say('thanks.title');
  const brand = brandOf(form);
  const content = html`${mark('good')}
<h1>${title}</h1>
<div role="status">${paragraphs(thankYouText(form, translation))}</div>
${back !== undefined && html`<p class="actions"><a class="button" href="${back}">${say('thanks.back', { site: brand.name ?? new URL(back).host })}</a></p>`}`;
  return page(layout({ title, content, translation, brand, ancestors: framers({ ...formRequest, form }) }));
}

/** The page that `_next` names, where it is one that may use the form: no open redirect. */
function nextPage(next: string | undefined, formRequest: FormRequest, form: Form): string | undefined {
  if (next === undefined || next.trim() === '') return undefined;
  const url = URL.parse(next.trim(), cameFrom(formRequest, form));
  if (url === null || (url.protocol !== 'https:' && url.protocol !== 'http:') || url.username !== '') return undefined;
  return mayGoOn(url.origin, formRequest, form) ? url.href : undefined;
}

/** Where any page may use the form, a browser goes back to the site that it came from, or to where our own page says: that one was vetted. */
function mayGoOn(origin: string, { exchange }: FormRequest, { audience }: Form): boolean {
  if (!audience.anyone) return mayUse(origin, exchange, audience);
  const from = originOf(header(exchange.request, 'origin') ?? header(exchange.request, 'referer') ?? '');
  if (from === undefined) return false;
  const { request, snapshot } = exchange;
  return origin.toLowerCase() === from || isOwnOrigin(from, snapshot.server.server, request.headers.host);
}

/** The page that the post came from, else the domain's first one; our own, which sent it again, leads nowhere. */
function cameFrom({ exchange }: FormRequest, { audience }: Form): string | undefined {
  const from = header(exchange.request, 'referer') ?? header(exchange.request, 'origin') ?? '';
  const url = mayUse(originOf(from), exchange, audience) ? URL.parse(from) : null;
  if (url !== null && !url.pathname.endsWith(exchange.path)) return from;
  return audience.domain === undefined ? undefined : `https://${audience.domain}/`;
}

/** The page that a browser shows when somebody opens a form's address (`endpoint`). */
export function formAddress(form: Form, endpoint: string, translation: Translation): Answer {
  const { domain } = form.audience;
  const { say } = translation;
  const example = `<form method="post" action="${endpoint}">
  <label>Your email <input type="email" name="email" required></label>
  <label>Message <textarea name="message" required></textarea></label>
  <button>Send</button>
</form>`;
  const content = html`<h1>${form.name}</h1>
${domain === undefined ? html`<p>${say('address.textNoSite')}</p>` : html`<p>${say('address.text', { site: domain })}</p>\n<p><a href="https://${domain}/">${domain}</a></p>`}
<details>
<summary>${say('address.developer')}</summary>
<div lang="en" dir="ltr">
<p>Point your form to this address:</p>
<pre><code>${example}</code></pre>
<p>Scripts can send JSON or <code>FormData</code> with <code>fetch()</code>; the response is JSON.</p>
</div>
</details>`;
  return page(layout({ title: form.name, content, translation, brand: brandOf(form) }));
}

function failurePage(title: string, text: Html, frame: Omit<Layout, 'title' | 'content'>): Page {
  return layout({ ...frame, title, content: html`${mark('bad')}\n<h1>${title}</h1>\n${text}` });
}

/** Of a domain that is not verified: what its owner has to publish is behind one click. */
function pendingText({ domain, records, sorry, isPost }: Pending, translation: Translation): Html {
  const { say } = translation;
  const required = records.filter((record) => record.required);
  return html`${isPost && html`<div class="alert" role="alert" tabindex="-1" autofocus>\n<p>${say('form.nothingSent')}</p>\n</div>\n`}<p>${sorry}${
    isPost && ` ${say('form.useBack')}`
  }</p>
<details>
<summary>${say('pending.question', { domain })}</summary>
<p>${say('pending.records', { domain })}</p>
${required.map((record) => recordHtml(record, translation))}<p class="soft">${say('pending.checked')}</p>
</details>`;
}

interface Pending {
  readonly domain: string;
  readonly records: readonly CheckedRecord[];
  /** What the visitor is told. */
  readonly sorry: string;
  readonly isPost: boolean;
}

function recordHtml(record: CheckedRecord, translation: Translation): Content {
  const { say } = translation;
  return html`<dl class="record">
<dt>${say('pending.name')}</dt><dd><code>${record.name}</code></dd>
<dt>${say('pending.type')}</dt><dd><code>${record.type}</code></dd>
<dt>${say('pending.value')}</dt><dd><code>${record.value}</code></dd>
<dt>${say('pending.found')}</dt><dd>${foundWords(record, translation)}</dd>
</dl>
`;
}

function foundWords({ status, found, problem }: CheckedRecord, { say }: Translation): Content {
  if (status === 'ok') return html`<span class="good">${say('pending.ok')}</span>`;
  const words =
    problem === undefined
      ? html`<span>${say('pending.unchecked')}</span>`
      : html`<span class="${status !== 'unknown' && 'bad'}" lang="en" dir="ltr">${problem}</span>`;
  return found.length === 0 ? words : html`${words}${found.map((value) => html`<br><code>${value}</code>`)}`;
}

function notFoundText(path: FormPath, domain: string | undefined, { say }: Translation): Html {
  return html`<p>${say('error.FORM_NOT_FOUND')} ${say('form.nothingSent')}</p>
<details>
<summary>${say('form.detailsForOwner')}</summary>
<p lang="en" dir="ltr">${whatIsMissing(path, domain)} ${whereFormsAre(path)} Check the spelling, or run <code>postern config check</code>.</p>
</details>`;
}

function whatIsMissing(path: FormPath, domain: string | undefined): Html {
  if (path.kind === 'own') return html`This server has no form with the id <code>${path.id}</code>.`;
  if (path.kind === 'collection') {
    return html`This server has no form <code>${path.key}</code> in a collection <code>${path.collection}</code>.`;
  }
  const form = path.kind === 'named' ? path.name : (path.key ?? 'send');
  if (domain !== undefined) return html`The domain <code>${domain}</code> has no form <code>${form}</code>.`;
  return path.kind === 'named'
    ? html`This server has no forms for the domain of the page that sent this.`
    : html`This server has no forms for the domain <code>${path.domain}</code>.`;
}

const NAMED = html`<code>/submit/</code> must be followed by the id of a form, or by the key of a form of the page’s own domain.`;
const ADDRESSES = {
  domain: html`the domain and the form’s key in the project file, such as <code>/example.com/contact</code>`,
  collection: html`<code>/c/</code>, the collection and the form’s key, such as <code>/c/partners/signup</code>`,
  own: html`<code>/f/</code> and the form’s id, which begins with <code>frm_</code>`,
};

function whereFormsAre({ kind }: FormPath): Html {
  if (kind === 'named') return NAMED;
  return html`The <code>action</code> of the form must be this server’s address, ${ADDRESSES[kind]}.`;
}
