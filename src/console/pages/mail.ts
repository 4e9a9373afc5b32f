/** Mail of every kind: the list, and one message with its recipients, attempts, path and content. */
import type { emails } from '../../contract/email.ts';
import type { messages } from '../../contract/messages.ts';
import type { AnswerOf } from '../../contract/route.ts';
import { call } from '../api.ts';
import {
  countText,
  Action,
  Badge,
  Copy,
  Empty,
  Failed,
  Loading,
  More,
  number,
  Page,
  Ready,
  sizeOf,
  State,
  Tabs,
  Time,
  toneOf,
} from '../components/basics.ts';
import { DayFields, FilterChips, momentsOf, MoreFilters, Search, Select } from '../components/fields.ts';
import { confirm, doing } from '../components/messages.ts';
import { type Loaded, useListing, useLoaded } from '../data.ts';
import { html, type ComponentChildren } from '../lib.ts';
import { href, setQuery, usePlace } from '../router.ts';
import { can } from '../session.ts';

type List = AnswerOf<typeof messages.list>;
type Summary = List['messages'][number];
type Message = AnswerOf<typeof messages.show>;
type Recipient = Message['recipients'][number];
type Attempt = Recipient['attempts'][number];
type Content = AnswerOf<typeof messages.content>;

/** What each kind is to who looks at it. */
const KINDS: Readonly<Record<Summary['kind'], string>> = {
  notification: 'Notification',
  acknowledgment: 'Acknowledgment',
  confirmation: 'Confirmation',
  transactional: 'Transactional',
  forward: 'Forwarded',
  reply: 'Reply',
  dsn: 'Delivery report',
};
const STATES = [
  'queued',
  'deferred',
  'delivered',
  'bounced',
  'expired',
  'suppressed',
  'cancelled',
  'captured',
] as const;
const LIVE = ['email.'];

/** `/mail`, `?q=…&state=bounced&kind=forward&domain=…&form=…&from=…&to=…` */
export function MailList(): ComponentChildren {
  const { query } = usePlace();
  const { q = '', state = '', kind = '', recipient, domain, form, submission, from = '', to = '' } = query;
  const filters = { q, state, kind, recipient, domain, form, submission, ...momentsOf({ from, to }) };
  const list = useListing(
    JSON.stringify(filters),
    async (cursor, signal) => {
      const answer = await call<typeof messages.list>('GET /messages', { query: { ...filters, cursor }, signal });
      const { messages: items, count, count_is_more: isMore, next_cursor: next } = answer;
      return { items, count: isMore ? -count : count, next };
    },
    { live: LIVE },
  );
  const isFiltered = Object.values(filters).some((value) => (value ?? '') !== '');
  const unshown = { recipient, domain, form, submission };
  return html`<${Page} title="Mail" aside=${countText(list.count)}>
    <div class="filters" role="search">
      <${Search} label="Search subjects and recipients" value=${q} change=${(text: string) => setQuery({ q: text }, { replace: true })} />
      <${Select} label="State" value=${state} change=${(value: string) => setQuery({ state: value })} options=${[['', 'All states'], ...STATES.map((each) => [each, stateName(each)])]} />
      <${Select} label="Kind" value=${kind} change=${(value: string) => setQuery({ kind: value })} options=${[['', 'All kinds'], ...Object.entries(KINDS)]} />
      <${MoreFilters} isSet=${from !== '' || to !== ''}><${DayFields} from=${from} to=${to} /><//>
    </div>
    <${FilterChips} filters=${unshown} />
    ${list.error && html`<${Failed} error=${list.error} retry=${list.reload} />`}
    ${
      list.items.length > 0
        ? html`<ul class="list mail-list">${list.items.map((message) => html`<${Row} key=${message.id} message=${message} />`)}</ul>`
        : list.isLoading
          ? html`<${Loading} lines=${8} />`
          : list.error === undefined && html`<${Nothing} isFiltered=${isFiltered} hasMore=${list.hasMore} />`
    }
    <${More} list=${list} />
  <//>`;
}

