/** The pages of a mailed link: a button, because mail scanners follow links and press none; what was done; a link that is over. */
import type { Confirmable, Words } from '../../access/tokens.ts';
import { LINK_LIFE } from '../../access/tokens.ts';
import { html, type Content } from './html.ts';
import { layout, mark, type Page } from './layout.ts';

/** Asks; its form posts to its own address. */
export function confirmPage({ heading, text, button }: Confirmable['question']): Page {
  return layout({
    title: heading,
    formAction: ["'self'"],
    content: html`<h1>${heading}</h1>
${paragraphs(text)}<form method="post">
<button>${button}</button>
</form>`,
  });
}

export function confirmedPage({ heading, text }: Words): Page {
  return layout({ title: heading, content: html`${mark('good')}\n<h1>${heading}</h1>\n${paragraphs(text)}` });
}

export function linkOverPage(requestId: string): Page {
  return layout({
    title: 'This link does not work',
    requestId,
    content: html`${mark('bad')}
<h1>This link does not work</h1>
<p>Links to confirm work for ${LINK_LIFE}, and this one is older, or was not copied whole from the mail.</p>
<p>Please open the link in the mail once more. If it still leads here, ask for a new one where you asked for this one:
sign up again, or make the form again.</p>`,
  });
}

function paragraphs(text: readonly string[]): Content {
  return text.map((paragraph) => html`<p>${paragraph}</p>\n`);
}
