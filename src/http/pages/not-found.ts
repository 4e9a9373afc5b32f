/** The page of a form's address at which there is no form. */
import type { FormPath } from '../forms/request.ts';
import { html, type Html } from '../../lib/html.ts';
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
    title: 'Form not found',
    requestId,
    ancestors,
    content: html`${mark('bad')}
<h1>Form not found</h1>
<p>${whatIsMissing(path, domain)} Nothing was sent.</p>
<details>
<summary>Is this your site?</summary>
<p>${whereFormsAre(path)} Check the spelling, or run <code>postern config check</code>.</p>
</details>`,
  });
}

function whatIsMissing(path: FormPath, domain: string | undefined): Html {
  switch (path.kind) {
    case 'domain':
      return domain === undefined
        ? html`This server has no forms for the domain <code>${path.domain}</code>.`
        : html`The domain <code>${domain}</code> has no form <code>${path.form ?? 'send'}</code>.`;
    case 'collection':
      return html`This server has no form <code>${path.form}</code> in a collection <code>${path.collection}</code>.`;
    case 'own':
      return html`This server has no form with the id <code>${path.id}</code>.`;
    case 'named':
      return domain === undefined
        ? html`This server has no forms for the domain of the page that sent this.`
        : html`The domain <code>${domain}</code> has no form <code>${path.name}</code>.`;
  }
}

function whereFormsAre(path: FormPath): Html {
  switch (path.kind) {
    case 'domain':
      return html`The <code>action</code> of the form must be this server’s address, the domain and the form’s key in the project file, such as <code>/example.com/contact</code>.`;
    case 'collection':
      return html`The <code>action</code> of the form must be this server’s address, <code>/c/</code>, the collection and the form’s key, such as <code>/c/partners/signup</code>.`;
    case 'own':
      return html`The <code>action</code> of the form must be this server’s address, <code>/f/</code> and the form’s id, which begins with <code>frm_</code>.`;
    case 'named':
      return html`<code>/submit/</code> must be followed by the id of a form, or by the key of a form of the page’s own domain.`;
  }
}
