/** The frame of every hosted page, with the policy that lets it do no more than it must: no script (but our own, where a form needs it), nothing fetched. */
import { createHash } from 'node:crypto';
import { type Language, type Translation, translationOf } from '../../languages/languages.ts';
import { Html, html, type Content } from '../../lib/html.ts';
import { type Brand, colorRules } from './brand.ts';
import { TOKENS } from './tokens.ts';

export interface Page {
  readonly html: string;
  /** Its Content-Security-Policy. */
  readonly policy: string;
  /** Where its reader was asked for it, or the form says it. */
  readonly language?: Language | undefined;
}

export interface Layout {
  readonly title: string;
  readonly content: Content;
  /** In whose language the page is; English where there is none. */
  readonly translation?: Translation | undefined;
  /** Whose page it is, where it is not the server's own. */
  readonly brand?: Brand | undefined;
  /** More rules than every page has. */
  readonly style?: string;
  /** Shown where somebody may have to ask about it. */
  readonly requestId?: string;
  /** CSP sources that a form on the page may be sent to; a browser asks it for redirects of the answer too. */
  readonly formAction?: readonly string[] | undefined;
  /** Whether its form needs `/postern.js`, which does the proof of work that the form asks for. */
  readonly needsScript?: boolean | undefined;
  /** CSP sources of pages that may show this one in a frame. */
  readonly ancestors?: readonly string[] | undefined;
}

export function layout({ title, content, translation, brand = {}, ...more }: Layout): Page {
  const { style = '', requestId, formAction, needsScript = false, ancestors } = more;
  const { name, message, color, logo } = brand;
  const { language, direction, say } = translation ?? translationOf('en');
  const rules = STYLE + (color === undefined ? '' : colorRules(color)) + style;
  const page = html`<!doctype html>
<html lang="${language}" dir="${direction}">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<title>${title}${name !== undefined && ` – ${name}`}</title>
<link rel="icon" href="data:,">
<style>${new Html(rules)}</style>
${needsScript && html`<script src="/postern.js" defer></script>\n`}</head>
<body>
${(name !== undefined || logo !== undefined) && html`<header class="brand">${logo !== undefined && html`<img class="logo" src="${logo}" alt="">`}<bdi>${name}</bdi></header>\n`}<main>
${content}
${message !== undefined && html`<div class="message" dir="auto">${paragraphs(message)}</div>\n`}</main>
${requestId !== undefined && html`<footer>${say('form.reference', { id: requestId })}</footer>\n`}</body>
</html>
`;
  const hash = createHash('sha256').update(rules).digest('base64');
  const policy = [
    "default-src 'none'",
    `style-src 'sha256-${hash}'`,
    // A browser asks for /favicon.ico where a page names no icon, and Firefox reports that the policy forbids it.
    'img-src data:',
    "base-uri 'none'",
    `form-action ${sources(formAction)}`,
    ...(needsScript ? ["script-src 'self'", "connect-src 'self'", 'worker-src blob:'] : []),
    `frame-ancestors ${sources(ancestors)}`,
  ];
  return { html: page.text, policy: policy.join('; '), language: translation?.language };
}

/** The text in paragraphs, one for each of its lines. */
export function paragraphs(text: string): Content {
  return text.split(/\n+/).map((line) => html`<p>${line}</p>`);
}

function sources(list: readonly string[] = []): string {
  return list.length === 0 ? "'none'" : list.join(' ');
}

/** The sign at the head of a page: done, or not. */
export function mark(kind: 'good' | 'bad'): Html {
  const sign = kind === 'good' ? 'M15 25l7 7 13-15' : 'M24 14v13M24 33.5v.5';
  return html`<svg class="mark ${kind}" viewBox="0 0 48 48" fill="none" stroke="currentColor" stroke-width="3" stroke-linecap="round" stroke-linejoin="round" aria-hidden="true"><circle cx="24" cy="24" r="21.5" stroke-opacity=".3"/><path d="${sign}"/></svg>`;
}

