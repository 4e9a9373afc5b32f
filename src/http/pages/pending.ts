/**
 * The page of a form whose domain is not verified. The visitor learns that nothing was sent, and keeps what was typed; the
 * site's owner, who alone can mend it, finds the records to publish behind one click.
 */
import type { CheckedRecord } from '../../dns/check.ts';
import { html, type Content } from './html.ts';
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
${posted && html`<div class="alert" role="alert" tabindex="-1" autofocus>\n<p>Nothing was sent.</p>\n</div>\n`}<p>The owner of ${domain} has still to finish setting it up.${
      posted && ' Please reach them in another way; your browser’s Back button leads to what you typed.'
    }</p>
<details>
<summary>Is ${domain} yours?</summary>
<p>The form works as soon as ${domain} publishes these DNS records:</p>
${required.map(recordHtml)}<p class="soft">They are looked up again by themselves; nothing else is to be done.</p>
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
  if (status === 'ok') return html`<span class="good">right</span>`;
  const words = html`<span class="${status !== 'unknown' && 'bad'}">${problem ?? 'not looked up yet'}</span>`;
  return found.length === 0 ? words : html`${words}${found.map((value) => html`<br><code>${value}</code>`)}`;
}
