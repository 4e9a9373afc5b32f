/** The frame of every hosted page, with the policy that lets it do no more than it must: no script, nothing fetched. */
import { createHash } from 'node:crypto';
import { Html, html, type Content } from '../../lib/html.ts';
import { STYLE } from './style.ts';

export interface Page {
  readonly html: string;
  /** Its Content-Security-Policy. */
  readonly policy: string;
}

export interface Layout {
  readonly title: string;
  readonly content: Content;
  /** More rules than every page has. */
  readonly style?: string;
  /** Shown where somebody may have to ask about it. */
  readonly requestId?: string;
  /** CSP sources that a form on the page may be sent to; a browser asks it for redirects of the answer too. */
  readonly formAction?: readonly string[];
  /** CSP sources of pages that may show this one in a frame. */
  readonly ancestors?: readonly string[];
}

export function layout({ title, content, style = '', requestId, formAction, ancestors }: Layout): Page {
  const rules = STYLE + style;
  const page = html`<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<title>${title}</title>
<style>${new Html(rules)}</style>
</head>
<body>
<main>
${content}
</main>
${requestId !== undefined && html`<footer>Reference ${requestId}</footer>\n`}</body>
</html>
`;
  const hash = createHash('sha256').update(rules).digest('base64');
  const policy = [
    "default-src 'none'",
    `style-src 'sha256-${hash}'`,
    "base-uri 'none'",
    `form-action ${sources(formAction)}`,
    `frame-ancestors ${sources(ancestors)}`,
  ];
  return { html: page.text, policy: policy.join('; ') };
}

function sources(list: readonly string[] = []): string {
  return list.length === 0 ? "'none'" : list.join(' ');
}

/** The sign at the head of a page: done, or not. */
export function mark(kind: 'good' | 'bad'): Html {
  const sign = kind === 'good' ? 'M15 25l7 7 13-15' : 'M24 14v13M24 33.5v.5';
  return html`<svg class="mark ${kind}" viewBox="0 0 48 48" fill="none" stroke="currentColor" stroke-width="3" stroke-linecap="round" stroke-linejoin="round" aria-hidden="true"><circle cx="24" cy="24" r="21.5" stroke-opacity=".3"/><path d="${sign}"/></svg>`;
}
