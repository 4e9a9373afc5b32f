/** The page that a browser shows when somebody opens a form's endpoint: what it is, and how a page uses it. */

import type { Form } from '../../config/forms.ts';
import { html, type Content } from '../../lib/html.ts';
import { layout, type Page } from './layout.ts';

export interface FormAddressPage {
  readonly form: Form;
  /** The whole address. */
  readonly endpoint: string;
}

function aboutHtml({ audience: { domain } }: Form): Content {
  if (domain === undefined) {
    return html`<p>This address receives the submissions of a form. To send a message, use the form on its own page.</p>`;
  }
  return html`<p>This address receives the submissions of a form on <a href="https://${domain}/">${domain}</a>. To send a message,
use the form on that site.</p>`;
}

export function formAddressPage({ form, endpoint }: FormAddressPage): Page {
  const example = `<form method="post" action="${endpoint}">
  <label>Your email <input type="email" name="email" required></label>
  <label>Message <textarea name="message" required></textarea></label>
  <button>Send</button>
</form>`;
  return layout({
    title: `${form.name} – form endpoint`,
    content: html`<h1>${form.name}</h1>
${aboutHtml(form)}
<h2>Are you building the site?</h2>
<p>Point your form to this address:</p>
<pre><code>${example}</code></pre>
<p>Scripts can send JSON or <code>FormData</code> with <code>fetch()</code>; the response is JSON.</p>`,
  });
}
