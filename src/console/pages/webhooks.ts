/** Webhooks: where events are posted to, and what became of each delivery. */
import type { webhooks } from '../../contract/webhooks.ts';
import type { AnswerOf } from '../../contract/route.ts';
import { ApiError, call } from '../api.ts';
import {
  Action,
  Badge,
  Code,
  Copy,
  Empty,
  More,
  number,
  Page,
  Ready,
  State,
  Time,
  spanOf,
} from '../components/basics.ts';
import { Check, Field, Select } from '../components/fields.ts';
import { confirm, doing } from '../components/messages.ts';
import { type Loaded, useListing, useLoaded } from '../data.ts';
import { html, type ComponentChildren, useState } from '../lib.ts';
import { go, href, setQuery, thisPage, usePlace, type PageProps } from '../router.ts';
import { can } from '../session.ts';

type Webhook = AnswerOf<typeof webhooks.list>['webhooks'][number];
type Delivery = AnswerOf<typeof webhooks.deliveries>['deliveries'][number];
type Shown = AnswerOf<typeof webhooks.delivery>;
type EventType = Webhook['events'][number];

/** What each event means; the compiler holds the list complete. */
const EVENTS: Readonly<Record<EventType, string>> = {
  'submission.accepted': 'A form accepted a submission',
  'submission.spam': 'A submission was marked as spam',
  'submission.fallback': 'Mail about a submission went to the fallback',
  'email.queued': 'A message was queued',
  'email.delivered': 'A message reached the next server',
  'email.deferred': 'An attempt failed and will be retried',
  'email.bounced': 'A message could not be delivered',
  'email.complained': 'A recipient reported a message as spam',
  'email.suppressed': 'A message was not sent: suppressed address',
  'inbound.accepted': 'A message was accepted for forwarding',
  'inbound.rejected': 'A message was rejected',
  'domain.verified': 'All records of a domain were found',
  'domain.degraded': 'A record is missing or wrong',
  'domain.failed': 'The records were wrong for too long',
  'config.pushed': 'A configuration was deployed',
};
const EVENT_TYPES = Object.keys(EVENTS).filter((name): name is EventType => name in EVENTS);

/** The list, with a form to add one. */
export function Webhooks(): ComponentChildren {
  const { query } = usePlace();
  const list = useListing('webhooks', async (cursor, signal) => {
    const page = await call<typeof webhooks.list>('GET /webhooks', { query: { cursor }, signal });
    return { items: page.webhooks, count: page.count, next: page.next_cursor };
  });
  const isNew = query['new'] !== undefined;
  const add = html`<button type="button" onClick=${() => setQuery({ new: true })}>Add webhook</button>`;
  return html`<${Page} title="Webhooks" aside=${list.count === undefined ? undefined : number(list.count)} actions=${!isNew && can('projects.write') && add}>
    ${isNew && html`<${NewWebhook} done=${() => list.reload()} />`}
    <${Ready} of=${asLoaded(list)}>
      ${() =>
        list.items.length === 0
          ? !isNew &&
            html`<${Empty} title="No webhooks yet">
              <p>Postern can post events to your server as they happen, such as a submission, a bounce or broken DNS records. Requests are signed.</p>
              <p>${add}</p>
            <//>`
          : html`<ul class="list">${list.items.map((each) => html`<${WebhookLine} of=${each} key=${each.id} />`)}</ul>`}
    <//>
    <${More} list=${list} />
  <//>`;
}

