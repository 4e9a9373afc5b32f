/** The page of the server's own address: what it is, and where to go on. */
import type { ServerConfig } from '../../config/schema.ts';
import { html } from '../../lib/html.ts';
import { layout, type Page } from './layout.ts';

export function frontPage({ hostname, operator }: Pick<ServerConfig['server'], 'hostname' | 'operator'>): Page {
  return layout({
    title: hostname,
    content: html`<h1>${hostname}</h1>
<p>This server receives web form submissions, and sends and forwards email. It runs Postern.</p>
<ul>
<li><a href="/docs">API reference</a></li>
<li><a href="/openapi.json">OpenAPI document</a></li>
<li><a href="/.well-known/security.txt">Report a security problem</a></li>
</ul>
<p class="soft">To report abuse, write to <a href="mailto:${encodeURI(operator)}">${operator}</a>.</p>`,
  });
}
