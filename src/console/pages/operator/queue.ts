/** What waits, by destination: how much, since when, why; and what the operator does about it. */
import type { queue } from '../../../contract/queue.ts';
import type { AnswerOf } from '../../../contract/route.ts';
import { ApiError, call } from '../../api.ts';
import {
  Action,
  Badge,
  Empty,
  Failed,
  Loading,
  More,
  number,
  Page,
  Ready,
  spanOf,
  State,
  Time,
} from '../../components/basics.ts';
import { Field, Select } from '../../components/fields.ts';
import { confirm, doing, say } from '../../components/messages.ts';
import { useListing, useLoaded } from '../../data.ts';
import { html, type ComponentChildren, useEffect, useState } from '../../lib.ts';
import { href, setQuery, thisPage, usePlace } from '../../router.ts';

type Destinations = AnswerOf<typeof queue.destinations>;
type Destination = Destinations['destinations'][number];
type Delivery = AnswerOf<typeof queue.list>['deliveries'][number];

const LIVE = ['queue.changed', 'email.deferred', 'email.bounced'];
const FILTERS = [
  ['all', 'All destinations'],
  ['failing', 'Failing'],
  ['held', 'Held'],
] as const;
/** Counts of the server are as old as this. */
const REFRESH_MS = 10_000;
/** More are not counted. */
const MOST = 10_000;

export function Queue(): ComponentChildren {
  const { query } = usePlace();
  const state = FILTERS.find(([name]) => name === query['state'])?.[0] ?? 'all';
  const loaded = useLoaded(
    state,
    (signal) =>
      call<typeof queue.destinations>('GET /admin/queue/destinations', { query: { state, limit: 200 }, signal }),
    { live: LIVE },
  );
  useEffect(() => {
    const timer = setInterval(loaded.reload, loaded.data?.complete === false ? 1000 : REFRESH_MS);
    return () => clearInterval(timer);
  }, [loaded.data?.complete]);
  const count = loaded.data?.count;
  const [isHolding, setHolding] = useState(false);
  return html`<${Page} title="Queue" aside=${count === undefined || count === 0 ? undefined : `mail is waiting for ${number(count)} ${count === 1 ? 'destination' : 'destinations'}`} actions=${html`<button type="button" class="quiet" aria-expanded=${isHolding ? 'true' : 'false'} onClick=${() => setHolding(!isHolding)}>Hold a destination</button>`}>
    ${isHolding && html`<${HoldForm} close=${() => setHolding(false)} held=${() => (setHolding(false), setQuery({ state: 'held' }), loaded.reload())} />`}
    <div class="filters">
      <${Select} label="Destinations" value=${state} change=${(value: string) => setQuery({ state: value === 'all' ? undefined : value })} options=${FILTERS} />
    </div>
    <${Ready} of=${loaded} lines=${6}>${(data: Destinations) => html`
      ${data.relay !== null && html`<div class="note bad" role="status"><p><strong>The smarthost is paused</strong> until <${Time} at=${data.relay.paused_until} />, after ${number(data.relay.failures)} failures: ${data.relay.last_error}</p></div>`}
      ${
        data.destinations.length === 0
          ? html`<${Empty} title=${state === 'all' ? 'No mail is waiting' : state === 'held' ? 'Nothing is held' : 'No destination is failing'}><p>Mail that cannot be delivered at once appears here, with the reason and the time of the next attempt.</p><//>`
          : html`<div class="card"><div class="scroll" tabindex="0" role="region" aria-label="Destinations"><table class="stack">
            <thead><tr><th scope="col">Destination</th><th scope="col" class="number">Waiting</th><th scope="col">Oldest</th><th scope="col">Next attempt</th><th scope="col">Reason</th><th scope="col"><span class="hidden">Actions</span></th></tr></thead>
            <tbody>${data.destinations.map((one) => html`<${Row} key=${one.destination} of=${one} reload=${loaded.reload} />`)}</tbody>
          </table></div></div>`
      }
    `}<//>
  <//>`;
}