function Nothing({
  isFiltered,
  hasMore,
}: {
  readonly isFiltered: boolean;
  readonly hasMore: boolean;
}): ComponentChildren {
  if (hasMore) {
    return html`<${Empty} title="Nothing found in the newest mail"><p>Older mail has not been searched yet: show more.</p><//>`;
  }
  if (isFiltered) {
    return html`<${Empty} title="No mail matches"><p><a href=${href('/mail')}>Show all mail</a></p><//>`;
  }
  return html`<${Empty} title="No mail yet">
    <p>Mail appears here when a form is submitted, a program sends mail, or mail is forwarded.</p>
    <p><a class="button" href=${href('/forms')}>Create a form</a></p>
  <//>`;
}

function Row({ message }: { readonly message: Summary }): ComponentChildren {
  const { id, status, kind, created_at: at, recipients, recipient_count: count } = message;
  const [first] = recipients;
  const others = count > 1 ? ` and ${number(count - 1)} more` : '';
  const failed = recipients.find(({ state }) => state === 'bounced' || state === 'expired' || state === 'deferred');
  return html`<li>
    <a href=${href(`/mail/${id}`)}>
      <span class="state"><${State} of=${status} /></span>
      <span class="line who-to">${first?.address}${others}</span>
      <span class="line what"><span class="soft">${KINDS[kind]}</span> ${titleOf(message)}</span>
      <span class="when soft small"><${Time} at=${at} short /></span>
      ${failed?.reply && html`<span class="line why small soft">${failed.reply}</span>`}
    </a>
  </li>`;
}

function titleOf({ subject, form, domain }: Pick<Summary, 'subject' | 'form' | 'domain'>): string {
  return subject ?? (form === null ? domain : form);
}

function stateName(state: string): string {
  return state.charAt(0).toUpperCase() + state.slice(1);
}

const TABS = ['delivery', 'path', 'html', 'text', 'headers', 'source'] as const;
type Tab = (typeof TABS)[number];

/** `/mail/:id`, `?tab=path` */
export function MailMessage({ params }: { readonly params: Readonly<Record<string, string>> }): ComponentChildren {
  const { id = '' } = params;
  const { query } = usePlace();
  const tab = TABS.find((each) => each === query['tab']) ?? 'delivery';
  const message = useLoaded(
    id,
    (signal) => call<typeof messages.show>('GET /messages/:id', { params: { id }, signal }),
    { live: LIVE },
  );
  const { data } = message;
  return html`<${Page}
    title=${data === undefined ? 'Message' : (data.subject ?? `${KINDS[data.kind]} from ${data.form ?? data.domain}`)}
    aside=${data && html`<${State} of=${data.status} />`}
    above=${{ href: href('/mail'), name: 'Mail' }}
    actions=${data && html`<${Actions} message=${data} reload=${message.reload} />`}
  >
    <${Ready} of=${message} lines=${6}>
      ${(shown: Message) => html`<${Facts} message=${shown} />
        <${Tabs}
          label="Message"
          chosen=${tab}
          choose=${(name: Tab) => setQuery({ tab: name === 'delivery' ? undefined : name }, { replace: true })}
          tabs=${[
            ['delivery', 'Delivery'],
            ['path', 'Path'],
            ['html', 'HTML'],
            ['text', 'Text'],
            ['headers', 'Headers'],
            ['source', 'Source'],
          ]}
        >
          <${Shown} tab=${tab} message=${shown} key=${tab} />
        <//>`}
    <//>
  <//>`;
}

