/** The pages at a form's address: thanks, what the address is for, a domain that is not verified, no form. */
import type { Form } from '../../config/forms.ts';
import { html, type Content, type Html } from '../../lib/html.ts';
import { layout, mark, type Page } from './layout.ts';
import type { CheckedRecord } from '../../dns/check.ts';
import type { FormPath } from '../forms/request.ts';

interface ThankYou {
  readonly form: Form;
  /** What the visitor is told. */
  readonly text: string;
  /** Where "back" leads. */
  readonly back: string | undefined;
  readonly ancestors: readonly string[];
}

/** The page after a submission, for forms without a `redirect`. */
export function thankYouPage({ form, text, back, ancestors }: ThankYou): Page {
  return layout({
    title: 'Thank you',
    ancestors,
    content: html`${mark('good')}
<h1>Thank you</h1>
<div role="status">${text.split(/\n+/).map((line) => html`<p>${line}</p>`)}</div>
${back !== undefined && html`<p class="actions"><a class="button" href="${back}">Back to ${form.audience.domain ?? new URL(back).host}</a></p>`}`,
  });
}

/** The page that a browser shows when somebody opens a form's address (`endpoint`). */
export function formAddressPage({ form, endpoint }: { readonly form: Form; readonly endpoint: string }): Page {
  const { domain } = form.audience;
  const example = `<form method="post" action="${endpoint}">
  <label>Your email <input type="email" name="email" required></label>
  <label>Message <textarea name="message" required></textarea></label>
  <button>Send</button>
</form>`;
  return layout({
    title: `${form.name} – form endpoint`,
    content: html`<h1>${form.name}</h1>
<p>This address receives the submissions of a form${domain !== undefined && html` on <a href="https://${domain}/">${domain}</a>`}. To send a message,
use the form on ${domain === undefined ? 'its own page' : 'that site'}.</p>
<h2>Are you building the site?</h2>
<p>Point your form to this address:</p>
<pre><code>${example}</code></pre>
<p>Scripts can send JSON or <code>FormData</code> with <code>fetch()</code>; the response is JSON.</p>`,
  });
}

interface Pending {
  readonly domain: string;
  readonly records: readonly CheckedRecord[];
  /** Whether something was posted, and is now not sent. */
  readonly posted: boolean;
  readonly requestId: string;
  readonly ancestors: readonly string[];
}

/** The page of a form whose domain is not verified: what its owner has to publish is behind one click. */
export function pendingPage({ domain, records, posted, requestId, ancestors }: Pending): Page {
  const required = records.filter((record) => record.required);
  return layout({
    title: 'This form is not active yet',
    requestId,
    ancestors,
    content: html`${mark('bad')}
<h1>This form is not active yet</h1>
${posted && html`<div class="alert" role="alert" tabindex="-1" autofocus>\n<p>Nothing was sent.</p>\n</div>\n`}<p>The owner of ${domain} has not finished setting it up.${
      posted && ' Please contact them in another way. Use your browser’s Back button to return to what you entered.'
    }</p>
<details>
<summary>Do you own ${domain}?</summary>
<p>Add these records at the DNS provider of ${domain}:</p>
${required.map(recordHtml)}<p class="soft">They are checked regularly. The form works as soon as they are found.</p>
</details>`,
  });
}

function recordHtml(record: CheckedRecord): Content {
  return html`<dl class="record">
<dt>Name</dt><dd><code>${record.name}</code></dd>
<dt>Type</dt><dd><code>${record.type}</code></dd>
<dt>Value</dt><dd><code>${record.value}</code></dd>
<dt>Found</dt><dd>${foundWords(record)}</dd>
</dl>
`;
}

function foundWords({ status, found, problem }: CheckedRecord): Content {
  if (status === 'ok') return html`<span class="good">OK</span>`;
  const words = html`<span class="${status !== 'unknown' && 'bad'}">${problem ?? 'not checked yet'}</span>`;
  return found.length === 0 ? words : html`${words}${found.map((value) => html`<br><code>${value}</code>`)}`;
}

interface NotFound {
  readonly path: FormPath;
  /** The domain that there is. */
  readonly domain: string | undefined;
  readonly requestId: string;
  readonly ancestors: readonly string[];
}

/** The page of a form's address at which there is no form. */
export function formNotFoundPage({ path, domain, requestId, ancestors }: NotFound): Page {
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
  if (path.kind === 'own') return html`This server has no form with the id <code>${path.id}</code>.`;
  if (path.kind === 'collection') {
    return html`This server has no form <code>${path.key}</code> in a collection <code>${path.collection}</code>.`;
  }
  const form = path.kind === 'named' ? path.name : (path.key ?? 'send');
  if (domain !== undefined) return html`The domain <code>${domain}</code> has no form <code>${form}</code>.`;
  return path.kind === 'named'
    ? html`This server has no forms for the domain of the page that sent this.`
    : html`This server has no forms for the domain <code>${path.domain}</code>.`;
}

const NAMED = html`<code>/submit/</code> must be followed by the id of a form, or by the key of a form of the page’s own domain.`;
const ADDRESSES = {
  domain: html`the domain and the form’s key in the project file, such as <code>/example.com/contact</code>`,
  collection: html`<code>/c/</code>, the collection and the form’s key, such as <code>/c/partners/signup</code>`,
  own: html`<code>/f/</code> and the form’s id, which begins with <code>frm_</code>`,
};

function whereFormsAre({ kind }: FormPath): Html {
  if (kind === 'named') return NAMED;
  return html`The <code>action</code> of the form must be this server’s address, ${ADDRESSES[kind]}.`;
}