/** The one stylesheet of the hosted pages: no fonts, images or scripts to fetch, light and dark, narrow and wide. */
export const STYLE = `
${TOKENS}
*{box-sizing:border-box}
body{margin:0;min-height:100vh;display:flex;flex-direction:column;align-items:center;padding:clamp(1rem,6vh,4.5rem) min(1rem,4vw) 2rem;background:var(--page);color:var(--text);font:1rem/1.55 var(--font);overflow-wrap:anywhere}
.brand{display:flex;align-items:center;flex-wrap:wrap;gap:.5rem .8rem;width:100%;max-width:38rem;margin:0 0 1rem;font-weight:600}
.logo{height:3rem;width:auto;max-width:100%;object-fit:contain}
.message{margin:1.75rem 0 0;padding:.6rem 0 0;border-top:1px solid var(--line)}
@media (prefers-color-scheme:dark){.logo{padding:.3rem;border-radius:8px;background:#fff}}
main{width:100%;max-width:38rem;padding:min(2.5rem,5vw);background:var(--card);border:1px solid var(--line);border-radius:14px;box-shadow:0 1px 2px rgb(0 0 0/.04),0 12px 32px rgb(0 0 0/.06)}
input[type=checkbox]{flex:none;width:1.15em;height:1.15em;margin:0;translate:0 .15em}
h1,label,legend,button,.button,.alert,.fault{hyphens:auto;hyphenate-limit-chars:14 5 5}
h1{margin:0 0 .5rem;font-size:1.6rem;line-height:1.25;text-wrap:balance}
h2{margin:2rem 0 .5rem;font-size:1.05rem}
p{margin:.5rem 0}
a{color:var(--accent);text-underline-offset:.15em}
.mark{display:block;width:3.25rem;height:3.25rem;margin:0 0 1.1rem}
.good{color:var(--good)}
.bad{color:var(--bad)}
.soft{color:var(--soft)}
.alert{margin:1.25rem 0 1rem;padding:.8rem 1rem;border:1px solid var(--bad);border-inline-start-width:5px;border-radius:8px;background:var(--bad-page)}
.alert p{margin:0;font-weight:600}
.alert ul{margin:.35rem 0 0;padding-inline-start:1.2rem}
.alert a{color:inherit}
form{margin:1.5rem 0 0}
.field{margin:0 0 1.15rem;padding:0;border:0;min-width:0}
label,legend{display:block;padding:0;margin:0 0 .3rem;font-weight:600}
.choice{display:flex;gap:.55rem;align-items:baseline;font-weight:400}
input:not([type=checkbox]),textarea,select{width:100%;padding:.6rem .75rem;border:1px solid var(--edge);border-radius:8px;background:var(--field);color:inherit;font:inherit}
textarea{min-height:8.5rem;resize:vertical}
input[type=file]{padding:.4rem;overflow:hidden}
::file-selector-button{margin-inline-end:.75rem;padding:.3rem .75rem;border:1px solid var(--edge);border-radius:5px;background:var(--code);color:inherit;font:inherit}
.wrong input,.wrong textarea,.wrong select{border-color:var(--bad);box-shadow:inset 0 0 0 1px var(--bad)}
.hint{margin:.3rem 0 0;font-size:.9rem;color:var(--soft)}
.fault{margin:.3rem 0 0;font-size:.92rem;font-weight:600;color:var(--bad)}
button,.button{display:inline-block;padding:.7rem 1.5rem;border:1px solid transparent;border-radius:8px;background:var(--button);color:var(--button-text);font:inherit;font-weight:600;text-decoration:none;cursor:pointer}
button:hover,.button:hover{text-decoration:underline;text-underline-offset:.2em}
button.quiet{background:none;color:inherit;border-color:var(--edge)}
:focus-visible{outline:3px solid var(--accent);outline-offset:2px}
.alert:focus{outline:2px solid var(--bad);outline-offset:0}
.actions{margin:1.6rem 0 0}
code,pre{direction:ltr;unicode-bidi:isolate;font:.88em/1.5 var(--mono)}
code{padding:.1em .35em;border-radius:5px;background:var(--code)}
pre{margin:.75rem 0;text-align:left;padding:.9rem 1rem;border-radius:8px;background:var(--code);white-space:pre-wrap}
pre code{padding:0;background:none}
details{margin:1.75rem 0 0;padding:1rem 0 0;border-top:1px solid var(--line)}
summary{cursor:pointer;font-weight:600}
dl.record{margin:.9rem 0 0;padding:.8rem 1rem;border:1px solid var(--line);border-radius:8px;display:grid;grid-template-columns:max-content minmax(0,1fr);gap:.3rem .9rem;font-size:.93rem}
dl.record dt{color:var(--soft)}
dl.record dd{margin:0}
footer{margin:1.25rem 0 0;font-size:.82rem;color:var(--soft);text-align:center}
@media (max-width:30rem){body{padding-top:1rem}dl.record{grid-template-columns:1fr;gap:0}dl.record dd{margin:0 0 .5rem}button,.button{width:100%;text-align:center}}
`.trim();
