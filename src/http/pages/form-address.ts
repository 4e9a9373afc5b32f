/** What a browser sees that opens a form's address: that it is one, and how a page uses it. */

import type { Form } from '../../config/forms.ts';
import { html, type Content } from './html.ts';
import { layout, type Page } from './layout.ts';

export interface FormAddressPage {
  readonly form: Form;
  /** The whole address. */
  readonly endpoint: string;
}

function aboutHtml({ audience: { domain } }: Form): Content {
  if (domain === undefined) {
    return html`<p>This is the address that a form is sent to. There is nothing to read here: fill in the form on its own page.</p>`;
  }
  return html`<p>This is the address that a form of <a href="https://${domain}/">${domain}</a> is sent to. There is nothing to
read here: fill in the form on that site.</p>`;
}

export function formAddressPage({ form, endpoint }: FormAddressPage): Page {
  const example = `<form method="post" action="${endpoint}">
  <label>Your email <input type="email" name="email" required></label>
  <label>Message <textarea name="message" required></textarea></label>
  <button>Send</button>
</form>`;
  return layout({
    title: `${form.name} – a form's address`,
    content: html`<h1>${form.name}</h1>
${aboutHtml(form)}
<h2>If you are building the site</h2>
<p>Send a form here with <code>method="post"</code>:</p>
<pre><code>${example}</code></pre>
<p>A script may <code>fetch()</code> it with JSON or <code>FormData</code> and gets JSON back.</p>`,
  });
}