function WebhookLine({ of }: { readonly of: Webhook }): ComponentChildren {
  const { id, url, status, failing_since: failing, description, project, form, events } = of;
  const about = [description, form ?? (project === null ? '' : `project ${project}`), eventsText(events)];
  return html`<li>
    <a class="split" href=${href(`/webhooks/${id}`)}>
      <span><strong class="line">${url}</strong><span class="soft small line">${about.filter((text) => text !== '').join(' · ')}</span></span>
      ${failing === null || status === 'disabled' ? html`<${State} of=${status} />` : html`<${Badge} tone="warn">failing<//>`}
    </a>
  </li>`;
}

function eventsText(events: readonly string[]): string {
  if (events.length === 0) return 'all events';
  return events.length > 3 ? `${events.length} event types` : events.join(', ');
}

function NewWebhook({ done }: { readonly done: () => void }): ComponentChildren {
  const [url, setUrl] = useState('');
  const [description, setDescription] = useState('');
  const [events, setEvents] = useState<readonly string[]>([]);
  const [fault, setFault] = useState<string>();
  const [made, setMade] = useState<AnswerOf<typeof webhooks.create>>();
  if (made !== undefined) {
    return html`<section class="card note good" aria-label="New webhook">
      <h2>The webhook is active</h2>
      <p>Verify each request with this secret. It is shown only once.</p>
      <p><${Code} text=${made.secret} what="secret" /></p>
      <p><a class="button quiet" href=${href(`/webhooks/${made.id}`)}>Go to the webhook</a></p>
    </section>`;
  }
  async function create(): Promise<void> {
    const body = { url, description, events };
    const answer = await attempt(() => call<typeof webhooks.create>('POST /webhooks', { body }), setFault);
    if (answer === undefined) return;
    setMade(answer);
    done();
  }
  return html`<section class="card" aria-label="New webhook">
    <h2>New webhook</h2>
    <${Field} label="URL" type="url" value=${url} change=${setUrl} fault=${fault} placeholder="https://example.com/hooks/postern" hint="A public URL. Postern posts JSON to it." />
    <${Field} label="What it is for (optional)" value=${description} change=${setDescription} />
    <${EventChoice} chosen=${events} choose=${setEvents} />
    <div class="actions">
      <${Action} run=${create} disabled=${url === ''}>Add webhook<//>
      <button type="button" class="quiet" onClick=${() => setQuery({ new: undefined })}>Cancel</button>
    </div>
  </section>`;
}

interface EventChoiceProps {
  readonly chosen: readonly string[];
  readonly choose: (events: readonly string[]) => void;
}

function EventChoice({ chosen, choose }: EventChoiceProps): ComponentChildren {
  return html`<fieldset>
    <legend>Events</legend>
    <p class="hint">${chosen.length === 0 ? 'All events are sent. Select some to send only those.' : 'Only the selected events are sent.'}</p>
    <div class="choices">
      ${EVENT_TYPES.map(
        (type) =>
          html`<${Check} key=${type} label=${html`<code>${type}</code> <span class="soft small">${EVENTS[type]}</span>`} checked=${chosen.includes(type)} change=${(isOn: boolean) => choose(EVENT_TYPES.filter((one) => (one === type ? isOn : chosen.includes(one))))} />`,
      )}
    </div>
  </fieldset>`;
}

/** Does it; answers undefined where it is refused, after showing why. */
async function attempt<T>(
  work: () => Promise<T>,
  setFault: (fault: string | undefined) => void,
): Promise<T | undefined> {
  try {
    const answer = await work();
    setFault(undefined);
    return answer;
  } catch (error) {
    if (!(error instanceof ApiError)) throw error;
    setFault(error.details[0]?.message ?? error.message);
    return undefined;
  }
}

/** One webhook: its settings and its deliveries. */
export function WebhookPage({ params: { id = '' } }: PageProps): ComponentChildren {
  const loaded = useLoaded(id, (signal) => call<typeof webhooks.show>('GET /webhooks/:id', { params: { id }, signal }));
  return html`<${Ready} of=${loaded} lines=${8}>
    ${(webhook: Webhook) => html`<${OneWebhook} webhook=${webhook} reload=${loaded.reload} />`}
  <//>`;
}

