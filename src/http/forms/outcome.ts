/**
 * How the sender of a form hears of its end: a browser by a page or a redirect, a script by JSON, htmx by a fragment. And the
 * page that somebody sees who opens a form's address.
 */
import type { Form } from '../../config/snapshot.ts';
import {
  type Answer,
  fragment,
  json,
  languageHeaders,
  page,
  type Refusal,
  seeOther,
  shapeB,
  statusOf,
  visitorWords,
} from '../answer.ts';
import {
  type Client,
  clientOf,
  type FormPath,
  formTargets,
  framers,
  mayUse,
  type RequestProgress,
  type FormRequest,
} from './request.ts';
import { endpointOf, header, isOwnOrigin, originOf, translationFor } from '../context.ts';
import type { Translation } from '../../languages/languages.ts';
import { html, type Content, type Html } from '../../lib/html.ts';
import { controlRoles } from '../../forms/fields.ts';
import type { CheckedRecord } from '../../dns/check.ts';
import type { ErrorCode } from '../../contract/errors.ts';
import { errorFragment, errorPage, framed, NO_RULES, type ErrorPage } from '../pages/error.ts';
import { enteredText, type SubmittedValues } from '../pages/refill.ts';
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
  { form, submitted, records, token }: RequestProgress,
): Answer {
  const { context, path } = formRequest;
  const status = statusOf(refusal);
  const { headers } = context.request;
  const client = clientOf(headers);
  const translation = translationFor(context, form);
  if (client === 'program') {
    const answer = shapeB(refusal, context.id, translation);
    return json(answer, status, { ...refusal.headers, ...languageHeaders(translation) });
  }
  const redirect = form?.config.error_redirect;
  if (redirect !== undefined && CORRECTABLE.has(refusal.code)) return goTo(redirect, formRequest);
  const frame = { requestId: context.id, ancestors: framers({ ...formRequest, form }), translation };
  const explained = client === 'htmx' ? undefined : explanation(formRequest, refusal, { records, translation });
  if (explained !== undefined) {
    const config = form?.config ?? NO_RULES;
    const entered = submitted && enteredText({ config, submitted, translation });
    const text = html`${explained.text}${entered}`;
    return page(
      failurePage(explained.title, text, { ...frame, brand: form && brandOf(form), inFrame: turboFrame(formRequest) }),
      status,
    );
  }
  const parts: ErrorPage = {
    ...frame,
    refusal,
    form,
    frame: turboFrame(formRequest),
    submitted: submitted && form && sentFromHere(submitted, formRequest, form),
    ...(form && { formAction: formTargets(form), token: token?.(form) }),
    // Where it came from, but for an address that means another form when our page asks, and for a page that is not ours.
    action: form && (path.kind === 'named' || IN_PAGES.has(client)) ? endpointOf(context, form) : undefined,
  };
  if (client !== 'htmx') return page(errorPage(parts), status, refusal.headers);
  const replaces = replacedForm(formRequest);
  const swap = replaces === undefined ? undefined : { 'HX-Reswap': 'outerHTML' };
  const more = { ...refusal.headers, ...swap, ...languageHeaders(translation) };
  return fragment(errorFragment(parts, replaces), status, more);
}

/** What a page says of a form that is not there or not active, instead of giving it back. */
function explanation(
  { context, domain, path }: FormRequest,
  refusal: Refusal,
  { records, translation }: Pick<RequestProgress, 'records'> & { readonly translation: Translation },
): { title: string; text: Html } | undefined {
  const { code } = refusal;
  const { say } = translation;
  if (records !== undefined && domain !== undefined) {
    const { text: sorry } = visitorWords(refusal, translation);
    const pending = { domain: domain.name, records, sorry, isPost: context.method === 'POST' };
    return { title: say('heading.notActive'), text: pendingText(pending, translation) };
  }
  if (code !== 'FORM_NOT_FOUND' && code !== 'DOMAIN_NOT_FOUND') return undefined;
  return { title: say('heading.notFound'), text: notFoundText(path, domain?.name, translation) };
}

/** Clients that show the answer on the page of the form. */
const IN_PAGES = new Set<Client>(['htmx', 'visit']);

/** Where a browser goes on; htmx follows no redirect to another page by itself. */
function goTo(location: string, { context }: FormRequest): Answer {
  if (clientOf(context.request.headers) !== 'htmx') return seeOther(location);
  return { status: 200, type: 'text/html; charset=utf-8', body: '', headers: { 'HX-Redirect': location } };
}

const MAX_ID_LENGTH = 200;

/** The frame of a Turbo page that asks, and takes nothing but what is in such a frame. */
function turboFrame({ context }: FormRequest): string | undefined {
  return header(context.request, 'turbo-frame')?.slice(0, MAX_ID_LENGTH);
}

/**
 * The form that the answer to htmx takes the place of; undefined where its page names another place for the answer. Both are
 * ids in htmx 2 (`HX-Trigger` is the form's), and `form#id` in htmx 4, which calls the form `HX-Source`.
 */
function replacedForm({ context: { request } }: FormRequest): { id: string | undefined } | undefined {
  const target = header(request, 'hx-target');
  const form = header(request, 'hx-trigger') ?? header(request, 'hx-source');
  if (target !== undefined && target !== form) return undefined;
  const id = target?.includes('#') === true ? target.slice(target.indexOf('#') + 1) : target;
  const isTag = id === target && header(request, 'hx-source') !== undefined;
  return { id: isTag ? undefined : id?.slice(0, MAX_ID_LENGTH) };
}

