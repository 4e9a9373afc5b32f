/**
 * The frame of the dev world's pages and the policy that goes with each: nothing is fetched from anywhere else, and only
 * the one style and the one script that we wrote run, by their hashes.
 */
import { createHash } from 'node:crypto';
import type Koa from 'koa';
import { type Content, Html, html } from '../lib/html.ts';
import { STYLE } from '../http/pages/layout.ts';

export interface Framed {
  readonly title: string;
  readonly content: Content;
  /** Where we are, of the two places in the bar. */
  readonly place: 'demo' | 'outbox';
  readonly narrow?: boolean;
  readonly script?: string;
  readonly head?: Content;
  /** More CSP directives; what is not named is forbidden. */
  readonly policy?: readonly string[];
}

const ICON =
  "data:image/svg+xml,%3Csvg xmlns='http://www.w3.org/2000/svg' viewBox='0 0 24 24'%3E%3Cpath fill='%232456d6' d='M4 22V11a8 8 0 0 1 16 0v11h-6v-9h-4v9z'/%3E%3C/svg%3E";

/** Answers with the page. */
export function sendPage(ctx: Koa.Context, page: Framed, status = 200): void {
  const style = `${STYLE}\n${DEV_STYLE}`;
  const { script = '', place } = page;
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
<a class="brand" href="/"><svg viewBox="0 0 24 24" aria-hidden="true"><path fill="currentColor" d="M4 22V11a8 8 0 0 1 16 0v11h-6v-9h-4v9z"/></svg>Postern</a>
<span class="badge whole">local environment: no mail leaves this machine</span>
<nav aria-label="Pages">${link('/', 'Demo form', place === 'demo')}${link('/outbox', 'Outbox', place === 'outbox')}${link('/console', 'Console', false)}</nav>
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

/** What the dev world's pages add to the look of the hosted pages (http/pages/style.ts): a bar, a list of mails, tabs. */
const DEV_STYLE = `
body{padding:0 1rem 2.5rem}
.bar{width:100%;max-width:66rem;display:flex;flex-wrap:wrap;align-items:center;gap:.4rem 1.4rem;padding:1.1rem 0}
.brand{width:auto;margin:0;display:inline-flex;align-items:center;gap:.55rem;font-weight:700;font-size:1.05rem;color:inherit;text-decoration:none}
.brand svg{width:1.5rem;height:1.5rem;color:var(--accent)}
.bar nav{display:flex;gap:.3rem;margin-left:auto}
.bar nav a{padding:.4rem .85rem;border-radius:999px;color:var(--soft);text-decoration:none;font-weight:600;font-size:.93rem}
.bar nav a:hover{color:var(--text)}
.bar nav a[aria-current]{background:var(--card);color:var(--text);box-shadow:inset 0 0 0 1px var(--line)}
main{max-width:66rem}
main.narrow{max-width:42rem}
.head{display:flex;flex-wrap:wrap;align-items:baseline;gap:.25rem 1rem;margin-bottom:1rem}
.head h1{margin:0}
.head form,.tabs form{margin:0}
.head .search{flex:1 1 14rem;max-width:26rem;margin-left:auto}
.head{align-items:center}
.head button,.tabs button{padding:.4rem .9rem;font-size:.93rem}
.head p{margin:0}
.mails{list-style:none;margin:0 calc(-1*clamp(.5rem,2vw,1rem));padding:0}
.mails li+li{border-top:1px solid var(--line)}
.mail{display:grid;grid-template-columns:minmax(9rem,15rem) minmax(0,1fr) auto;gap:.15rem 1.25rem;align-items:center;padding:.75rem clamp(.5rem,2vw,1rem);border-radius:8px;color:inherit;text-decoration:none}
.mail:hover{background:var(--code)}
.mail .from{font-weight:600;overflow:hidden;text-overflow:ellipsis;white-space:nowrap}
.mail .subject{overflow:hidden;text-overflow:ellipsis;white-space:nowrap}
.mail .to,.mail time{grid-row:2;font-size:.86rem;color:var(--soft)}
.mail time{white-space:nowrap}
.mail .to{overflow:hidden;text-overflow:ellipsis;white-space:nowrap}
.mail .marks{grid-column:3;grid-row:1/3;display:flex;flex-wrap:wrap;justify-content:flex-end;gap:.35rem;align-items:center}
.badge{display:inline-flex;align-items:center;gap:.3rem;padding:.12rem .55rem;border-radius:999px;font-size:.78rem;font-weight:600;line-height:1.5;white-space:nowrap;color:var(--soft);box-shadow:inset 0 0 0 1px var(--line)}
.badge.whole{white-space:normal}
.badge.good{color:var(--good);box-shadow:inset 0 0 0 1px currentColor}
.badge.bad{color:var(--bad);box-shadow:inset 0 0 0 1px currentColor}
.empty{padding:2.5rem 0 1.5rem;text-align:center}
.pages{display:flex;justify-content:space-between;margin:1.25rem 0 0}
.facts{display:grid;grid-template-columns:max-content minmax(0,1fr);gap:.3rem 1.2rem;margin:1rem 0 0}
.facts dt{color:var(--soft)}
.facts dd{margin:0}
.verdicts{display:grid;grid-template-columns:repeat(auto-fit,minmax(min(15rem,100%),1fr));gap:.75rem;margin:1.4rem 0 0;padding:0;list-style:none}
.verdicts li{padding:.75rem .9rem;border:1px solid var(--line);border-radius:10px;font-size:.88rem}
.verdicts p{margin:.35rem 0 0;color:var(--soft)}
.files{list-style:none;margin:1.4rem 0 0;padding:0;display:flex;flex-wrap:wrap;gap:.5rem}
.files a{display:block;padding:.5rem .8rem;border:1px solid var(--line);border-radius:8px;color:inherit;text-decoration:none;font-size:.9rem}
.files a:hover{border-color:var(--accent)}
.files small{color:var(--soft)}
.tabs{display:flex;flex-wrap:wrap;gap:.2rem;margin:1.6rem 0 0;border-bottom:1px solid var(--line)}
.tabs a{padding:.5rem .9rem;border-bottom:3px solid transparent;margin-bottom:-1px;color:var(--soft);text-decoration:none;font-weight:600;font-size:.93rem}
.tabs a[aria-current]{color:var(--text);border-color:var(--accent)}
.tabs .aside{margin-left:auto}
.view{margin:1rem 0 0}
.view pre{margin:0;max-height:none;overflow-x:auto}
pre.text{white-space:pre-wrap;font:inherit;background:none;padding:0}
iframe{display:block;width:100%;height:65vh;min-height:20rem;border:1px solid var(--line);border-radius:8px;resize:vertical}
table.headers{width:100%;border-collapse:collapse;font:.84em/1.5 ui-monospace,SFMono-Regular,Menlo,Consolas,monospace}
table.headers th,table.headers td{padding:.35rem .75rem .35rem 0;border-top:1px solid var(--line);text-align:left;vertical-align:top}
table.headers th{white-space:nowrap;color:var(--soft);font-weight:600}
.two{display:grid;grid-template-columns:1fr 1fr;gap:0 1rem}
.buttons{display:flex;flex-wrap:wrap;gap:.6rem;align-items:center}
[popover]{padding:1.5rem;border:1px solid var(--line);border-radius:14px;background:var(--card);color:var(--text)}
[popover]::backdrop{background:rgb(0 0 0/.35)}
.head [popover]{margin:auto}
.head [popover] p{margin:0 0 1rem}
button.quiet{border-color:transparent;background:none;color:var(--accent);box-shadow:inset 0 0 0 1.5px var(--accent)}
output{display:block}
output:not(:empty){margin:1.25rem 0 0;padding:.8rem 1rem;border:1px solid var(--line);border-left-width:5px;border-radius:8px;white-space:pre-line}
output[data-kind=good]{border-color:var(--good)}
output[data-kind=bad]{border-color:var(--bad)}
input::file-selector-button{margin:0 .8rem 0 0;padding:.3rem .9rem;border:0;border-radius:6px;background:var(--code);color:inherit;font:inherit;font-weight:600;cursor:pointer}
.trap{position:absolute;left:-100vw;width:1px;height:1px;overflow:hidden}
.trap input{width:1px}
@media (max-width:44rem){.mail{grid-template-columns:minmax(0,1fr) auto}.mail .subject{grid-column:1/3;grid-row:2;white-space:normal}.mail .from{grid-row:1}.mail time{grid-row:1;grid-column:2;white-space:normal;text-align:right}.mail .to{grid-row:3;grid-column:1/3}.mail .marks{grid-column:1/3;grid-row:4;justify-content:flex-start;margin-top:.25rem}.two{grid-template-columns:1fr}}
@media (max-width:30rem){.bar nav{margin-left:0;width:100%}.facts{grid-template-columns:1fr;gap:0}.facts dd{margin:0 0 .5rem}.tabs .aside{margin-left:0}}
`.trim();