function OneWebhook({
  webhook,
  reload,
}: {
  readonly webhook: Webhook;
  readonly reload: () => void;
}): ComponentChildren {
  const { id, url, status, project } = webhook;
  const [round, setRound] = useState(0);
  const params = { id };
  const mayWrite = can('projects.write');
  async function test(): Promise<void> {
    const sent = call<typeof webhooks.test>('POST /webhooks/:id/test', { params, body: {} }).then((answer) => {
      if (!answer.delivered) throw new ApiError(`The test was not accepted: ${answer.result}`, { status: 200 });
    });
    await doing(() => sent, 'The test was delivered.');
    setRound(round + 1);
  }
  async function setStatus(next: 'active' | 'disabled'): Promise<void> {
    const body = { status: next };
    const done = next === 'active' ? 'The webhook is active.' : 'The webhook is disabled.';
    await doing(() => call<typeof webhooks.change>('PATCH /webhooks/:id', { params, body }), done);
    reload();
  }
  async function remove(): Promise<void> {
    const isHere = thisPage();
    const text = html`<p>Nothing more is posted to <code>${url}</code>. Its pending deliveries and the history of past ones are deleted.</p>`;
    if (!(await confirm({ title: 'Delete this webhook?', text, action: 'Delete webhook' }))) return;
    const done = await doing(
      () => call<typeof webhooks.remove>('DELETE /webhooks/:id', { params }),
      'The webhook was deleted.',
    );
    if (done && isHere()) go('/webhooks');
  }
  const actions = html`
    <${Action} kind="quiet" run=${test}>Send test<//>
    <${Action} kind="quiet" run=${() => setStatus(status === 'active' ? 'disabled' : 'active')}>${status === 'active' ? 'Disable' : 'Enable'}<//>
    ${project === null && html`<${Action} kind="quiet" run=${remove}>Delete<//>`}`;
  return html`<${Page} title=${hostOf(url)} aside=${html`<${State} of=${status} />`} above=${{ href: href('/webhooks'), name: 'Webhooks' }} actions=${mayWrite && actions}>
    <${Trouble} of=${webhook} />
    <div class="panes side-right">
      <${Deliveries} webhook=${id} round=${round} />
      <${Settings} webhook=${webhook} reload=${reload} mayWrite=${mayWrite} />
    </div>
  <//>`;
}

function hostOf(url: string): string {
  return URL.canParse(url) ? new URL(url).host : url;
}

function Trouble({ of: { status, reason, failing_since: failing } }: { readonly of: Webhook }): ComponentChildren {
  if (status === 'disabled')
    return html`<div class="note bad"><p><strong>Nothing is posted.</strong> ${reason}</p><p>Once the target works, enable the webhook and replay the missed events.</p></div>`;
  if (failing === null) return null;
  return html`<div class="note warn"><p><strong>Every attempt has failed since <${Time} at=${failing} />.</strong> After five days the webhook is disabled.</p></div>`;
}

interface SettingsProps {
  readonly webhook: Webhook;
  readonly reload: () => void;
  readonly mayWrite: boolean;
}

function Settings({ webhook, reload, mayWrite }: SettingsProps): ComponentChildren {
  const { id, url, events, description, project, form, created_at: at } = webhook;
  const [isEditing, setEditing] = useState(false);
  const [secret, setSecret] = useState<string>();
  async function rotate(): Promise<void> {
    const text = html`<p>Postern creates a new secret and shows it once. For 24 hours, requests are signed with both.</p>`;
    if (!(await confirm({ title: 'Create a new secret?', text, action: 'Create new secret' }))) return;
    await doing(async () => {
      const made = await call<typeof webhooks.rotate>('POST /webhooks/:id/rotate', { params: { id }, body: {} });
      setSecret(made.secret);
    }, 'The new secret is in use.');
  }
  if (isEditing) return html`<${Edit} webhook=${webhook} done=${() => (setEditing(false), reload())} />`;
  return html`<section class="card" aria-label="Settings">
    <h2>Settings</h2>
    <dl>
      <dt>URL</dt><dd><${Code} text=${url} what="URL" /></dd>
      <dt>Events</dt><dd>${events.length === 0 ? 'All' : events.map((type) => html`<div key=${type}><code>${type}</code></div>`)}</dd>
      ${description !== '' && html`<dt>For</dt><dd>${description}</dd>`}
      ${form !== null && html`<dt>Form</dt><dd><a href=${href(`/forms/${form}`)}>${form}</a></dd>`}
      ${project !== null && html`<dt>Project</dt><dd><a href=${href(`/projects/${project}`)}>${project}</a></dd>`}
      ${at !== null && html`<dt>Added</dt><dd><${Time} at=${at} /></dd>`}
    </dl>
    ${project !== null && html`<p class="soft">The configuration of the project declares this webhook. Change it there.</p>`}
    ${
      secret !== undefined &&
      html`<div class="note good"><p>The new secret. It is shown only once.</p><${Code} text=${secret} what="secret" /></div>`
    }
    ${
      mayWrite &&
      html`<div class="actions spaced">
        ${project === null && html`<button type="button" class="quiet" onClick=${() => setEditing(true)}>Change</button>`}
        <${Action} kind="quiet" run=${rotate}>New secret<//>
      </div>`
    }
  </section>`;
}

