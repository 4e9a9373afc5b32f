/** The first page: today beside a week ago, what needs attention, the first steps of a new account, and figures over time. */
import type { analytics } from '../../contract/analytics.ts';
import type { AnswerOf } from '../../contract/route.ts';
import { call } from '../api.ts';
import { Badge, number, Page, Ready, spanOf, Time, type Tone } from '../components/basics.ts';
import { Chart } from '../components/chart.ts';
import { useLoaded } from '../data.ts';
import { html, type ComponentChildren } from '../lib.ts';
import { href, setQuery, usePlace } from '../router.ts';
import { useSession } from '../session.ts';

type Answer = AnswerOf<typeof analytics.overview>;
type Attention = Answer['attention'][number];

const HOUR = 3_600_000;
const DAY = 24 * HOUR;
const LIVE = ['submission.', 'email.', 'domain.', 'queue.'];

export function Overview(): ComponentChildren {
  const { session } = useSession();
  const midnight = new Date(new Date().setHours(0, 0, 0, 0)).toISOString();
  const loaded = useLoaded(
    midnight,
    (signal) => call<typeof analytics.overview>('GET /overview', { query: { from: midnight }, signal }),
    { live: LIVE },
  );
  const name = session?.acting_for?.name ?? session?.tenant.name;
  return html`<${Page} title="Overview" aside=${loaded.data?.scope === 'server' ? 'the whole server' : name}>
    <${Ready} of=${loaded} lines=${6}>${(data: Answer) => html`
      <${FirstSteps} of=${data} />
      <${Today} of=${data} />
      <${NeedsAttention} of=${data} />
      <${OverTime} isServer=${data.scope === 'server'} />
    `}<//>
  <//>`;
}

const STEPS = [
  [
    'has_domain',
    'Add a domain',
    'Forms and mail then use this domain. Without a domain, create an instant form.',
    '/domains',
  ],
  ['has_verified_domain', 'Publish its DNS records', 'The domain’s page shows them, ready to copy.', '/domains'],
  ['has_form', 'Create a form', 'You get its address and code for your page.', '/forms'],
  [
    'has_submission',
    'Send a first submission',
    'From your page, or as a test from the form’s page in the console.',
    '/forms',
  ],
] as const;

function FirstSteps({ of: { first_steps: steps } }: { readonly of: Answer }): ComponentChildren {
  // A form needs no domain.
  if (steps.has_form && steps.has_submission) return null;
  const next = STEPS.find(([name]) => !steps[name])?.[0];
  return html`<section class="card" aria-labelledby="steps">
    <h2 id="steps">First steps</h2>
    <ol class="steps">
      ${STEPS.map(
        ([name, title, text, path]) =>
          html`<li key=${name} class=${steps[name] ? 'done' : ''}>
            <span class="tick" aria-hidden="true">${steps[name] ? '✓' : ''}</span>
            <div><a href=${href(path)}>${title}</a>${steps[name] && html`<span class="hidden"> (done)</span>`}${name === next && html`<p class="hint">${text}</p>`}</div>
          </li>`,
      )}
    </ol>
  </section>`;
}

const TILES = [
  ['submissions', 'Submissions', '/submissions', {}],
  ['spam', 'Spam', '/submissions', { view: 'spam' }],
  ['delivered', 'Delivered', '/mail', { state: 'delivered' }],
  ['deferred', 'Deferred', '/mail', { state: 'deferred' }],
  ['bounced', 'Bounced', '/mail', { state: 'bounced' }],
] as const;

function Today({ of }: { readonly of: Answer }): ComponentChildren {
  const { today, last_week: before, oldest_waiting_at: oldest, to } = of;
  return html`<section aria-labelledby="today">
    <h2 id="today" class="section">Today</h2>
    <ul class="tiles">
      ${TILES.map(
        ([name, title, path, query]) =>
          html`<li key=${name}><a href=${href(path, query)}>
            <span class="soft">${title}</span>
            <strong>${number(today[name])}</strong>
            <span class="soft small">${number(before[name])} a week ago</span>
          </a></li>`,
      )}
      <li><div>
        <span class="soft">Oldest in queue</span>
        <strong>${oldest === null ? 'none' : spanOf(Math.max(0, Date.parse(to) - Date.parse(oldest)))}</strong>
        <span class="soft small">${oldest === null ? 'nothing is waiting' : html`since <${Time} at=${oldest} short />`}</span>
      </div></li>
    </ul>
  </section>`;
}

const KINDS: Readonly<Record<Attention['kind'], readonly [word: string, tone: Tone]>> = {
  domain_pending: ['DNS', 'plain'],
  domain_degraded: ['DNS', 'warn'],
  domain_failed: ['DNS', 'bad'],
  webhook_failing: ['Webhook', 'warn'],
  webhook_disabled: ['Webhook', 'bad'],
  form_over_limit: ['Form', 'warn'],
  recipients_unconfirmed: ['Recipients', 'plain'],
  queue: ['Queue', 'bad'],
  relay: ['Smarthost', 'bad'],
  disk: ['Disk', 'bad'],
  configuration: ['Configuration', 'bad'],
  restart_needed: ['Configuration', 'warn'],
  certificate: ['Certificate', 'bad'],
  block_list: ['Block list', 'bad'],
  receiver: ['Receiver', 'warn'],
  destination_failing: ['Destination', 'warn'],
  destination_held: ['Held', 'warn'],
};

