/**
 * The frame of the dev world's pages and the policy that goes with each: nothing is fetched from anywhere else, and only
 * the one style and the one script that we wrote run, by their hashes.
 */
import { createHash } from 'node:crypto';
import type Koa from 'koa';
import { type Content, Html, html } from '../http/pages/html.ts';
import { STYLE } from '../http/pages/style.ts';
import { DEV_STYLE } from './style.ts';

export interface Framed {
  readonly title: string;
  readonly content: Content;
  /** Where we are, of the two places in the bar. */
  readonly place: 'demo' | 'outbox';
  readonly links: Links;
  readonly narrow?: boolean;
  readonly script?: string;
  readonly head?: Content;
  /** More CSP directives; what is not named is forbidden. */
  readonly policy?: readonly string[];
}

export interface Links {
  readonly demo: string;
  readonly outbox: string;
}

const ICON =
  "data:image/svg+xml,%3Csvg xmlns='http://www.w3.org/2000/svg' viewBox='0 0 24 24'%3E%3Cpath fill='%232456d6' d='M4 22V11a8 8 0 0 1 16 0v11h-6v-9h-4v9z'/%3E%3C/svg%3E";

/** Answers with the page. */
export function sendPage(ctx: Koa.Context, page: Framed, status = 200): void {
  const style = `${STYLE}\n${DEV_STYLE}`;
  const { script = '', links, place } = page;
  ctx.status = status;
  ctx.type = 'html';
  ctx.set('X-Content-Type-Options', 'nosniff');
  // Not "no-referrer", under which browsers send "Origin: null" with a form.
  ctx.set('Referrer-Policy', 'same-origin');
  ctx.set('Cache-Control', 'no-store');
  ctx.set(
    'Content-Security-Policy',
    [
      "default-src 'none'",
      `style-src '${hashOf(style)}'`,
      ...(script === '' ? [] : [`script-src '${hashOf(script)}'`]),
      'img-src data:',
      "base-uri 'none'",
      "frame-ancestors 'none'",
      ...(page.policy ?? []),
    ].join('; '),
  );
  ctx.body = html`<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<title>${page.title} · Postern</title>
<link rel="icon" href="${ICON}">
${page.head}
${new Html(`<style>${style}</style>`)}
</head>
<body>
<header class="bar">
<a class="brand" href="${links.demo}"><svg viewBox="0 0 24 24" aria-hidden="true"><path fill="currentColor" d="M4 22V11a8 8 0 0 1 16 0v11h-6v-9h-4v9z"/></svg>Postern</a>
<span class="badge">dev world: no mail leaves this machine</span>
<nav aria-label="Pages">${link(links.demo, 'Demo form', place === 'demo')}${link(links.outbox, 'Outbox', place === 'outbox')}</nav>
</header>
<main${page.narrow === true && html` class="narrow"`}>
${page.content}
</main>
${script !== '' && new Html(`<script>${script}</script>`)}
</body>
</html>
`.text;
}

function link(href: string, name: string, current: boolean): Html {
  return html`<a href="${href}" ${current && html` aria-current="page"`}>${name}</a>`;
}

function hashOf(text: string): string {
  return `sha256-${createHash('sha256').update(text).digest('base64')}`;
}
