/** The pages of a mailed link: a button, because mail scanners follow links and press none; what was done; a link that is over. */
import { type Confirmable, type Words, LINK_LIFE } from '../../accounts/tokens.ts';
import { html, type Content } from './html.ts';
import { layout, mark, type Page } from './layout.ts';

/** The `answer` of who wants no mail of this server any more. */
export const NEVER = 'never';

export interface ConfirmOptions {
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
<p>Or get no mail from this server any more, whoever asks for it: no links, no confirmations, nothing that you agreed to before.</p>
<button class="quiet">Never again</button>
</form>`;
}

export function linkOverPage(requestId: string): Page {
  return layout({
    title: 'This link does not work',
    requestId,
    content: html`${mark('bad')}
<h1>This link does not work</h1>
<p>Links to confirm work for ${LINK_LIFE}, and this one is older, or was not copied whole from the mail.</p>
<p>Please open the link in the mail once more. If it still leads here, ask for a new one where you asked for this one:
sign up again, or have the account ask you again.</p>`,
  });
}

function paragraphs(text: readonly string[]): Content {
  return text.map((paragraph) => html`<p>${paragraph}</p>\n`);
}
