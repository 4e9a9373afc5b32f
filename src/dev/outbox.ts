/**
 * The outbox: the mails that the catching MX took, to be looked at in a browser and read by tests. Everything in a mail is
 * a stranger's: text is escaped, HTML is shown in a sandboxed frame under a policy of its own that runs no script and
 * fetches nothing, and attachments are only ever downloads.
 */
import type Koa from 'koa';
import { html, type Html, type Content } from '../lib/html.ts';
import { isoTime } from '../lib/clock.ts';
import type { CaughtMail, CaughtMails } from './caught-mail.ts';
import { sendPage, type Framed } from './page.ts';
import { readMail, type ReadMail } from './read-mail.ts';
import { dkimResult, type Verdict } from './verdicts.ts';

const DELETE = /^\/outbox(?:\/([0-9a-f-]{1,30}))?\/delete$/;
const PATH = /^\/outbox(?:\.json|\/([0-9a-f-]{1,30})(?:\/(html|raw|attachments\/(\d{1,4})))?)?$/;
const IMAGE = /^image\/(png|jpeg|gif|webp)$/;
/** Nothing runs, nothing is fetched, no form is sent; a click on a link may open a new tab. */
const FOREIGN_HTML =
  "sandbox allow-popups allow-popups-to-escape-sandbox; default-src 'none'; style-src 'unsafe-inline'; font-src data:; base-uri 'none'; form-action 'none'; frame-ancestors 'self'";

/**
 * Answers, for GET and HEAD:
 * - `/outbox`: the list, newest first, 100 to a page (`?page=2`), of those with these words (`?q=`); `/outbox.json`:
 *   `{ total, mails }`, at most `?limit=` of them;
 * - `/outbox/{id}`: one mail (`?view=html|text|headers|source`); `…/html`, `…/raw`, `…/attachments/{n}`: its parts.
 * And for POST from its own pages: `/outbox/{id}/delete` and `/outbox/delete`, of all.
 */
export function outboxPages(mails: CaughtMails): Koa.Middleware {
  return async (ctx, next) => {
    const removal = ctx.method === 'POST' ? DELETE.exec(ctx.path) : null;
    if (removal !== null) return remove(ctx, mails, removal[1]);
    const match = ctx.method === 'GET' || ctx.method === 'HEAD' ? PATH.exec(ctx.path) : null;
    if (match === null) {
      await next();
      return;
    }
    const [, id, part, number] = match;
    if (ctx.path === '/outbox.json') sendList(ctx, mails);
    else if (id === undefined)
      sendPage(ctx, listPage(mails.list(), textOf(ctx.query['q']), positive(ctx.query['page'], 1)));
    else {
      const mail = mails.get(id);
      if (mail === undefined) sendPage(ctx, MISSING, 404);
      else if (part === 'raw') await sendRaw(ctx, mails, mail);
      else if (part === 'html') await sendHtml(ctx, mails, mail);
      else if (number !== undefined) await sendAttachment(ctx, await mails.source(mail), Number(number));
      else {
        const source = await mails.source(mail);
        sendPage(ctx, mailPage({ mail, source, read: await readMail(source) }, ctx.query['view']));
      }
    }
  };
}

/** Deletes one mail or all, and goes back to the list. Pages of other sites cannot. */
async function remove(ctx: Koa.Context, mails: CaughtMails, id: string | undefined): Promise<void> {
  const site = ctx.get('Sec-Fetch-Site');
  if (site !== '' && site !== 'same-origin') return ctx.throw(403, 'Mail can be deleted only from the outbox page.');
  for (const one of id === undefined ? mails.list().map((mail) => mail.id) : [id]) await mails.remove(one);
  ctx.status = 303;
  ctx.set('Location', '/outbox');
}

function sendList(ctx: Koa.Context, mails: CaughtMails): void {
  const list = mails.list();
  alone(ctx);
  ctx.body = {
    total: list.length,
    mails: list.slice(0, positive(ctx.query['limit'], Infinity)).map((mail) => ({
      ...mail,
      at: isoTime(mail.at),
      dkim: dkimResult(mail.verdicts),
      spf: mail.verdicts.spf.result,
      dmarc: mail.verdicts.dmarc.result,
    })),
  };
}

async function sendRaw(ctx: Koa.Context, mails: CaughtMails, mail: CaughtMail): Promise<void> {
  alone(ctx);
  ctx.attachment(`${mail.id}.eml`);
  ctx.type = 'message/rfc822';
  ctx.body = await mails.source(mail);
}

