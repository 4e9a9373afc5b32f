/** The pages of a mailed link: a button (mail scanners follow links, but submit no forms), the result, an invalid link. */

import { type Confirmable, type Words, LINK_LIFE } from '../../accounts/consent.ts';

import { html, type Content } from '../../lib/html.ts';

import { layout, mark, type Page } from './layout.ts';
import type { ServerConfig } from '../../config/schema.ts';

/** The `answer` of a recipient who wants no more mail from this server. */
export const NEVER = 'never';

interface ConfirmOptions {
  /** Whether the page offers never to be mailed again. */
  readonly refusable?: boolean;
}

/** Asks; its forms post to its own address. */
export function confirmPage({ heading, text, button }: Confirmable['question'], options: ConfirmOptions = {}): Page {
  return layout({
    title: heading,
    formAction: ["'self'"],
    content: html`<h1>${heading}</h1>
${paragraphs(text)}<form method="post">
<button>${button}</button>
</form>${refusalForm(options)}`,
  });
}

export function confirmedPage({ heading, text }: Words, options: ConfirmOptions = {}): Page {
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

export function linkOverPage(requestId: string): Page {
  return layout({
    title: 'This link does not work',
    requestId,
    content: html`${mark('bad')}
<h1>This link does not work</h1>
<p>It has expired (confirmation links work for ${LINK_LIFE}), or it was not copied completely.</p>
<p>Please open the link in the email again. If it still does not work, request a new one: sign up again, or ask the
account to send you another email.</p>`,
  });
}

function paragraphs(text: readonly string[]): Content {
  return text.map((paragraph) => html`<p>${paragraph}</p>\n`);
}

/** The page of the server's own address: what it is, and where to go on. */
export function frontPage({ hostname, operator }: Pick<ServerConfig['server'], 'hostname' | 'operator'>): Page {
  return layout({
    title: hostname,
    content: html`<h1>${hostname}</h1>
<p>This server receives web form submissions, and sends and forwards email. It runs Postern.</p>
<ul>
<li><a href="/docs">API reference</a></li>
<li><a href="/openapi.json">OpenAPI document</a></li>
<li><a href="/.well-known/security.txt">Report a security problem</a></li>
</ul>
<p class="soft">To report abuse, write to <a href="mailto:${encodeURI(operator)}">${operator}</a>.</p>`,
  });
}