function NeedsAttention({ of: { attention, scope } }: { readonly of: Answer }): ComponentChildren {
  return html`<section aria-labelledby="attention">
    <h2 id="attention" class="section">Needs attention</h2>
    ${
      attention.length === 0
        ? html`<p class="card calm"><span class="tick" aria-hidden="true">✓</span> Nothing. Problems with domains, mail${scope === 'server' ? ', the server' : ''} and webhooks appear here.</p>`
        : html`<ul class="list">
          ${attention.map((one, i) => {
            const [word, tone] = KINDS[one.kind];
            const target = targetOf(one, scope);
            const line = html`<${Badge} tone=${tone}>${word}<//><span>${one.message}</span>${one.since === null ? html`<span></span>` : html`<span class="soft small">since <${Time} at=${one.since} short /></span>`}`;
            return html`<li key=${i}>${target === undefined ? html`<div class="row attention">${line}</div>` : html`<a class="attention" href=${target}>${line}</a>`}</li>`;
          })}
        </ul>`
    }
  </section>`;
}

/** Where it is put right. */
function targetOf({ kind, subject }: Attention, scope: Answer['scope']): string | undefined {
  switch (kind) {
    case 'domain_pending':
    case 'domain_degraded':
    case 'domain_failed':
      return href(`/domains/${encodeURIComponent(subject)}`);
    case 'webhook_failing':
    case 'webhook_disabled':
      return href(`/webhooks/${subject}`);
    case 'form_over_limit':
      return href(`/forms/${subject}`);
    case 'recipients_unconfirmed':
      return undefined;
    case 'destination_failing':
      return href('/server/queue', { state: 'failing' });
    case 'destination_held':
      return href('/server/queue', { state: 'held' });
    case 'configuration':
    case 'restart_needed':
      return href('/server/config');
    default:
      return scope === 'server' ? href('/server/doctor') : undefined;
  }
}

const RANGES = [
  ['24h', '24 hours', DAY],
  ['7d', '7 days', 7 * DAY],
  ['30d', '30 days', 30 * DAY],
  ['12m', '12 months', 365 * DAY],
] as const;

type Interval = 'hour' | 'day' | 'month';

function intervalFor(span: number): Interval {
  if (span <= 14 * DAY) return 'hour';
  return span <= 200 * DAY ? 'day' : 'month';
}

/** The figures over a time that is in the address: a range up to now, or what was drawn. */
function OverTime({ isServer }: { readonly isServer: boolean }): ComponentChildren {
  const { query } = usePlace();
  const range = RANGES.find(([name]) => name === query['range']) ?? RANGES[1];
  const drawn = [Date.parse(query['from'] ?? ''), Date.parse(query['to'] ?? '')] as const;
  const isDrawn = drawn[0] < drawn[1];
  const interval = intervalFor(isDrawn ? drawn[1] - drawn[0] : range[2]);
  const span = isDrawn ? { from: query['from'], to: query['to'] } : {};
  const loaded = useLoaded(
    JSON.stringify([isServer, range[0], span]),
    (signal) => {
      const from = isDrawn ? span.from : new Date(Date.now() - range[2]).toISOString();
      const scope = isServer ? 'server' : 'account';
      return call<typeof analytics.show>('GET /analytics', { query: { interval, scope, ...span, from }, signal });
    },
    // A long time looks the same a second later, and costs more.
    { live: range[0] === '24h' && !isDrawn ? LIVE : [] },
  );
  function zoom(from: number, to: number): void {
    // Whole hours, so that the address says what is shown.
    const [first, last] = [Math.floor(from / HOUR) * HOUR, Math.max(Math.ceil(to / HOUR) * HOUR, from + HOUR)];
    setQuery({ range: undefined, from: new Date(first).toISOString(), to: new Date(last).toISOString() });
  }
  return html`<section aria-labelledby="time">
    <div class="bar-of">
      <h2 id="time" class="section">Over time</h2>
      <div class="ranges" role="group" aria-label="Time">
        ${RANGES.map(([name, title]) => html`<button type="button" key=${name} class="quiet small" aria-pressed=${!isDrawn && name === range[0] ? 'true' : 'false'} onClick=${() => setQuery({ range: name, from: undefined, to: undefined })}>${title}</button>`)}
        ${isDrawn && html`<span class="soft small"><${Time} at=${query['from'] ?? ''} /> to <${Time} at=${query['to'] ?? ''} /></span>`}
      </div>
    </div>
    <${Ready} of=${loaded} lines=${8}>${({ series }: AnswerOf<typeof analytics.show>) => {
      const at = series.map((one) => one.at);
      function values(name: keyof (typeof series)[number] & keyof AnswerOf<typeof analytics.show>['totals']): number[] {
        return series.map((one) => one[name]);
      }
      return html`<div class="cards wide">
        <div class="card"><h3>Submissions</h3>
          <${Chart} label="Submissions over time" at=${at} interval=${interval} zoom=${zoom} series=${[
            { name: 'Submissions', tone: 'accent', values: values('submissions') },
            { name: 'Spam', tone: 'warn', values: values('spam') },
          ]} /></div>
        <div class="card"><h3>Mail</h3>
          <${Chart} label="Mail over time" at=${at} interval=${interval} zoom=${zoom} series=${[
            { name: 'Delivered', tone: 'good', values: values('delivered') },
            { name: 'Deferred', tone: 'warn', values: values('deferred') },
            { name: 'Bounced', tone: 'bad', values: values('bounced') },
            { name: 'Forwarded', tone: 'accent', values: values('forwarded') },
          ]} /></div>
      </div>
      <p class="hint">Drag across a chart to zoom in.</p>`;
    }}<//>
  </section>`;
}
