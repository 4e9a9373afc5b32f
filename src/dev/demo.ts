/**
 * The demo form: what somebody's web site would hold, as plain HTML that needs no script, with a second button that sends
 * the same fields with fetch().
 */
import type Koa from 'koa';
import { html } from '../http/pages/html.ts';
import { sendPage } from './frame.ts';

export interface DemoOptions {
  /** Where the form is sent: a path of this server, or another's address. */
  readonly endpoint: string;
  /** Path of the outbox. */
  readonly outbox: string;
}

const SCRIPT = `
const form = document.querySelector('form');
const output = document.querySelector('output');
const button = document.querySelector('#fetch');
button.hidden = false;
button.addEventListener('click', async () => {
  if (!form.reportValidity()) return;
  button.disabled = true;
  say('', 'Sending …');
  try {
    const response = await fetch(form.action, { method: 'POST', body: new FormData(form), headers: { Accept: 'application/json' } });
    const answer = await response.json();
    const problems = (answer.errors || []).map((error) => (error.field ? error.field + ': ' : '') + error.message);
    say(response.ok ? 'good' : 'bad', [response.status + ' ' + (answer.message || response.statusText), ...problems].join('\\n'));
    if (response.ok) form.reset();
  } catch (error) {
    say('bad', 'Not sent: ' + error.message);
  } finally {
    button.disabled = false;
  }
});
function say(kind, text) {
  output.dataset.kind = kind;
  output.textContent = text;
}
`;

/** Answers `GET /`; leaves everything else alone. */
export function demoPages({ endpoint, outbox }: DemoOptions): Koa.Middleware {
  const elsewhere = URL.canParse(endpoint) ? ` ${new URL(endpoint).origin}` : '';
  return async (ctx, next) => {
    if (ctx.path !== '/' || (ctx.method !== 'GET' && ctx.method !== 'HEAD')) {
      await next();
      return;
    }
    const url = URL.canParse(endpoint) ? endpoint : `${ctx.protocol}://${ctx.host}${endpoint}`;
    sendPage(ctx, {
      title: 'Demo form',
      place: 'demo',
      links: { demo: '/', outbox },
      narrow: true,
      script: SCRIPT,
      policy: [`form-action 'self'${elsewhere}`, `connect-src 'self'${elsewhere}`],
      content: html` <h1>Write to us</h1>
        <p class="soft">
          This form is plain HTML. What you send is queued, rendered, signed with DKIM and delivered by SMTP to a mail
          server on this machine; read it in the <a href="${outbox}">outbox</a>.
        </p>
        <form action="${endpoint}" method="post" enctype="multipart/form-data">
          <div class="two">
            <div class="field">
              <label for="name">Name</label><input id="name" name="name" autocomplete="name" required />
            </div>
            <div class="field">
              <label for="email">E-mail</label
              ><input id="email" name="email" type="email" autocomplete="email" required />
            </div>
          </div>
          <div class="field">
            <label for="message">Message</label><textarea id="message" name="message" rows="6" required></textarea>
          </div>
          <div class="field">
            <label for="files">Files</label
            ><input id="files" name="files" type="file" multiple aria-describedby="files-hint" />
            <p class="hint" id="files-hint">One or several; they arrive as attachments.</p>
          </div>
          <div class="trap" aria-hidden="true">
            <label for="trap">Leave this empty</label
            ><input id="trap" name="_service_honeypot" tabindex="-1" autocomplete="off" />
          </div>
          <div class="buttons">
            <button>Send</button><button type="button" class="quiet" id="fetch" hidden>Send with fetch()</button>
          </div>
          <output aria-live="polite"></output>
        </form>
        <details>
          <summary>The same from a terminal</summary>
          <pre><code>curl ${url} \\
  -F name='Ada Lovelace' -F email=ada@example.org \\
  -F message='Hello from curl' -F files=@README.md

curl ${url} -H 'content-type: application/json' \\
  -d '{"name":"Ada Lovelace","email":"ada@example.org","message":"Hello from JSON"}'</code></pre>
        </details>`,
    });
  };
}
