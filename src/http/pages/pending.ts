/**
 * The page of a form whose domain is not verified. The visitor reads that nothing was sent; the site's owner finds the DNS
 * records to add behind one click.
 */
import type { CheckedRecord } from '../../dns/check.ts';
import { html, type Content } from '../../lib/html.ts';
import { layout, mark, type Page } from './layout.ts';

export interface Pending {
  readonly domain: string;
  readonly records: readonly CheckedRecord[];
  /** Whether something was posted, and is now not sent. */
  readonly posted: boolean;
  readonly requestId: string;
  readonly ancestors: readonly string[];
}

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
