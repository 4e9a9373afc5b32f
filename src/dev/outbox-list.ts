/** The list of the outbox. It keeps itself up to date by a small script; without scripts the page reloads itself. */
import { type Html, html } from '../http/pages/html.ts';
import { isoTime } from '../lib/clock.ts';
import type { CaughtMail } from './caught-mail.ts';
import type { Framed, Links } from './frame.ts';
import { badge, timeOf } from './outbox-parts.ts';
import { dkimResult } from './verdicts.ts';

const PER_PAGE = 100;

const SCRIPT = `
const main = document.querySelector('main');
let shown = main.querySelector('[data-newest]').dataset.newest;
async function look() {
  try {
    const { mails } = await (await fetch('/outbox.json?limit=1')).json();
    const newest = mails.length === 0 ? '' : mails[0].id;
    if (newest === shown) return;
    const page = new DOMParser().parseFromString(await (await fetch(location.href)).text(), 'text/html');
    main.replaceChildren(...page.querySelector('main').children);
    shown = newest;
  } catch {
    // the server is away; it is asked again
  }
}
window.setInterval(() => document.hidden || look(), 500);
document.addEventListener('visibilitychange', () => document.hidden || look());
`;

export function listPage(mails: readonly CaughtMail[], page: number, links: Links): Framed {
  const first = (page - 1) * PER_PAGE;
  const shown = mails.slice(first, first + PER_PAGE);
  return {
    title: 'Outbox',
    place: 'outbox',
    links,
    script: SCRIPT,
    policy: ["connect-src 'self'", "form-action 'none'"],
    head: html`<noscript><meta http-equiv="refresh" content="5" /></noscript>`,
    content: html` <div class="head" data-newest="${mails[0]?.id ?? ''}">
        <h1>Outbox</h1>
        <p class="soft" role="status">${count(mails.length)}</p>
      </div>
      ${
        shown.length === 0
          ? empty(links)
          : html`<ol class="mails">
              ${shown.map(row)}
            </ol>`
      }
      ${nearby(page, mails.length)}`,
  };
}

function nearby(page: number, total: number): Html | undefined {
  if (total <= PER_PAGE) return undefined;
  return html`<nav class="pages" aria-label="More mails">
    <span>${page > 1 && html`<a href="/outbox?page=${page - 1}" rel="prev">Newer</a>`}</span>
    <span>${total > page * PER_PAGE && html`<a href="/outbox?page=${page + 1}" rel="next">Older</a>`}</span>
  </nav>`;
}

function row(mail: CaughtMail): Html {
  const { id, at, envelope, verdicts } = mail;
  return html`<li>
    <a class="mail" href="/outbox/${id}">
      <span class="from">${nameIn(mail.from) || envelope.from || 'nobody (null sender)'}</span>
      <span class="subject">${mail.subject || '(no subject)'}</span>
      <time datetime="${isoTime(at)}">${timeOf(at)}</time>
      <span class="to"
        >to
        ${envelope.to.slice(0, 3).join(', ')}${envelope.to.length > 3 && ` and ${envelope.to.length - 3} more`}</span
      >
      <span class="marks"
        >${mail.attachments > 0 && html`<span class="badge">${files(mail.attachments)}</span>`}${badge('DKIM', dkimResult(verdicts))}${badge('SPF', verdicts.spf.result)}</span
      >
    </a>
  </li>`;
}

/** The name where there is one: the address stands on the mail's own page, and there is no room for both here. */
function nameIn(mailbox: string): string {
  return mailbox.replace(/(?<=.) <[^<>]*>$/, '');
}

function empty(links: Links): Html {
  return html`<div class="empty">
    <p><strong>No mail yet.</strong></p>
    <p class="soft">Send the <a href="${links.demo}">demo form</a>; the mail appears here by itself.</p>
  </div>`;
}

function count(mails: number): string {
  return mails === 1 ? '1 mail' : `${mails} mails`;
}

function files(attachments: number): string {
  return attachments === 1 ? '1 file' : `${attachments} files`;
}
