/**
 * The outbox: the mails that the catching MX took, to be looked at in a browser and read by tests. Everything in a mail is
 * a stranger's: text is escaped, HTML is shown in a sandboxed frame under a policy of its own that runs no script and
 * fetches nothing, and attachments are only ever downloads.
 */
import type Koa from 'koa';
import { html } from '../http/pages/html.ts';
import { isoTime } from '../lib/clock.ts';
import type { CaughtMail, CaughtMails } from './caught-mail.ts';
import { type Links, sendPage } from './frame.ts';
import { listPage } from './outbox-list.ts';
import { type View, mailPage } from './outbox-mail.ts';
import { readMail } from './read-mail.ts';
import { dkimResult } from './verdicts.ts';

export interface OutboxOptions {
  readonly mails: CaughtMails;
  /** Path of the demo form; `/` unless told. */
  readonly demo?: string;
}

const PATH = /^\/outbox(?:\.json|\/([0-9a-f-]{1,30})(?:\/(html|raw|attachments\/(\d{1,4})))?)?$/;
const IMAGE = /^image\/(png|jpeg|gif|webp)$/;
/** Nothing runs, nothing is fetched, no form is sent; a click on a link may open a new tab. */
const FOREIGN_HTML =
  "sandbox allow-popups allow-popups-to-escape-sandbox; default-src 'none'; style-src 'unsafe-inline'; font-src data:; base-uri 'none'; form-action 'none'; frame-ancestors 'self'";

/**
 * Answers, for GET and HEAD:
 * - `/outbox`: the list, newest first, 100 to a page (`?page=2`); `/outbox.json`: `{ total, mails }`, at most `?limit=` of them;
 * - `/outbox/{id}`: one mail (`?view=html|text|headers|source`); `…/html`, `…/raw`, `…/attachments/{n}`: its parts.
 */
export function outboxPages({ mails, demo = '/' }: OutboxOptions): Koa.Middleware {
  const links: Links = { demo, outbox: '/outbox' };
  return async (ctx, next) => {
    const match = ctx.method === 'GET' || ctx.method === 'HEAD' ? PATH.exec(ctx.path) : null;
    if (match === null) {
      await next();
      return;
    }
    const [, id, part, number] = match;
    if (ctx.path === '/outbox.json') sendList(ctx, mails);
    else if (id === undefined) sendPage(ctx, listPage(mails.list(), positive(ctx.query['page'], 1), links));
    else {
      const mail = mails.get(id);
      if (mail === undefined) sendMissing(ctx, links);
      else if (part === 'raw') await sendRaw(ctx, mails, mail);
      else if (part === 'html') await sendHtml(ctx, mails, mail);
      else if (number !== undefined) await sendAttachment(ctx, await mails.source(mail), Number(number));
      else {
        const source = await mails.source(mail);
        sendPage(ctx, mailPage({ mail, source, read: await readMail(source), view: viewOf(ctx.query['view']), links }));
      }
    }
  };
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

function sendMissing(ctx: Koa.Context, links: Links): void {
  sendPage(
    ctx,
    {
      title: 'No such mail',
      place: 'outbox',
      links,
      content: html`<h1>No such mail</h1>
        <p>This mail is not in the outbox (any more).</p>`,
    },
    404,
  );
}

/** Headers of everything that is not a page of ours. */
function alone(ctx: Koa.Context): void {
  ctx.set('X-Content-Type-Options', 'nosniff');
  ctx.set('Referrer-Policy', 'no-referrer');
  ctx.set('Cache-Control', 'no-store');
  ctx.set('Content-Security-Policy', "sandbox; default-src 'none'; frame-ancestors 'none'");
}

function viewOf(value: string | string[] | undefined): View | undefined {
  return value === 'html' || value === 'text' || value === 'headers' || value === 'source' ? value : undefined;
}

function positive(value: string | string[] | undefined, otherwise: number): number {
  return typeof value === 'string' && /^[1-9]\d{0,5}$/.test(value) ? Number(value) : otherwise;
}

function unescaped(cid: string): string {
  try {
    return decodeURIComponent(cid);
  } catch {
    return cid; // not percent-encoded after all
  }
}