/** Also of what nothing waits for yet. */
function HoldForm({ close, held }: { readonly close: () => void; readonly held: () => void }): ComponentChildren {
  const [domain, setDomain] = useState('');
  const [error, setError] = useState<ApiError>();
  async function hold(event: Event): Promise<void> {
    event.preventDefault();
    const isHere = thisPage();
    try {
      await call<typeof queue.hold>('POST /admin/queue/hold', { body: { domain } });
      say(`Mail for ${domain} is held, including new mail.`);
      if (isHere()) held();
    } catch (failure) {
      if (!(failure instanceof ApiError)) throw failure;
      setError(failure);
    }
  }
  return html`<form class="card" onSubmit=${hold}>
    <${Field} label="Domain" required value=${domain} change=${setDomain} fault=${error?.details[0]?.message ?? error?.message} hint="Domain of the recipients, such as example.com, or the ID of a webhook. Its mail is held until you release it, and does not expire." />
    <div class="actions"><button>Hold</button><button type="button" class="quiet" onClick=${close}>Cancel</button></div>
  </form>`;
}

function Row({ of, reload }: { readonly of: Destination; readonly reload: () => void }): ComponentChildren {
  const { destination, waiting, oldest_at: oldest, next_attempt_at: next, last_error: error, last_reply: reply } = of;
  return html`<tr>
    <th scope="row"><a href=${href(`/server/queue/${encodeURIComponent(destination)}`)}>${destination}</a></th>
    <td class="number" data-label="Waiting">${number(waiting)}${waiting >= MOST && ' or more'}</td>
    <td data-label="Oldest">${oldest === null ? '–' : html`<span title=${oldest}>${spanOf(Date.now() - Date.parse(oldest))}</span>`}</td>
    <td data-label="Next attempt">${of.held ? '–' : next === null ? '–' : Date.parse(next) <= Date.now() ? 'due' : html`<${Time} at=${next} short />`}</td>
    <td class="why"><${States} of=${of} />${(error ?? reply) !== null && html` <span class="soft small">${error ?? reply}</span>`}</td>
    <td><${DestinationActions} of=${of} reload=${reload} /></td>
  </tr>`;
}

function States({ of }: { readonly of: Destination }): ComponentChildren {
  return html`${of.held && html`<${Badge} tone="warn">held<//>`} ${
    of.paused_until !== null &&
    html`<${Badge} tone="warn">${'paused until '}<${Time} at=${of.paused_until} short /><//>`
  } ${of.failures > 0 && html`<span class="small">${number(of.failures)} ${of.failures === 1 ? 'failure' : 'failures'}</span>`}`;
}

function DestinationActions({
  of,
  reload,
}: {
  readonly of: Destination;
  readonly reload: () => void;
}): ComponentChildren {
  const { destination: domain, held, waiting } = of;

  async function steer(action: 'hold' | 'release'): Promise<void> {
    const done = await doing(
      () =>
        action === 'hold'
          ? call<typeof queue.hold>('POST /admin/queue/hold', { body: { domain } })
          : call<typeof queue.release>('POST /admin/queue/release', { body: { domain } }),
      action === 'hold' ? `Mail for ${domain} is held, including new mail.` : `${domain} is no longer held or paused.`,
      action === 'hold' ? () => void steer('release') : undefined,
    );
    if (done) reload();
  }

  async function actOn(action: 'retry' | 'cancel'): Promise<void> {
    const filter = { domain };
    if (action === 'cancel') {
      const { count } = await call<typeof queue.act>('POST /admin/queue/actions', {
        body: { action, filter, dry_run: true },
      });
      const yes = await confirm({
        title: `Cancel mail for ${domain}?`,
        text: `${number(count)} ${count === 1 ? 'waiting delivery is' : 'waiting deliveries are'} cancelled and never sent. The senders are not notified. This cannot be undone.`,
        action: `Cancel ${number(count)} ${count === 1 ? 'delivery' : 'deliveries'}`,
        type: count >= 100 ? domain : undefined,
      });
      if (!yes) return;
    }
    const done = await doing(
      () => call<typeof queue.act>('POST /admin/queue/actions', { body: { action, filter } }),
      action === 'retry' ? `Retrying mail for ${domain} now.` : `Mail for ${domain} was cancelled.`,
    );
    if (done) reload();
  }

  return html`<div class="actions">
    ${waiting > 0 && html`<${Action} kind="quiet small" run=${() => actOn('retry')}>Retry<span class="hidden"> ${domain}</span><//>`}
    ${held || of.paused_until !== null ? html`<${Action} kind="quiet small" run=${() => steer('release')}>Release<span class="hidden"> ${domain}</span><//>` : html`<${Action} kind="quiet small" run=${() => steer('hold')}>Hold<span class="hidden"> ${domain}</span><//>`}
    ${waiting > 0 && html`<${Action} kind="quiet small" run=${() => actOn('cancel')}>Cancel<span class="hidden"> ${domain}</span><//>`}
  </div>`;
}

/** The deliveries of one destination. */
export function QueueOf({ params }: { readonly params: Readonly<Record<string, string>> }): ComponentChildren {
  const { query } = usePlace();
  const domain = params['destination'] ?? '';
  const state = query['state'] ?? '';
  const list = useListing(
    `${domain} ${state}`,
    async (cursor, signal) => {
      const page = await call<typeof queue.list>('GET /admin/queue', { query: { domain, state, cursor }, signal });
      return { items: page.deliveries, count: page.count, next: page.next_cursor };
    },
    { live: LIVE },
  );
  return html`<${Page} title=${domain} above=${{ href: href('/server/queue'), name: 'Queue' }} aside=${list.count === undefined ? undefined : `${number(list.count)} ${list.count === 1 ? 'delivery' : 'deliveries'}`}>
    <div class="filters">
      <${Select} label="State" value=${state} change=${(value: string) => setQuery({ state: value })} options=${[['', 'All states'], ...['queued', 'sending', 'deferred', 'delivered', 'bounced', 'expired', 'cancelled', 'suppressed'].map((name) => [name, name] as const)]} />
    </div>
    ${list.error && html`<${Failed} error=${list.error} retry=${list.reload} />`}
    ${list.count === undefined && !list.error && html`<${Loading} lines=${6} />`}
    ${list.count === 0 && html`<${Empty} title="No deliveries"><p>There are no deliveries in this state for ${domain}.</p><//>`}
    ${
      list.items.length > 0 &&
      html`<div class="card"><div class="scroll" tabindex="0" role="region" aria-label="Deliveries"><table class="stack">
        <thead><tr><th scope="col">Recipient</th><th scope="col">State</th><th scope="col" class="number">Attempts</th><th scope="col">Queued</th><th scope="col">Next attempt</th><th scope="col">Last reply</th><th scope="col"><span class="hidden">Actions</span></th></tr></thead>
        <tbody>${list.items.map((one: Delivery) => html`<${DeliveryRow} key=${one.id} of=${one} reload=${list.reload} />`)}</tbody>
      </table></div></div><${More} list=${list} />`
    }
  <//>`;
}