function Edit({ webhook, done }: { readonly webhook: Webhook; readonly done: () => void }): ComponentChildren {
  const [url, setUrl] = useState(webhook.url);
  const [description, setDescription] = useState(webhook.description);
  const [events, setEvents] = useState<readonly string[]>(webhook.events);
  const [fault, setFault] = useState<string>();
  async function save(): Promise<void> {
    const parts = { params: { id: webhook.id }, body: { url, description, events } };
    if ((await attempt(() => call<typeof webhooks.change>('PATCH /webhooks/:id', parts), setFault)) !== undefined)
      done();
  }
  return html`<section class="card" aria-label="Settings">
    <h2>Settings</h2>
    <${Field} label="URL" type="url" value=${url} change=${setUrl} fault=${fault} />
    <${Field} label="What it is for" value=${description} change=${setDescription} />
    <${EventChoice} chosen=${events} choose=${setEvents} />
    <div class="actions"><${Action} run=${save}>Save<//><button type="button" class="quiet" onClick=${done}>Cancel</button></div>
  </section>`;
}

const STATES = [
  ['', 'All deliveries'],
  ['pending', 'Pending'],
  ['delivered', 'Delivered'],
  ['failed', 'Failed'],
] as const;

function Deliveries({ webhook, round }: { readonly webhook: string; readonly round: number }): ComponentChildren {
  const { query } = usePlace();
  const { state = '', event, delivery: open } = query;
  const list = useListing(`${webhook} ${state} ${event} ${round}`, async (cursor, signal) => {
    const parts = { params: { id: webhook }, query: { state, event, cursor }, signal };
    const page = await call<typeof webhooks.deliveries>('GET /webhooks/:id/deliveries', parts);
    return { items: page.deliveries, count: page.count, next: page.next_cursor };
  });
  return html`<section aria-label="Deliveries">
    <div class="filters">
      <${Select} label="State" value=${state} options=${STATES} change=${(value: string) => setQuery({ state: value, delivery: undefined })} />
      ${event !== undefined && html`<button type="button" class="quiet" onClick=${() => setQuery({ event: undefined })}>Event ${event} ✕</button>`}
      <button type="button" class="quiet" onClick=${list.reload}>Refresh</button>
    </div>
    <${Ready} of=${asLoaded(list)} lines=${6}>
      ${() =>
        list.items.length === 0
          ? html`<${Empty} title="No deliveries"><p>Each event for this webhook is posted and listed here for 30 days. To try it, send a test.</p><//>`
          : html`<ul class="list">
              ${list.items.map((each) => html`<${DeliveryLine} webhook=${webhook} of=${each} isOpen=${each.id === open} reload=${list.reload} key=${each.id} />`)}
            </ul>`}
    <//>
    <${More} list=${list} />
  </section>`;
}

interface LineProps {
  readonly webhook: string;
  readonly of: Delivery;
  readonly isOpen: boolean;
  readonly reload: () => void;
}

function DeliveryLine({ webhook, of, isOpen, reload }: LineProps): ComponentChildren {
  const { id, type, state, attempts, last_attempt_at: last, last_result: result, created_at: made } = of;
  const at = last ?? made;
  return html`<li>
    <button type="button" class="row split plain" aria-expanded=${isOpen ? 'true' : 'false'} onClick=${() => setQuery({ delivery: isOpen ? undefined : id }, { replace: true })}>
      <span>
        <strong>${type ?? 'event no longer kept'}</strong>${attempts > 1 && html` <span class="soft">${attempts} attempts</span>`}
        <span class="soft line small">${result ?? 'not attempted yet'}</span>
      </span>
      <span class="meta"><${State} of=${state} />${at !== null && html`<span class="soft small"><${Time} at=${at} short /></span>`}</span>
    </button>
    ${isOpen && html`<${DeliveryDetails} webhook=${webhook} id=${id} reload=${reload} />`}
  </li>`;
}

interface DetailsProps {
  readonly webhook: string;
  readonly id: string;
  readonly reload: () => void;
}

function DeliveryDetails({ webhook, id, reload }: DetailsProps): ComponentChildren {
  const params = { id: webhook, delivery: id };
  const loaded = useLoaded(`${webhook} ${id}`, (signal) =>
    call<typeof webhooks.delivery>('GET /webhooks/:id/deliveries/:delivery', { params, signal }),
  );
  async function replay(): Promise<void> {
    const parts = { params, body: {} };
    const isSent = await doing(
      () => call<typeof webhooks.replayDelivery>('POST /webhooks/:id/deliveries/:delivery/replay', parts),
      'The delivery is being sent again.',
    );
    if (!isSent) return;
    loaded.reload();
    reload();
  }
  return html`<div class="details">
    <${Ready} of=${loaded}>
      ${(shown: Shown) => html`
        <div class="actions">
          ${shown.event !== null && can('projects.write') && html`<${Action} kind="quiet small" run=${replay}>Replay<//>`}
          <span class="soft small">webhook-id <code>${shown.id}</code></span>
          ${shown.next_attempt_at !== null && html`<span class="soft small">next attempt <${Time} at=${shown.next_attempt_at} /></span>`}
        </div>
        ${shown.posts.map((post) => html`<${Attempt} of=${post} key=${post.number} />`)}
        ${shown.posts.length === 0 && shown.attempts > 0 && html`<p class="soft">Requests and responses are kept for the newest 1,000 deliveries.</p>`}
        <${Body} title="Request body" text=${shown.body === null ? undefined : pretty(shown.body)} isCut=${shown.body_is_cut} missing="The event is no longer kept." />
      `}
    <//>
  </div>`;
}

