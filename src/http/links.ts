/** Mailed links: a page with a button (mail scanners follow links, but submit no forms), the result, an invalid link. */
import type { KeyObject } from 'node:crypto';
import { type Confirmable, type ConfirmKinds, findToken, LINK_DAYS, type Words } from '../accounts/consent.ts';
import { type Localized, localized, message, type Translation, translationOf } from '../languages/languages.ts';
import type { Clock } from '../lib/clock.ts';
import { type Content, html } from '../lib/html.ts';
import type { Store } from '../store/store.ts';
import { suppress } from '../store/suppressions.ts';
import { openUnsubscribeToken } from '../transactional/unsubscribe.ts';
import { type Answer, page } from './answer.ts';
import { type RequestContext, translationFor } from './context.ts';
import { type Brand, brandOf } from './pages/brand.ts';
import { layout, mark, type Page } from './pages/layout.ts';

export interface LinkParts {
  readonly store: Store;
  readonly clock: Clock;
  /** What each kind of link confirms. */
  readonly confirmations: ConfirmKinds;
  /** Signs the links that unsubscribe. */
  readonly unsubscribeKey: KeyObject;
}

type LinkHandler = (context: RequestContext, params: Readonly<Record<string, string>>) => Promise<Answer>;

/**
 * `/confirm/{token}`: GET shows what the link would do, because mail scanners follow links; POST does it (`?answer=never`:
 * refuses for good).
 */
export function createConfirm(parts: LinkParts): LinkHandler {
  return async (context, { token: value = '' }) => {
    const { method, id, query } = context;
    const translation = translationFor(context);
    const token = await findToken(parts, value);
    const kind = token && parts.confirmations[token.kind];
    const found = token && (await kind?.(token));
    if (token === undefined || found === undefined) return invalidLinkPage(id, EXPIRED, translation);
    if (method !== 'POST') return page(stateOf(found, context));
    if (new URLSearchParams(query).get('answer') === NEVER) await found.refuse();
    else if (!found.isRefused) await found.confirm();
    return page(stateOf((await kind?.(token)) ?? found, context));
  };
}

function stateOf(found: Confirmable, context: RequestContext): Page {
  const translation = found.language === undefined ? translationFor(context) : translationOf(found.language);
  const brand = found.form && brandOf(found.form);
  if (found.isRefused) return confirmedPage(found.refused, { translation, brand });
  return found.isDone
    ? confirmedPage(found.done, { translation, brand, refusable: true })
    : confirmPage(found.question, { translation, brand, refusable: true });
}

/** `/unsubscribe/{token}`: GET shows a button, POST unsubscribes at once, without a redirect (RFC 8058 §3.2). */
export function createUnsubscribe({ store, clock, unsubscribeKey }: LinkParts): LinkHandler {
  return async (context, { token = '' }) => {
    const translation = translationFor(context);
    const subscription = openUnsubscribeToken(token, unsubscribeKey);
    if (subscription === undefined) return invalidLinkPage(context.id, CUT_OFF, translation);
    const { tenant, address } = subscription;
    if (context.method !== 'POST') {
      const heading = message('unsubscribe.question');
      const text = [message('unsubscribe.text', { address })];
      return page(confirmPage({ heading, text, button: message('unsubscribe.button') }, { translation }));
    }
    await store.write([suppress({ tenant, address, reason: 'unsubscribe', created_at: clock.now() })]);
    const text = [message('unsubscribe.doneText', { address })];
    return page(confirmedPage({ heading: message('unsubscribe.done'), text }, { translation }));
  };
}

const EXPIRED = [message('link.expired', { days: LINK_DAYS }), message('link.again')];
const CUT_OFF = [message('link.cutOff')];

/** The `answer` of a recipient who wants no more mail from this server. */
const NEVER = 'never';

interface ConfirmOptions {
  readonly translation: Translation;
  readonly brand?: Brand | undefined;
  /** Whether the page offers never to be mailed again. */
  readonly refusable?: boolean;
}

/** Asks; its forms post to its own address. */
function confirmPage({ heading, text, button }: Confirmable['question'], options: ConfirmOptions): Page {
  const { translation, brand } = options;
  const title = localized(heading, translation);
  return layout({
    title,
    translation,
    brand,
    formAction: ["'self'"],
    content: html`<h1>${title}</h1>
${paragraphs(text, translation)}<form method="post">
<button>${localized(button, translation)}</button>
</form>${refusalForm(options)}`,
  });
}

function confirmedPage({ heading, text }: Words, options: ConfirmOptions): Page {
  const { translation, brand } = options;
  const title = localized(heading, translation);
  return layout({
    title,
    translation,
    brand,
    ...(options.refusable === true && { formAction: ["'self'"] }),
    content: html`${mark('good')}\n<h1>${title}</h1>\n${paragraphs(text, translation)}${refusalForm(options)}`,
  });
}

function refusalForm({ refusable = false, translation: { say } }: ConfirmOptions): Content {
  if (!refusable) return '';
  return html`
<form method="post" action="?answer=${NEVER}">
<p>${say('link.never')}</p>
<button class="quiet">${say('link.neverButton')}</button>
</form>`;
}

function invalidLinkPage(requestId: string, reasons: readonly Localized[], translation: Translation): Answer {
  const title = translation.say('link.invalid');
  const content = html`${mark('bad')}\n<h1>${title}</h1>\n${paragraphs(reasons, translation)}`;
  return page(layout({ title, translation, requestId, content }), 404);
}

function paragraphs(text: readonly Localized[], translation: Translation): Content {
  return text.map((paragraph) => html`<p>${localized(paragraph, translation)}</p>\n`);
}
