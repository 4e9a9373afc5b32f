/** The page of a form's address where no form is. */
import type { Domain } from '../../config/snapshot.ts';
import { html } from './html.ts';
import { layout, mark, type Page } from './layout.ts';

export interface NotFound {
  /** As it stands in the address. */
  readonly name: string;
  readonly domain: Domain | undefined;
  readonly requestId: string;
  readonly ancestors?: readonly string[];
}

export function formNotFoundPage({ name, domain, requestId, ancestors = [] }: NotFound): Page {
  const what =
    domain === undefined
      ? html`This server has no forms of the domain <code>${name}</code>.`
      : html`The domain <code>${domain.name}</code> has no form <code>${name}</code> here.`;
  return layout({
    title: 'No form here',
    requestId,
    ancestors,
    content: html`${mark('bad')}
<h1>There is no form at this address</h1>
<p>${what} If you came from a form, nothing was sent.</p>
<details>
<summary>Is this your site?</summary>
<p>The <code>action</code> of a form is this server’s address, then the domain, then the form’s key in the project file:
<code>/example.com/contact</code>. Check both for typing mistakes; <code>postern config check</code> reads what this
server knows.</p>
</details>`,
  });
}
