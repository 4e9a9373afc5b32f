/** The page of the server's own address: what it is, and where to go on. */
import type { ServerConfig } from '../../config/schema.ts';
import { html } from './html.ts';
import { layout, type Page } from './layout.ts';

export function frontPage({ hostname, operator }: Pick<ServerConfig['server'], 'hostname' | 'operator'>): Page {
  return layout({
    title: hostname,
    content: html`<h1>${hostname}</h1>
<p>This server takes the posts of web forms, and sends and forwards mail. It runs Postern.</p>
<ul>
<li><a href="/docs">API reference</a></li>
<li><a href="/openapi.json">The same for programs (OpenAPI)</a></li>
<li><a href="/.well-known/security.txt">To report a security problem</a></li>
</ul>
<p class="soft">Did mail or a form of this server bother you? Write to <a href="mailto:${encodeURI(operator)}">${operator}</a>.</p>`,
  });
}