function Actions({ message, reload }: { readonly message: Message; readonly reload: () => void }): ComponentChildren {
  if (!can('forms.write')) return null;
  const { id, recipients, submission } = message;
  const failed = recipients.filter(({ state }) => /^(bounced|expired|cancelled|suppressed)$/.test(state));
  const waiting = recipients.filter(({ state }) => state === 'queued' || state === 'deferred');
  async function resend(): Promise<void> {
    const text = `It is sent again to ${listOf(failed)}. This counts against the account’s plan.`;
    if (!(await confirm({ title: 'Send this message again?', text, action: 'Send again' }))) return;
    await doing(() => call<typeof messages.resend>('POST /messages/:id/resend', { params: { id } }), 'Queued again.');
    reload();
  }
  async function cancel(): Promise<void> {
    const text = `${listOf(waiting)} will not get it. You can send it again later.`;
    if (!(await confirm({ title: 'Cancel this message?', text, action: 'Cancel message' }))) return;
    await doing(() => call<typeof messages.cancel>('POST /messages/:id/cancel', { params: { id } }), 'Cancelled.');
    reload();
  }
  return html`${submission !== null && html`<a class="button quiet" href=${href(`/submissions/${submission}`)}>Submission</a>`}
    ${failed.length > 0 && html`<${Action} run=${resend}>Send again<//>`}
    ${waiting.length > 0 && html`<${Action} kind="quiet" run=${cancel}>Cancel<//>`}`;
}

function listOf(recipients: readonly Recipient[]): string {
  const [first, second, ...others] = recipients.map(({ address }) => address);
  if (second === undefined) return first ?? 'nobody';
  return others.length === 0 ? `${first} and ${second}` : `${first}, ${second} and ${others.length} more`;
}

function Facts({ message }: { readonly message: Message }): ComponentChildren {
  const { kind, created_at: at, expires_at: end, size, domain, form, message_id: messageId, environment } = message;
  const isWaiting = message.recipients.some(({ state }) => state === 'queued' || state === 'deferred');
  return html`<section class="card" aria-label="About this message">
    <dl>
      <dt>Kind</dt><dd>${KINDS[kind]}${environment === 'test' && html` <${Badge}>test<//>`}</dd>
      <dt>From</dt><dd><a href=${href('/mail', { domain })}>${domain}</a></dd>
      ${form !== null && html`<dt>Form</dt><dd><a href=${href('/mail', { form })}>${form}</a></dd>`}
      <dt>Queued</dt><dd><${Time} at=${at} /></dd>
      ${isWaiting && html`<dt>Retried until</dt><dd><${Time} at=${end} /></dd>`}
      ${size > 0 && html`<dt>Size</dt><dd>${sizeOf(size)}</dd>`}
      <dt>Message-ID</dt><dd><code>${messageId}</code> <${Copy} text=${messageId} what="the Message-ID" /></dd>
    </dl>
  </section>`;
}

function Shown({ tab, message }: { readonly tab: Tab; readonly message: Message }): ComponentChildren {
  switch (tab) {
    case 'delivery':
      return html`<${Recipients} recipients=${message.recipients} />`;
    case 'path':
      return html`<${Timeline} entries=${message.timeline} />`;
    case 'source':
      return html`<${Source} id=${message.id} />`;
    case 'html':
    case 'text':
    case 'headers':
      return html`<${ContentView} message=${message} part=${tab} />`;
  }
}

function Recipients({ recipients }: { readonly recipients: readonly Recipient[] }): ComponentChildren {
  return html`<div class="recipients">${recipients.map(
    (recipient) => html`<section class="card" key=${recipient.id} aria-label=${recipient.address}>
      <h2 class="recipient"><span>${recipient.address}</span> <${State} of=${recipient.state} /></h2>
      ${recipient.reply !== null && html`<p class="reply ${toneOf(recipient.state)}">${recipient.reply}</p>`}
      ${meaningOf(recipient) !== '' && html`<p>${meaningOf(recipient)}</p>`}
      ${
        recipient.next_attempt_at !== null &&
        html`<p class="soft">Next attempt: <${Time} at=${recipient.next_attempt_at} /></p>`
      }
      ${
        recipient.attempts.length === 0
          ? html`<p class="soft">No attempt has been made.</p>`
          : recipient.attempts
              .toReversed()
              .map((attempt, i) => html`<${AttemptCard} key=${attempt.number} attempt=${attempt} isOpen=${i === 0} />`)
      }
    </section>`,
  )}</div>`;
}

/** What became of it, and what to do about that. */
function meaningOf({ state, reply }: Recipient): string {
  switch (state) {
    case 'bounced':
      return `It is not retried. ${causeOf(reply)}`.trim();
    case 'deferred':
      return `It is retried automatically. ${causeOf(reply)}`.trim();
    case 'expired':
      return 'It was retried until it expired.';
    case 'suppressed':
      return 'Nothing was sent: the address is on the suppression list.';
    case 'captured':
      return 'Mail sent with test keys is kept here and never delivered.';
    default:
      return '';
  }
}

/** What the other server means by its enhanced status code (RFC 3463 §3, RFC 7505), where that helps. */
const CAUSES: readonly (readonly [RegExp, string])[] = [
  [/ 5\.1\.(?:1|6|10) /, 'There is no such mailbox: check the spelling of the address.'],
  [/ 5\.1\.2 /, 'The domain does not exist or accepts no mail: check the spelling of the address.'],
  [/ [45]\.2\.1 /, 'The mailbox is disabled.'],
  [/ [45]\.2\.2 /, 'The mailbox is full.'],
  [/ [45]\.3\.4 /, 'The message is too large for the recipient’s mail server.'],
  [/ 4\.7\.\d+ /, 'The recipient’s mail server does not accept it now, often because of too much mail at once.'],
  [
    / 5\.7\.\d+ /,
    'The recipient’s mail server rejected it because of its policy: check the DNS records of your domain, and whether the text looks like spam.',
  ],
];

function causeOf(reply: string | null): string {
  return CAUSES.find(([code]) => code.test(reply ?? ''))?.[1] ?? '';
}

function AttemptCard({ attempt, isOpen }: { readonly attempt: Attempt; readonly isOpen: boolean }): ComponentChildren {
  const { number: count, at, outcome, host, address, tls, tls_policy: policy, tls_result: result, dialogue } = attempt;
  const where = host === null ? '' : address === null ? host : `${host} [${address}]`;
  return html`<details class="smtp-attempt" open=${isOpen}>
    <summary>
      <span>Attempt ${count}</span> <${State} of=${outcome} />
      <span class="soft small"><${Time} at=${at} /></span>
    </summary>
    <dl>
      ${where !== '' && html`<dt>Server</dt><dd>${where}</dd>`}
      ${host !== null && html`<dt>Encryption</dt><dd>${tls ?? 'none: clear text'}</dd>`}
      ${policy !== null && html`<dt>TLS policy</dt><dd>${policy}: ${result ?? 'not reached'}</dd>`}
      <dt>Reply</dt><dd>${attempt.reply}</dd>
    </dl>
    ${
      dialogue.length > 0 &&
      html`<h3>SMTP dialogue <${Copy} text=${dialogue.map(lineOf).join('\n')} what="the dialogue" /></h3>
        <ol class="dialogue" tabindex="0" aria-label="SMTP dialogue">
          ${dialogue.map(
            (line, i) =>
              html`<li class="${CLASSES[line.side]}${/^[45]\d\d/.test(line.text) && line.side === 'server' ? ' refused' : ''}" key=${i}><span class="hidden">${SIDES[line.side]}</span>${line.text}</li>`,
          )}
        </ol>`
    }
  </details>`;
}

const SIDES = { client: 'Client: ', server: 'Server: ', note: 'Note: ' } as const;
const CLASSES = { client: 'client', server: 'server', note: 'remark' } as const;
const SIGNS = { client: '>', server: '<', note: '-' } as const;

function lineOf({ side, text }: Attempt['dialogue'][number]): string {
  return `${SIGNS[side]} ${text}`;
}

const STEPS: Readonly<Record<string, string>> = {
  request: 'Request',
  inbound: 'Received',
  judged: 'Spam filter',
  message: 'Queued',
  attempt: 'Attempt',
  end: 'Result',
  event: 'Event',
  webhook: 'Webhook',
  waits: 'Waiting',
};

function Timeline({ entries }: { readonly entries: Message['timeline'] }): ComponentChildren {
  return html`<div class="card"><ol class="timeline">${entries.map(
    ({ at, step, text }, i) => html`<li class="step-${step}" key=${i}>
      <span class="step">${STEPS[step] ?? step}</span>
      <span class="soft small"><${Time} at=${at} /></span>
      <p>${text}</p>
    </li>`,
  )}</ol></div>`;
}

function ContentView({
  message: { id, content },
  part,
}: {
  readonly message: Message;
  readonly part: 'html' | 'text' | 'headers';
}): ComponentChildren {
  if (content === 'none') {
    return html`<${Empty} title="The content is not kept">
      <p>Content is kept until delivery ends, or as long as the message is listed if a test key sent it. The content of a notification is in its submission.</p>
    <//>`;
  }
  return html`<${LoadedContent} id=${id} part=${part} />`;
}