async function sendHtml(ctx: Koa.Context, mails: CaughtMails, mail: CaughtMail): Promise<void> {
  const { html, attachments } = await readMail(await mails.source(mail));
  const numbers = new Map(attachments.flatMap(({ cid }, i) => (cid === undefined ? [] : [[cid, i] as const])));
  let pictures = 'img-src data:';
  // RFC 2392: pictures that came with the mail.
  const shown = (html ?? '').replaceAll(/\bcid:([^\s"'<>)]+)/gi, (whole, cid: string) => {
    const number = numbers.get(unescaped(cid));
    if (number === undefined) return whole;
    pictures = "img-src data: 'self'";
    return `/outbox/${mail.id}/attachments/${number}`;
  });
  alone(ctx);
  ctx.set('Content-Security-Policy', `${FOREIGN_HTML}; ${pictures}`);
  ctx.type = 'html';
  // Behind a doctype, so that the page is not read in quirks mode; links open beside the outbox, not inside the frame.
  ctx.body = shown.replace(/^\s*(<!doctype[^>]*>)?/i, '$&<base target="_blank">');
}

async function sendAttachment(ctx: Koa.Context, source: Buffer, number: number): Promise<void> {
  const attachment = (await readMail(source)).attachments[number];
  alone(ctx);
  if (attachment === undefined) {
    ctx.status = 404;
    ctx.body = 'No such attachment.';
    return;
  }
  ctx.attachment(attachment.filename ?? `part-${number + 1}`);
  ctx.type = IMAGE.test(attachment.contentType) ? attachment.contentType : 'application/octet-stream';
  ctx.body = attachment.content;
}

const MISSING: Framed = {
  title: 'No such mail',
  place: 'outbox',
  content: html`<h1>No such mail</h1>
    <p>This mail is not in the outbox. It may have been deleted.</p>`,
};

/** Headers of everything that is not a page of ours. */
function alone(ctx: Koa.Context): void {
  ctx.set('X-Content-Type-Options', 'nosniff');
  ctx.set('Referrer-Policy', 'no-referrer');
  ctx.set('Cache-Control', 'no-store');
  ctx.set('Content-Security-Policy', "sandbox; default-src 'none'; frame-ancestors 'none'");
}

function positive(value: string | string[] | undefined, otherwise: number): number {
  return typeof value === 'string' && /^[1-9]\d{0,5}$/.test(value) ? Number(value) : otherwise;
}

function textOf(value: string | string[] | undefined): string {
  return typeof value === 'string' ? value.slice(0, 200).trim() : '';
}

function unescaped(cid: string): string {
  try {
    return decodeURIComponent(cid);
  } catch {
    return cid; // not percent-encoded after all
  }
}

// The list of the outbox. It keeps itself up to date by a small script; without scripts the page reloads itself.

const PER_PAGE = 100;

const SCRIPT = `
const main = document.querySelector('main');
let shown = main.querySelector('[data-state]').dataset.state;
async function look() {
  try {
    const { total, mails } = await (await fetch('/outbox.json?limit=1')).json();
    const state = total + ' ' + (mails.length === 0 ? '' : mails[0].id);
    if (state === shown) return;
    const page = new DOMParser().parseFromString(await (await fetch(location.href)).text(), 'text/html');
    // The search stays as it is: somebody may be typing.
    for (const id of ['count', 'delete', 'mails']) main.querySelector('#' + id).replaceWith(page.getElementById(id));
    shown = state;
  } catch {
    // the server is away; it is asked again
  }
}
window.setInterval(() => document.hidden || look(), 500);
document.addEventListener('visibilitychange', () => document.hidden || look());
`;

/** Whether each of the words is in a mail's subject or among its addresses. */
function holds({ subject, from, to, envelope }: CaughtMail, words: readonly string[]): boolean {
  const text = [subject, from, to, ...envelope.to].join(' ').toLowerCase();
  return words.every((word) => text.includes(word));
}

function listPage(mails: readonly CaughtMail[], search: string, page: number): Framed {
  const first = (page - 1) * PER_PAGE;
  const words = search.toLowerCase().split(/\s+/);
  const found = mails.filter((mail) => holds(mail, words));
  const shown = found.slice(first, first + PER_PAGE);
  return {
    title: 'Outbox',
    place: 'outbox',
    script: SCRIPT,
    policy: ["connect-src 'self'", "form-action 'self'"],
    head: html`<noscript><meta http-equiv="refresh" content="5" /></noscript>`,
    content: html` <div class="head" data-state="${mails.length} ${mails[0]?.id ?? ''}">
        <h1>Outbox</h1>
        <p class="soft" role="status" id="count">${counted(found.length, 'message')}</p>
        <form class="search" role="search" action="/outbox">
          <input type="search" name="q" value="${search}" aria-label="Search subjects and addresses" placeholder="Search subjects and addresses" />
        </form>
        <div id="delete">${mails.length > 0 && deletion(mails.length)}</div>
      </div>
      <div id="mails">
        ${
          shown.length === 0
            ? search === ''
              ? EMPTY
              : html`<p class="empty">No mail contains these words. <a href="/outbox">Show all mail</a></p>`
            : html`<ol class="mails">
                ${shown.map(row)}
              </ol>`
        }
        ${nearby({ page, total: found.length, search })}
      </div>`,
  };
}

function deletion(count: number): Html {
  return html`<button type="button" class="quiet" popovertarget="question">Delete all</button>
    <form method="post" action="/outbox/delete" id="question" popover aria-label="Delete all mail">
      <p>Delete ${counted(count, 'message')} from the outbox?</p>
      <button>Delete</button>
      <button type="button" class="quiet" popovertarget="question" popovertargetaction="hide">Cancel</button>
    </form>`;
}

function nearby({ page, total, search }: { page: number; total: number; search: string }): Html | undefined {
  if (total <= PER_PAGE) return undefined;
  function at(page: number): string {
    return `/outbox?${new URLSearchParams({ ...(search !== '' && { q: search }), page: String(page) }).toString()}`;
  }
  return html`<nav class="pages" aria-label="More messages">
    <span>${page > 1 && html`<a href="${at(page - 1)}" rel="prev">Newer</a>`}</span>
    <span>${total > page * PER_PAGE && html`<a href="${at(page + 1)}" rel="next">Older</a>`}</span>
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
        >${mail.attachments > 0 && html`<span class="badge">${counted(mail.attachments, 'file')}</span>`}${badge('DKIM', dkimResult(verdicts))}${badge('SPF', verdicts.spf.result)}</span
      >
    </a>
  </li>`;
}

/** The name where there is one: the address stands on the mail's own page, and there is no room for both here. */
function nameIn(mailbox: string): string {
  return mailbox.replace(/(?<=.) <[^<>]*>$/, '');
}

const EMPTY = html`<div class="empty">
  <p><strong>No mail yet.</strong></p>
  <p class="soft">Send the <a href="/">demo form</a>; the mail appears here automatically.</p>
</div>`;

function counted(number: number, what: 'message' | 'file'): string {
  return `${number} ${what}${number === 1 ? '' : 's'}`;
}

// One mail of the outbox: who, what, what a receiver would think of it, its files, and its body in four views.

interface OpenedMail {
  readonly mail: CaughtMail;
  readonly source: Buffer;
  readonly read: ReadMail;
}

const MOST_CHARACTERS = 500_000;
const NAMES = { html: 'HTML', text: 'Text', headers: 'Headers', source: 'Source' };
type View = keyof typeof NAMES;

/** The view that is wanted, else the first that the mail has. */
function mailPage({ mail, source, read }: OpenedMail, wanted: unknown): Framed {
  const { html: page, text, headers } = read;
  const has = { html: page !== undefined, text: text !== undefined, headers: headers.length > 0, source: true };
  const views = (['html', 'text', 'headers', 'source'] as const).filter((name) => has[name]);
  const current = views.find((name) => name === wanted) ?? views[0] ?? 'source';
  return {
    title: mail.subject || '(no subject)',
    place: 'outbox',
    policy: ["frame-src 'self'", "form-action 'self'"],
    content: html` <h1>${mail.subject || '(no subject)'}</h1>
      ${facts(mail, read)} ${verdicts(mail)} ${read.attachments.length > 0 && filesOutboxMail(mail, read)}
      <nav class="tabs" aria-label="Views of the mail">
        ${views.map((name) => html`<a href="/outbox/${mail.id}?view=${name}" ${name === current && html` aria-current="page"`}>${NAMES[name]}</a>`)}
        <a class="aside" href="/outbox/${mail.id}/raw">Download .eml</a>
        <form method="post" action="/outbox/${mail.id}/delete"><button class="quiet">Delete</button></form>
      </nav>
      <section class="view" aria-label="${NAMES[current]}">
        ${read.problem !== undefined && html`<p class="bad">This mail cannot be parsed: ${read.problem}</p>`}
        ${body(current, { mail, source, read })}
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

function filesOutboxMail(mail: CaughtMail, { attachments }: ReadMail): Html {
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

function body(view: View, { mail, source, read }: OpenedMail): Content {
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

// Small pieces that the pages of the outbox share.

const SIGNS: Readonly<Record<string, string>> = { pass: '✓', fail: '✕', permerror: '✕' };

/** `✓ DKIM pass`; what is neither good nor bad is grey, and none of it is said by colour alone. */
function badge(name: string, result: string): Html {
  const kind = result === 'pass' ? 'good' : SIGNS[result] === undefined ? '' : 'bad';
  return html`<span class="badge ${kind}"
    ><span aria-hidden="true">${SIGNS[result] ?? '–'}</span>${name} ${result}</span
  >`;
}

/** In the time zone of this machine, which is the reader's own. */
function timeOf(at: number): string {
  return new Intl.DateTimeFormat('en-GB', { dateStyle: 'medium', timeStyle: 'medium' }).format(at);
}

function sizeOf(bytes: number): string {
  if (bytes < 1024) return `${bytes} bytes`;
  const kibibytes = bytes / 1024;
  return kibibytes < 1024 ? `${kibibytes.toFixed(1)} KiB` : `${(kibibytes / 1024).toFixed(1)} MiB`;
}
