/**
 * How the sender of a form hears of its end: a browser by a page or a redirect, a script by JSON. And the page that somebody
 * sees who opens a form's address.
 */
import type { Form } from '../../config/snapshot.ts';
import { json, page, seeOther, type Answer, wantsPage, shapeB, statusOf, type Refusal } from '../answer.ts';
import { isJson } from '../entries.ts';
import { type FormPath, formTargets, framers, mayUse, type RequestProgress, type FormRequest } from './request.ts';
import { isOwnOrigin, originOf } from '../cors.ts';
import { endpointOf, header } from '../context.ts';
import { html, type Content, type Html } from '../../lib/html.ts';
import type { CheckedRecord } from '../../dns/check.ts';
import type { ErrorCode } from '../../contract/errors.ts';
import { errorPage, type SubmittedValues } from '../pages/error.ts';
import { type Layout, layout, mark, type Page } from '../pages/layout.ts';

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
  if (!wantsPage(headers, isJson(headers['content-type']))) {
    return json(shapeB(refusal, exchange.id), status, refusal.headers);
  }
  const redirect = form?.config.error_redirect;
  if (redirect !== undefined && CORRECTABLE.has(refusal.code)) return seeOther(redirect);
  const frame = { requestId: exchange.id, ancestors: framers({ ...formRequest, form }) };
  if (records !== undefined && domain !== undefined) {
    const text = pendingText(domain.name, records, exchange.method === 'POST');
    return page(failurePage('This form is not active yet', text, frame), status);
  }
  if (refusal.code === 'FORM_NOT_FOUND' || refusal.code === 'DOMAIN_NOT_FOUND') {
    return page(failurePage('Form not found', notFoundText(path, domain?.name), frame), status);
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
  const message = thankYouText(form);
  return json({ success: true, ok: true, message, id, next: target ?? `${endpointOf(exchange, form)}?thanks` });
}

/** What a visitor is told of success, on the page and in JSON. */
function thankYouText({ config }: Form): string {
  return config.thank_you ?? 'Your message has been sent.';
}

/** The page after a submission, for forms without a `redirect`. */
export function thankYou(formRequest: FormRequest, form: Form): Answer {
  const back = cameFrom(formRequest, form);
  const title = 'Thank you';
  const content = html`${mark('good')}
<h1>${title}</h1>
<div role="status">${thankYouText(form)
    .split(/\n+/)
    .map((line) => html`<p>${line}</p>`)}</div>
${back !== undefined && html`<p class="actions"><a class="button" href="${back}">Back to ${form.audience.domain ?? new URL(back).host}</a></p>`}`;
  return page(layout({ title, content, ancestors: framers({ ...formRequest, form }) }));
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
export function formAddress(form: Form, endpoint: string): Answer {
  const { domain } = form.audience;
  const example = `<form method="post" action="${endpoint}">
  <label>Your email <input type="email" name="email" required></label>
  <label>Message <textarea name="message" required></textarea></label>
  <button>Send</button>
</form>`;
  const content = html`<h1>${form.name}</h1>
<p>This address receives the submissions of a form${domain !== undefined && html` on <a href="https://${domain}/">${domain}</a>`}. To send a message,
use the form on ${domain === undefined ? 'its own page' : 'that site'}.</p>
<h2>Are you building the site?</h2>
<p>Point your form to this address:</p>
<pre><code>${example}</code></pre>
<p>Scripts can send JSON or <code>FormData</code> with <code>fetch()</code>; the response is JSON.</p>`;
  return page(layout({ title: `${form.name} – form endpoint`, content }));
}

function failurePage(title: string, text: Html, frame: Pick<Layout, 'requestId' | 'ancestors'>): Page {
  return layout({ ...frame, title, content: html`${mark('bad')}\n<h1>${title}</h1>\n${text}` });
}

/** Of a domain that is not verified: what its owner has to publish is behind one click. */
function pendingText(domain: string, records: readonly CheckedRecord[], isPost: boolean): Html {
  const required = records.filter((record) => record.required);
  return html`${isPost && html`<div class="alert" role="alert" tabindex="-1" autofocus>\n<p>Nothing was sent.</p>\n</div>\n`}<p>The owner of ${domain} has not finished setting it up.${
    isPost && ' Please contact them in another way. Use your browser’s Back button to return to what you entered.'
  }</p>
<details>
<summary>Do you own ${domain}?</summary>
<p>Add these records at the DNS provider of ${domain}:</p>
${required.map(recordHtml)}<p class="soft">They are checked regularly. The form works as soon as they are found.</p>
</details>`;
}

function recordHtml(record: CheckedRecord): Content {
  return html`<dl class="record">
<dt>Name</dt><dd><code>${record.name}</code></dd>
<dt>Type</dt><dd><code>${record.type}</code></dd>
<dt>Value</dt><dd><code>${record.value}</code></dd>
<dt>Found</dt><dd>${foundWords(record)}</dd>
</dl>
`;
}

function foundWords({ status, found, problem }: CheckedRecord): Content {
  if (status === 'ok') return html`<span class="good">OK</span>`;
  const words = html`<span class="${status !== 'unknown' && 'bad'}">${problem ?? 'not checked yet'}</span>`;
  return found.length === 0 ? words : html`${words}${found.map((value) => html`<br><code>${value}</code>`)}`;
}

function notFoundText(path: FormPath, domain: string | undefined): Html {
  return html`<p>${whatIsMissing(path, domain)} Nothing was sent.</p>
<details>
<summary>Is this your site?</summary>
<p>${whereFormsAre(path)} Check the spelling, or run <code>postern config check</code>.</p>
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