function DeliveryRow({ of, reload }: { readonly of: Delivery; readonly reload: () => void }): ComponentChildren {
  const waits = of.state === 'queued' || of.state === 'deferred';

  async function retry(): Promise<void> {
    const params = { id: of.id };
    if (
      await doing(
        () => call<typeof queue.retry>('POST /admin/queue/:id/retry', { params }),
        `Retrying mail to ${of.recipient} now.`,
      )
    )
      reload();
  }

  async function cancel(): Promise<void> {
    const yes = await confirm({
      title: `Cancel the mail to ${of.recipient}?`,
      text: 'It is never sent, and the sender is not notified. This cannot be undone.',
      action: 'Cancel delivery',
    });
    if (!yes) return;
    const params = { id: of.id };
    if (
      await doing(
        () => call<typeof queue.cancel>('POST /admin/queue/:id/cancel', { params }),
        `The mail to ${of.recipient} was cancelled.`,
      )
    )
      reload();
  }

  async function copyId(): Promise<void> {
    await navigator.clipboard.writeText(of.message);
    say(`${of.message} was copied.`);
  }

  return html`<tr>
    <th scope="row">${of.recipient}<br /><button type="button" class="link small" onClick=${copyId} title="Copy the ID of the message"><code>${of.message}</code></button></th>
    <td data-label="State"><span><${State} of=${of.held ? 'held' : of.state} />${of.suspended && html` <${Badge} tone="warn">account suspended<//>`}</span></td>
    <td class="number" data-label="Attempts">${number(of.attempts)}</td>
    <td data-label="Queued">${of.created_at !== null && html`<${Time} at=${of.created_at} short />`}</td>
    <td data-label="Next attempt">${of.next_attempt_at === null ? '–' : Date.parse(of.next_attempt_at) <= Date.now() ? 'due' : html`<${Time} at=${of.next_attempt_at} short />`}</td>
    <td class="small why" data-label="Last reply">${of.last_reply ?? '–'}</td>
    <td>${waits && html`<div class="actions"><${Action} kind="quiet small" run=${retry}>Retry<//><${Action} kind="quiet small" run=${cancel}>Cancel<//></div>`}</td>
  </tr>`;
}