const ORIGINS: Readonly<Record<Content['content'], string>> = {
  finished: '',
  requested: 'As requested through the API.',
  received: 'As received, before it was forwarded.',
};

function LoadedContent({
  id,
  part,
}: {
  readonly id: string;
  readonly part: 'html' | 'text' | 'headers';
}): ComponentChildren {
  const content: Loaded<Content> = useLoaded(id, (signal) =>
    call<typeof messages.content>('GET /messages/:id/content', { params: { id }, signal }),
  );
  return html`<${Ready} of=${content}>
    ${(shown: Content) => html`
      ${ORIGINS[shown.content] !== '' && html`<p class="soft small">${ORIGINS[shown.content]}</p>`}
      ${shown.truncated && html`<p class="note warn">The message is long: only its beginning is shown.</p>`}
      <${Part} of=${shown} part=${part} />
      ${
        shown.attachments.length > 0 &&
        part !== 'headers' &&
        html`<h2>Attachments</h2><ul>${shown.attachments.map(
          (file, i) =>
            html`<li key=${i}>${file.filename === '' ? 'unnamed file' : file.filename} <span class="soft small">${file.content_type}, ${sizeOf(file.size)}</span></li>`,
        )}</ul>`
      }`}
  <//>`;
}

function Part({ of, part }: { readonly of: Content; readonly part: 'html' | 'text' | 'headers' }): ComponentChildren {
  switch (part) {
    case 'html':
      return of.html_url === null
        ? html`<${Empty} title="There is no HTML part" />`
        : html`<iframe class="mail-frame" title="The message as mail programs show it" sandbox="" referrerpolicy="no-referrer" src=${of.html_url}></iframe>
            <p class="soft small">This frame runs no scripts and loads nothing from other servers, so some images may be missing.</p>`;
    case 'text':
      return of.text === null
        ? html`<${Empty} title="There is no text part" />`
        : html`<pre tabindex="0">${of.text}</pre>`;
    case 'headers':
      return html`<div class="card scroll"><table class="headers"><thead><tr><th scope="col">Name</th><th scope="col">Value</th></tr></thead>
        <tbody>${of.headers.map(
          ({ name, value }, i) => html`<tr key=${i}><th scope="row">${name}</th><td class="mono">${value}</td></tr>`,
        )}</tbody></table></div>`;
  }
}

function Source({ id }: { readonly id: string }): ComponentChildren {
  const source = useLoaded(id, (signal) =>
    call<typeof emails.source>('GET /email/:id/source', { params: { id }, signal }),
  );
  if (source.error?.status === 404) {
    return html`<${Empty} title="The source is not kept"><p>The source is kept until delivery ends, or longer for mail sent with test keys.</p><//>`;
  }
  return html`<${Ready} of=${source}>
    ${(
      shown: AnswerOf<typeof emails.source>,
    ) => html`<p><${Copy} text=${shown.source} what="the source" /> <span class="soft small">${sizeOf(shown.size)}</span></p>
      <pre tabindex="0" class="source">${shown.source}</pre>`}
  <//>`;
}
