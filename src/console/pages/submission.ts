/** One submission: what was written, its files, who sent it, why it was judged so, and what became of its mail. */
import type { AnswerOf } from '../../contract/route.ts';
import type { submissions } from '../../contract/submissions.ts';
import { call, callBlob } from '../api.ts';
import { Action, Badge, Code, Ready, sizeOf, State, Time } from '../components/basics.ts';
import { doing } from '../components/messages.ts';
import { useLoaded } from '../data.ts';
import { html, type ComponentChildren, useEffect, useState } from '../lib.ts';
import { href } from '../router.ts';
import { can } from '../session.ts';

type Shown = AnswerOf<typeof submissions.show>;

/** What can be done to submissions. */
export type ActionName = 'read' | 'unread' | 'spam' | 'ham' | 'resend' | 'delete';
export type Perform = (action: ActionName, ids: readonly string[]) => Promise<void>;

interface SubmissionProps {
  readonly id: string;
  readonly perform: Perform;
  /** Where that was changed just now. */
  readonly isRead: boolean | undefined;
}

/** The card of the submission with this id. */
export function Submission({ id, perform, isRead }: SubmissionProps): ComponentChildren {
  const loaded = useLoaded(
    `submission ${id}`,
    (signal) => call<typeof submissions.show>('GET /submissions/:id', { params: { id }, signal }),
    { live: ['submission.', 'email.'] },
  );
  async function run(action: ActionName): Promise<void> {
    await perform(action, [id]);
    if (action !== 'delete') loaded.reload();
  }
  return html`<article class="submission" aria-label="Submission">
    <${Ready} of=${loaded} lines=${6}>
      ${(shown: Shown) => html`<${Head} of=${shown} run=${run} isRead=${isRead ?? shown.read} />
        <${Fields} of=${shown} />
        <${Files} of=${shown} />
        ${shown.status === 'accepted' ? html`<${Mail} of=${shown} /><${Verdict} of=${shown} />` : html`<${Verdict} of=${shown} /><${Mail} of=${shown} />`}
        <${Visitor} of=${shown} />`}
    <//>
  </article>`;
}

/** A value of a field in one line. */
export function textOf(value: Shown['fields'][string]): string {
  return typeof value === 'string' ? value : value.join(', ');
}

/** Who sent it, as far as the fields say: a name, else an address, else the first thing that was written. */
export function senderOf({ fields, stored }: Pick<Shown, 'fields' | 'stored'>): string {
  const entries = Object.entries(fields).map(([name, value]) => [name.toLowerCase(), textOf(value).trim()] as const);
  const [, first = ''] =
    entries.find(([name, value]) => /name/.test(name) && !/company|user|form|domain|file/.test(name) && value !== '') ??
    entries.find(([name, value]) => /mail/.test(name) && value !== '') ??
    entries.find(([, value]) => value !== '') ??
    [];
  if (first === '') return stored === 'metadata' ? 'Content deleted' : 'No fields';
  return first.slice(0, 120);
}

const STATUS = {
  accepted: ['Accepted', 'good'],
  spam: ['Spam', 'bad'],
  pending: ['Pending', 'warn'],
} as const;

interface HeadProps {
  readonly of: Shown;
  readonly run: (action: ActionName) => Promise<void>;
  readonly isRead: boolean;
}