function Attempt({
  of: { number: count, started_at: at, duration_ms: ms, request, answer, error },
}: {
  readonly of: Shown['posts'][number];
}): ComponentChildren {
  const isGood = answer !== null && answer.status >= 200 && answer.status < 300;
  return html`<section class="attempt" aria-label="Attempt ${count}">
    <p>
      <strong>Attempt ${count}</strong> <${Badge} tone=${isGood ? 'good' : 'bad'}>${answer?.status ?? 'no response'}<//>
      <span class="soft small"> <${Time} at=${at} /> · ${ms < 1000 ? `${ms} ms` : spanOf(ms)}</span>
    </p>
    ${error !== null && html`<p class="fault">${error}</p>`}
    ${answer !== null && html`<${Body} title="Response" text=${answer.body} isCut=${answer.body_is_cut} missing="" />`}
    <details>
      <summary>Headers</summary>
      <div class="cards">
        <${Headers} title="Request to ${request.url}" of=${request.headers} />
        ${answer !== null && html`<${Headers} title="Response" of=${answer.headers} />`}
      </div>
    </details>
  </section>`;
}

function Headers({
  title,
  of,
}: {
  readonly title: string;
  readonly of: Readonly<Record<string, string>>;
}): ComponentChildren {
  return html`<div>
    <p><strong>${title}</strong></p>
    <pre tabindex="0">${Object.entries(of)
      .map(([name, value]) => `${name}: ${value}\n`)
      .join('')}</pre>
  </div>`;
}

interface BodyProps {
  readonly title: string;
  readonly text: string | undefined;
  readonly isCut: boolean;
  /** Said where there is no text. */
  readonly missing: string;
}

function Body({ title, text, isCut, missing }: BodyProps): ComponentChildren {
  if (text === undefined) return html`<p class="soft">${missing}</p>`;
  if (text === '') return html`<p class="soft">${title}: empty</p>`;
  return html`<div class="body">
    <p class="split"><strong>${title}</strong><${Copy} text=${text} what=${title.toLowerCase()} /></p>
    <pre class="tall" tabindex="0">${text}${isCut && html`<span class="soft">\n… truncated</span>`}</pre>
  </div>`;
}

/** JSON in lines; what is none stays as it is. */
function pretty(text: string): string {
  try {
    return JSON.stringify(JSON.parse(text), null, 2);
  } catch {
    return text;
  }
}

/** A list as what `Ready` shows. */
function asLoaded(list: {
  readonly count: number | undefined;
  readonly error: ApiError | undefined;
  readonly isLoading: boolean;
  readonly reload: () => void;
}): Loaded<true> {
  return {
    data: list.count === undefined ? undefined : true,
    error: list.error,
    isLoading: list.isLoading,
    reload: list.reload,
  };
}
