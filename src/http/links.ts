/** Mailed links: a page with a button (mail scanners follow links, but submit no forms), the result, an invalid link. */
import type { KeyObject } from 'node:crypto';
import { type Confirmable, type ConfirmKinds, findToken, LINK_LIFE, type Words } from '../accounts/consent.ts';
import type { Clock } from '../lib/clock.ts';
import { type Content, html } from '../lib/html.ts';
import type { Store } from '../store/store.ts';
import { suppress } from '../store/suppressions.ts';
import { openUnsubscribeToken } from '../transactional/unsubscribe.ts';
import { type Answer, page } from './answer.ts';
import type { Exchange } from './context.ts';
import { layout, mark, type Page } from './pages/layout.ts';

export interface LinkParts {
  readonly store: Store;
  readonly clock: Clock;
  /** What each kind of link confirms. */
  readonly confirmations: ConfirmKinds;
  /** Signs the links that unsubscribe. */
  readonly unsubscribeKey: KeyObject;
}

type LinkHandler = (exchange: Exchange, params: Readonly<Record<string, string>>) => Promise<Answer>;

/**
 * `/confirm/{token}`: GET shows what the link would do, because mail scanners follow links; POST does it (`?answer=never`:
 * refuses for good).
 */
export function createConfirm(parts: LinkParts): LinkHandler {
  return async ({ method, id, query }, { token: value = '' }) => {
    const token = await findToken(parts, value);
    const kind = token && parts.confirmations[token.kind];
    const found = token && (await kind?.(token));
    if (token === undefined || found === undefined) return invalidLinkPage(id, EXPIRED);
    if (method !== 'POST') return page(stateOf(found));
    if (new URLSearchParams(query).get('answer') === NEVER) await found.refuse();
    else if (!found.isRefused) await found.confirm();
    return page(stateOf((await kind?.(token)) ?? found));
  };
}

function stateOf(found: Confirmable): Page {
  if (found.isRefused) return confirmedPage(found.refused);
  return found.isDone
    ? confirmedPage(found.done, { refusable: true })
    : confirmPage(found.question, { refusable: true });
}

/** `/unsubscribe/{token}`: GET shows a button, POST unsubscribes at once, without a redirect (RFC 8058 §3.2). */
export function createUnsubscribe({ store, clock, unsubscribeKey }: LinkParts): LinkHandler {
  return async ({ method, id }, { token = '' }) => {
    const subscription = openUnsubscribeToken(token, unsubscribeKey);
    if (subscription === undefined) return invalidLinkPage(id, CUT_OFF);
    const { tenant, address } = subscription;
    if (method !== 'POST') {
      const text = [`Stop all mail from this sender to ${address}?`];
      return page(confirmPage({ heading: 'Unsubscribe?', text, button: 'Unsubscribe' }));
    }
    await store.write([suppress({ tenant, address, reason: 'unsubscribe', created_at: clock.now() })]);
    const text = [`This sender will not send any more mail to ${address}.`];
    return page(confirmedPage({ heading: 'Unsubscribed', text }));
  };
}

const EXPIRED = html`<p>It has expired (confirmation links work for ${LINK_LIFE}), or it was not copied completely.</p>
<p>Please open the link in the email again. If it still does not work, request a new one: sign up again, or ask the
account to send you another email.</p>`;
const CUT_OFF = html`<p>It was not copied completely. Please open the link in the email again.</p>`;

/** The `answer` of a recipient who wants no more mail from this server. */
const NEVER = 'never';

interface ConfirmOptions {
  /** Whether the page offers never to be mailed again. */
  readonly refusable?: boolean;
}

/** Asks; its forms post to its own address. */
function confirmPage({ heading, text, button }: Confirmable['question'], options: ConfirmOptions = {}): Page {
  return layout({
    title: heading,
    formAction: ["'self'"],
    content: html`<h1>${heading}</h1>
${paragraphs(text)}<form method="post">
<button>${button}</button>
</form>${refusalForm(options)}`,
  });
}

function confirmedPage({ heading, text }: Words, options: ConfirmOptions = {}): Page {
  return layout({
    title: heading,
    ...(options.refusable === true && { formAction: ["'self'"] }),
    content: html`${mark('good')}\n<h1>${heading}</h1>\n${paragraphs(text)}${refusalForm(options)}`,
  });
}

function refusalForm({ refusable = false }: ConfirmOptions): Content {
  if (!refusable) return '';
  return html`
<form method="post" action="?answer=${NEVER}">
<p>Or stop all mail from this server to your address, including mail that you agreed to before.</p>
<button class="quiet">Never again</button>
</form>`;
}

function invalidLinkPage(requestId: string, reasons: Content): Answer {
  const content = html`${mark('bad')}\n<h1>This link does not work</h1>\n${reasons}`;
  return page(layout({ title: 'This link does not work', requestId, content }), 404);
}

function paragraphs(text: readonly string[]): Content {
  return text.map((paragraph) => html`<p>${paragraph}</p>\n`);
}