function Head({ of, run, isRead }: HeadProps): ComponentChildren {
  const { status, form, created_at, environment } = of;
  const [label, tone] = STATUS[status];
  const isKept = status !== 'accepted';
  return html`<header class="card">
    <h2>${senderOf(of)}</h2>
    <p class="meta"><${Badge} tone=${tone}>${label}<//> ${environment === 'test' && html`<${Badge}>Test<//>`} <a href=${href(`/forms/${form}`)}>${form}</a> <span class="soft"><${Time} at=${created_at} /></span></p>
    ${
      can('forms.write') &&
      html`<div class="actions">
        <${Action} kind=${isKept ? '' : 'quiet'} run=${() => run(isKept ? 'ham' : 'spam')}>${isKept ? (status === 'spam' ? 'Not spam' : 'Release') : 'Spam'}<//>
        ${!isKept && html`<${Action} kind="quiet" run=${() => run('resend')}>Resend<//>`}
        <${Action} kind="quiet" run=${() => run(isRead ? 'unread' : 'read')}>${isRead ? 'Mark as unread' : 'Mark as read'}<//>
        <${Action} kind="quiet" run=${() => run('delete')}>Delete<//>
      </div>`
    }
    ${status === 'pending' && html`<p class="soft">The visitor has not confirmed this submission yet. Release it if you know that it is genuine.</p>`}
    ${status === 'spam' && html`<p class="soft">No email was sent. “Not spam” sends the notification and trains the filter.</p>`}
  </header>`;
}

const ADDRESS = /^[^\s@<>"]+@[^\s@<>"]+\.[^\s@<>"]+$/;

function Fields({ of: { fields, stored } }: { readonly of: Shown }): ComponentChildren {
  const entries = Object.entries(fields);
  return html`<section class="card" aria-labelledby="fields">
    <h2 id="fields">Fields</h2>
    ${
      entries.length === 0
        ? html`<p class="soft">${stored === 'metadata' ? 'The fields were deleted after the mail was delivered (store: metadata).' : 'The submission has no fields.'}</p>`
        : html`<dl class="fields">${entries.map(([name, value]) => html`<dt key=${name}>${name}</dt><dd>${(typeof value === 'string' ? [value] : value).map((each) => html`<${Value} text=${each} />`)}</dd>`)}</dl>`
    }
  </section>`;
}

function Value({ text }: { readonly text: string }): ComponentChildren {
  if (text === '') return html`<p class="soft">empty</p>`;
  if (ADDRESS.test(text))
    return html`<p><a href="mailto:${encodeURIComponent(text).replace('%40', '@')}">${text}</a></p>`;
  return html`<p class="written">${text}</p>`;
}

/** What browsers draw without running anything. */
const PICTURES = new Set(['image/png', 'image/jpeg', 'image/gif', 'image/webp', 'image/avif']);
const MAX_PICTURE_BYTES = 8 * 1024 * 1024;

type File = Shown['files'][number];

function Files({ of: { id, files } }: { readonly of: Shown }): ComponentChildren {
  if (files.length === 0) return null;
  return html`<section class="card" aria-labelledby="files">
    <h2 id="files">Files</h2>
    <ul class="files">
      ${files.map(
        (file) =>
          html`<li key=${file.id}>
            ${PICTURES.has(file.content_type) && file.size <= MAX_PICTURE_BYTES && html`<${Picture} submission=${id} file=${file} />`}
            <div class="about">
              <strong class="line">${file.filename}</strong>
              <span class="soft small">${file.content_type}, ${sizeOf(file.size)}, field ${file.field}</span>
              <${Action} kind="quiet small" run=${() => doing(() => save(id, file), `${file.filename} downloaded.`)}>Download<//>
            </div>
          </li>`,
      )}
    </ul>
  </section>`;
}

function load(submission: string, file: File, signal?: AbortSignal): Promise<Blob> {
  return callBlob<typeof submissions.file>('GET /submissions/:id/files/:file', {
    params: { id: submission, file: file.id },
    signal,
  });
}

/** Hands the file to the browser as bytes to be stored, whatever it claims to be. */
async function save(submission: string, file: File): Promise<void> {
  const blob = await load(submission, file);
  const url = URL.createObjectURL(new Blob([blob], { type: 'application/octet-stream' }));
  const link = document.createElement('a');
  link.href = url;
  link.download = file.filename;
  link.click();
  setTimeout(() => URL.revokeObjectURL(url), 60_000);
}

/** A picture as a data: URL of its bytes: the browser requests nothing, and runs nothing that is in it. */
function Picture({ submission, file }: { readonly submission: string; readonly file: File }): ComponentChildren {
  const [source, setSource] = useState<string>();
  useEffect(() => {
    const ended = new AbortController();
    load(submission, file, ended.signal)
      .then((blob) => {
        const reader = new FileReader();
        reader.addEventListener('load', () => {
          if (typeof reader.result === 'string') setSource(reader.result);
        });
        reader.readAsDataURL(new Blob([blob], { type: file.content_type }));
      })
      // The button to download it says what is wrong.
      .catch(() => setSource(''));
    return () => ended.abort();
  }, [submission, file.id]);
  if (source === undefined) return html`<div class="picture bone"></div>`;
  if (source === '') return null;
  return html`<img class="picture" src=${source} alt=${`Picture ${file.filename}`} />`;
}

/** What each sign of spam is, in words; docs/spam.md has the whole table. */
const SIGNS: Readonly<Record<string, string>> = {
  honeypot: 'A field that people do not see was filled in',
  blocklist: 'Matches the blocklist of the form',
  max_per_hour: 'Over the hourly limit of the form',
  words: 'The words that it uses',
  structure: 'Its structure: links, amounts of money, names and addresses',
  learned: 'Its words, based on your earlier decisions',
  phrases: 'Phrases typical of spam, offers or genuine questions',
  repeated_text: 'The same text was sent to other forms',
  repeated_link: 'The same link was sent to other forms',
  links: 'More than six links',
  mostly_links: 'Links and little else',
  link_markup: 'Links in markup',
  link_in_name: 'A link instead of a name',
  header_injection: 'A mail header in a single-line field',
  header_lines: 'Mail headers in its text',
  line_breaks: 'A line break in a single-line field',
  probe: 'Code of a vulnerability scanner',
  same_text: 'The same text in several fields',
  repetition: 'The same characters or words over and over',
  script_mismatch: 'Letters from several scripts in one word',
  hidden_characters: 'Invisible characters',
  gibberish: 'Random letters',
  disposable_address: 'A disposable email address',
  no_mx: 'An email address whose domain accepts no mail',
  headers: 'Sent by a program that poses as a browser',
  page_token: 'Sent too quickly, or with an invalid page token',
  challenge: 'Passed the form’s challenge',
  akismet: 'Akismet',
  rspamd: 'rspamd',
};

function Verdict({ of: { spam, status } }: { readonly of: Shown }): ComponentChildren {
  const { score, reasons } = spam;
  const sorted = reasons.toSorted((one, other) => Math.abs(other.score) - Math.abs(one.score));
  return html`<section class="card" aria-labelledby="verdict">
    <h2 id="verdict">Spam filter</h2>
    <p class="score"><meter min="0" max="100" low="50" high="79" optimum="0" value=${score} aria-label="Probability of spam"></meter> <strong>${score} %</strong> <span class="soft">likely to be spam${status === 'accepted' && score >= 60 ? '; it was accepted anyway' : ''}</span></p>
    ${
      sorted.length === 0
        ? html`<p class="soft">The filter found no signs for or against spam.</p>`
        : html`<div class="scroll"><table>
          <thead><tr><th>Reason</th><th>Detail</th><th class="number">Points</th></tr></thead>
          <tbody>
            ${sorted.map(
              ({ name, detail, score: points }) =>
                html`<tr key=${name}><td>${SIGNS[name] ?? name}</td><td class="soft">${detail}</td><td class="number">${points > 0 ? `+${points}` : String(points).replace('-', '−')}</td></tr>`,
            )}
          </tbody>
        </table></div>
        <p class="soft small">Every ten points make spam ten times as likely.</p>`
    }
  </section>`;
}

function Mail({ of: { messages, deliveries, attempts, status } }: { readonly of: Shown }): ComponentChildren {
  return html`<section class="card" aria-labelledby="mail">
    <h2 id="mail">Mail</h2>
    ${messages.length === 0 && html`<p class="soft">${status === 'accepted' ? 'There is no mail.' : 'No mail was sent: the submission has not been accepted.'}</p>`}
    ${deliveries.map(
      ({ message, recipient, state, recipient_status }) =>
        html`<div class="delivery" key=${`${message} ${recipient}`}>
          <p><${State} of=${state} /> <strong>${recipient}</strong> <a class="small" href=${href(`/mail/${message}`)}>Open the message</a></p>
          ${recipient_status !== 'confirmed' && html`<p class="soft small">${recipient_status === 'refused' ? 'The recipient has declined mail from this server.' : 'The recipient has not agreed to get mail yet: the message is waiting.'}</p>`}
          <${Attempts} of=${attempts.filter((one) => one.message === message && one.recipient === recipient)} />
        </div>`,
    )}
  </section>`;
}

/** Each attempt to deliver it, and what the other server said. */
function Attempts({ of }: { readonly of: Shown['attempts'] }): ComponentChildren {
  if (of.length === 0) return null;
  return html`<ol class="attempts">
    ${of.map(
      ({ at, host, tls, outcome, reply }) =>
        html`<li key=${at}>
          <span class="soft small"><${Time} at=${at} /></span> <span class="small">${outcome}${host !== null && `, ${host}`}${tls !== null && `, ${tls}`}</span>
          <code class="reply">${reply}</code>
        </li>`,
    )}
  </ol>`;
}

function Visitor({ of: { id, ip, user_agent, referer } }: { readonly of: Shown }): ComponentChildren {
  return html`<section class="card" aria-labelledby="visitor">
    <h2 id="visitor">Visitor</h2>
    <dl>
      <dt>IP address</dt><dd>${ip === '' ? html`<span class="soft">not stored</span>` : ip}</dd>
      <dt>Browser</dt><dd>${user_agent === '' ? html`<span class="soft">unknown</span>` : user_agent}</dd>
      <dt>Page</dt><dd>${referer === '' ? html`<span class="soft">unknown</span>` : referer}</dd>
      <dt>ID</dt><dd><${Code} text=${id} what="the ID" /></dd>
    </dl>
  </section>`;
}
