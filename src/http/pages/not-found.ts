/** The page of a form's address where no form is. */
import type { FormPath } from '../forms/request.ts';
import { html, type Html } from './html.ts';
import { layout, mark, type Page } from './layout.ts';

export interface NotFound {
  readonly path: FormPath;
  /** The domain that there is. */
  readonly domain: string | undefined;
  readonly requestId: string;
  readonly ancestors?: readonly string[];
}

export function formNotFoundPage({ path, domain, requestId, ancestors = [] }: NotFound): Page {
  return layout({
    title: 'No form here',
    requestId,
    ancestors,
    content: html`${mark('bad')}
<h1>There is no form at this address</h1>
<p>${whatIsMissing(path, domain)} If you came from a form, nothing was sent.</p>
<details>
<summary>Is this your site?</summary>
<p>${whereFormsAre(path)} Check it for typing mistakes; <code>postern config check</code> reads what this server knows.</p>
</details>`,
  });
}

function whatIsMissing(path: FormPath, domain: string | undefined): Html {
  switch (path.kind) {
    case 'domain':
      return domain === undefined
        ? html`This server has no forms of the domain <code>${path.domain}</code>.`
        : html`The domain <code>${domain}</code> has no form <code>${path.form ?? 'send'}</code> here.`;
    case 'collection':
      return html`This server has no form <code>${path.form}</code> in a collection <code>${path.collection}</code>.`;
    case 'own':
      return html`This server has no form with the id <code>${path.id}</code>.`;
    case 'named':
      return domain === undefined
        ? html`The page that sent this belongs to no domain that this server has forms of.`
        : html`The domain <code>${domain}</code> has no form <code>${path.name}</code> here.`;
  }
}

function whereFormsAre(path: FormPath): Html {
  switch (path.kind) {
    case 'domain':
      return html`The <code>action</code> of a form is this server’s address, then the domain, then the form’s key in the project file: <code>/example.com/contact</code>.`;
    case 'collection':
      return html`The <code>action</code> of a form is this server’s address, then <code>/c/</code>, the name of the collection and the form’s key: <code>/c/partners/signup</code>.`;
    case 'own':
      return html`The <code>action</code> of a form is this server’s address, then <code>/f/</code> and the form’s id, which begins with <code>frm_</code>.`;
    case 'named':
      return html`After <code>/submit/</code> comes the id of a form, or the key of one of the domain whose page sends it.`;
  }
}