/** What was submitted, to be sent again from our page: where it goes on to may be relative to the one where it began. */
function sentFromHere(submitted: SubmittedValues, formRequest: FormRequest, form: Form): SubmittedValues {
  const roleOf = controlRoles(submitted.entries, form.config);
  const entries = submitted.entries.flatMap(([name, value]) => {
    if (roleOf(name) !== 'next') return [[name, value] as const];
    const next = nextPage(value, formRequest, form);
    return next === undefined ? [] : [[name, next] as const];
  });
  return { ...submitted, entries };
}

/** The answer to a post that was accepted; `next` is where its control field says that the browser goes. */
export function acceptedForm(
  formRequest: FormRequest,
  form: Form,
  { id, next }: { readonly id: string; readonly next: string | undefined },
): Answer {
  const { context } = formRequest;
  const target = nextPage(next, formRequest, form) ?? form.config.redirect;
  const translation = translationFor(context, form);
  const message = thankYouText(form, translation);
  switch (clientOf(context.request.headers)) {
    case 'navigation':
    case 'visit':
      return target === undefined ? toThanks(formRequest, form) : seeOther(target);
    case 'browser':
      return target === undefined ? thankYou(formRequest, form) : seeOther(target);
    case 'htmx':
      return target === undefined
        ? fragment(html`<div role="status">${paragraphs(message)}</div>`, 200, languageHeaders(translation))
        : goTo(target, formRequest);
    case 'program': {
      const answer = { success: true, ok: true, message, id, next: target ?? `${endpointOf(context, form)}?thanks` };
      return json(answer, 200, languageHeaders(translation));
    }
  }
}

/**
 * To the page that thanks: relative, because a proxy in front may show another path, but for a path that names no form by
 * itself. That page leads back to the site, so that the browser may go on telling its origin where the site lets it.
 */
function toThanks({ context, path }: FormRequest, form: Form): Answer {
  const isOfForm = path.kind !== 'named' && !(path.kind === 'domain' && path.key === undefined);
  const { headers, ...answer } = seeOther(isOfForm ? '?thanks' : `${endpointOf(context, form)}?thanks`);
  return { ...answer, headers: { ...headers, 'Referrer-Policy': 'strict-origin-when-cross-origin' } };
}

/** What a visitor is told of success, on the page and in JSON. */
function thankYouText({ config }: Form, { say }: Translation): string {
  return config.thank_you ?? say(config.double_opt_in ? 'optin.sent' : 'thanks.text');
}

/** The page after a submission, for forms without a `redirect`. */
export function thankYou(formRequest: FormRequest, form: Form): Answer {
  const back = cameFrom(formRequest, form);
  const translation = translationFor(formRequest.context, form);
  const ancestors = framers({ ...formRequest, form });
  return page(thanksPage(form, { translation, back, ancestors, frame: turboFrame(formRequest) }));
}

interface ThanksPage {
  readonly translation: Translation;
  /** The page that the visitor came from. */
  readonly back?: string | undefined;
  readonly ancestors?: readonly string[];
  readonly frame?: string | undefined;
}

/** That page; `back` is by default the first one of its domain. */
export function thanksPage(form: Form, { translation, ancestors, frame, back = homeOf(form) }: ThanksPage): Page {
  const { say } = translation;
  const title = say('thanks.title');
  const brand = brandOf(form);
  const content = html`${mark('good')}
<h1>${title}</h1>
<div role="status">${paragraphs(thankYouText(form, translation))}</div>
${back !== undefined && html`<p class="actions"><a class="button" href="${back}">${say('thanks.back', { site: brand.name ?? new URL(back).host })}</a></p>`}`;
  return layout({ title, content: framed(content, frame), translation, brand, ancestors });
}

/** The page that `_next` or another service's field for it names, where it is one that may use the form: no open redirect. */
function nextPage(next: string | undefined, formRequest: FormRequest, form: Form): string | undefined {
  if (next === undefined || next.trim() === '') return undefined;
  const url = URL.parse(next.trim(), cameFrom(formRequest, form));
  if (url === null || (url.protocol !== 'https:' && url.protocol !== 'http:') || url.username !== '') return undefined;
  return mayGoOn(url.origin, formRequest, form) ? url.href : undefined;
}

/** Where any page may use the form, a browser goes back to the site that it came from, or to where our own page says: that one was vetted. */
function mayGoOn(origin: string, { context }: FormRequest, { audience }: Form): boolean {
  if (!audience.anyone) return mayUse(origin, context, audience);
  const from = originOf(header(context.request, 'origin') ?? header(context.request, 'referer') ?? '');
  if (from === undefined) return false;
  const { request, snapshot } = context;
  return origin.toLowerCase() === from || isOwnOrigin(from, snapshot.server.server, request.headers.host);
}

/** The page that the post came from, else the domain's first one; our own, which sent it again, leads nowhere. */
function cameFrom({ context }: FormRequest, { audience }: Form): string | undefined {
  const from = header(context.request, 'referer') ?? header(context.request, 'origin') ?? '';
  const url = mayUse(originOf(from), context, audience) ? URL.parse(from) : null;
  if (url !== null && !url.pathname.endsWith(context.path)) return from;
  return homeOf({ audience });
}

function homeOf({ audience: { domain } }: Pick<Form, 'audience'>): string | undefined {
  return domain === undefined ? undefined : `https://${domain}/`;
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

function failurePage(
  title: string,
  text: Html,
  { inFrame, ...frame }: Omit<Layout, 'title' | 'content'> & { readonly inFrame: string | undefined },
): Page {
  return layout({ ...frame, title, content: framed(html`${mark('bad')}\n<h1>${title}</h1>\n${text}`, inFrame) });
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
