/** One mail of the outbox: who, what, what a receiver would think of it, its files, and its body in four views. */
import { type Content, type Html, html } from '../http/pages/html.ts';
import type { CaughtMail } from './caught-mail.ts';
import type { Framed, Links } from './frame.ts';
import { badge, sizeOf, timeOf } from './outbox-parts.ts';
import type { ReadMail } from './read-mail.ts';
import type { Verdict } from './verdicts.ts';

export type View = 'html' | 'text' | 'headers' | 'source';

export interface MailPage {
  readonly mail: CaughtMail;
  readonly source: Buffer;
  readonly read: ReadMail;
  /** The first that the mail has unless told. */
  readonly view: View | undefined;
  readonly links: Links;
}

const MOST_CHARACTERS = 500_000;
const NAMES: Readonly<Record<View, string>> = { html: 'HTML', text: 'Text', headers: 'Headers', source: 'Source' };

export function mailPage({ mail, source, read, view, links }: MailPage): Framed {
  const views: View[] = [
    ...(read.html === undefined ? [] : ['html' as const]),
    ...(read.text === undefined ? [] : ['text' as const]),
    ...(read.headers.length === 0 ? [] : ['headers' as const]),
    'source',
  ];
  const current = view !== undefined && views.includes(view) ? view : (views[0] ?? 'source');
  return {
    title: mail.subject || '(no subject)',
    place: 'outbox',
    links,
    policy: ["frame-src 'self'", "form-action 'none'"],
    content: html` <h1>${mail.subject || '(no subject)'}</h1>
      ${facts(mail, read)} ${verdicts(mail)} ${read.attachments.length > 0 && files(mail, read)}
      <nav class="tabs" aria-label="Views of the mail">
        ${views.map((name) => html`<a href="/outbox/${mail.id}?view=${name}" ${name === current && html` aria-current="page"`}>${NAMES[name]}</a>`)}
        <a class="aside" href="/outbox/${mail.id}/raw">Download .eml</a>
      </nav>
      <section class="view" aria-label="${NAMES[current]}">
        ${read.problem !== undefined && html`<p class="bad">This mail cannot be parsed: ${read.problem}</p>`}
        ${body(current, mail, { source, read })}
      </section>`,
  };
}

function facts(mail: CaughtMail, read: ReadMail): Html {
  const { envelope } = mail;
  const rows: [string, string][] = [
    ['From', read.from],
    ['To', read.to],
    ['Cc', read.cc],
    ['Reply-To', read.replyTo],
    ['Date', read.date],
    ['Envelope', `${envelope.from || '<>'} → ${envelope.to.join(', ')}`],
    [
      'Taken',
      `${timeOf(mail.at)} from ${envelope.helo} (${envelope.client}), ${envelope.tls ?? 'not encrypted'}, ${sizeOf(mail.size)}`,
    ],
  ];
  return html`<dl class="facts">
    ${rows
      .filter(([, value]) => value !== '')
      .map(
        ([name, value]) =>
          html`<dt>${name}</dt>
            <dd>${value}</dd>`,
      )}
  </dl>`;
}

function verdicts({ verdicts: { dkim, spf, dmarc } }: CaughtMail): Html {
  return html`<ul class="verdicts" aria-label="Verdicts">
    ${
      dkim.length === 0 &&
      html`<li>
        ${badge('DKIM', 'none')}
        <p>The mail is not signed.</p>
      </li>`
    }
    ${dkim.map((one) => verdict('DKIM', one, `${one.domain}, selector ${one.selector}, ${one.algorithm}`))}
    ${verdict('SPF', spf, spf.domain)} ${verdict('DMARC', dmarc, dmarc.domain)}
  </ul>`;
}

function verdict(name: string, { result, comment }: Verdict, about: string): Html {
  return html`<li>
    ${badge(name, result)}
    <p>${about}${about !== '' && comment !== '' && html`<br />`}${comment}</p>
  </li>`;
}

function files(mail: CaughtMail, { attachments }: ReadMail): Html {
  return html`<ul class="files" aria-label="Attachments">
    ${attachments.map(
      ({ filename, contentType, size }, i) =>
        html`<li>
          <a href="/outbox/${mail.id}/attachments/${i}"
            >${filename ?? `part ${i + 1}`}<br /><small>${contentType}, ${sizeOf(size)}</small></a
          >
        </li>`,
    )}
  </ul>`;
}

function body(view: View, mail: CaughtMail, { source, read }: Pick<MailPage, 'source' | 'read'>): Content {
  switch (view) {
    case 'html':
      return html`<iframe
        src="/outbox/${mail.id}/html"
        sandbox="allow-popups allow-popups-to-escape-sandbox"
        referrerpolicy="no-referrer"
        title="The HTML part of the mail"
      ></iframe>`;
    case 'text':
      return html`<pre class="text">${linked(start(read.text ?? ''))}</pre>`;
    case 'headers':
      return html`<table class="headers">
        <tbody>
          ${read.headers.map(
            ([name, value]) =>
              html`<tr>
                <th scope="row">${name}</th>
                <td>${value}</td>
              </tr>`,
          )}
        </tbody>
      </table>`;
    case 'source':
      return html`<pre><code>${start(source.toString())}</code></pre>`;
  }
}

function start(text: string): string {
  return text.length <= MOST_CHARACTERS ? text : `${text.slice(0, MOST_CHARACTERS)}\n\n… the rest is in the download`;
}

/** Web addresses become links. */
function linked(text: string): Content {
  return text
    .split(/(https?:\/\/[^\s<>"']*[^\s<>"'.,;:!?)\]])/)
    .map((piece, i) =>
      i % 2 === 0 ? piece : html`<a href="${piece}" target="_blank" rel="noopener noreferrer">${piece}</a>`,
    );
}
