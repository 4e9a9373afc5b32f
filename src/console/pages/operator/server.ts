/** What the server does now: live rates, the queue, and problems; the same as `postern top`. */
import type { AnswerOf } from '../../../contract/route.ts';
import type { status } from '../../../contract/server.ts';
import { call } from '../../api.ts';
import { number, Page, Ready, sizeOf, spanOf } from '../../components/basics.ts';
import { Chart } from '../../components/chart.ts';
import { useLoaded } from '../../data.ts';
import { html, type ComponentChildren, useEffect, useRef } from '../../lib.ts';
import { href } from '../../router.ts';

type Status = AnswerOf<typeof status.show>;

const EVERY_MS = 2000;
/** Five minutes. */
const MAX_SAMPLES = 150;

export function Server(): ComponentChildren {
  const samples = useRef<readonly Status[]>([]);
  const loaded = useLoaded('status', async (signal) => {
    const now = await call<typeof status.show>('GET /admin/status', { signal });
    const isSame = samples.current.at(-1)?.started_at === now.started_at;
    samples.current = [...(isSame ? samples.current : []), now].slice(-MAX_SAMPLES);
    return now;
  });
  useEffect(() => {
    const timer = setInterval(() => {
      if (!document.hidden) loaded.reload();
    }, EVERY_MS);
    return () => clearInterval(timer);
  }, []);
  return html`<${Page} title="Live" aside=${loaded.data?.hostname}>
    <${Ready} of=${loaded} lines=${6}>${(now: Status) => html`
      ${now.problems.length > 0 && html`<div class="note bad" role="status"><ul class="plain">${now.problems.map((problem) => html`<li key=${problem}>${problem}</li>`)}</ul></div>`}
      <${Tiles} of=${now} />
      <${Rates} samples=${samples.current} />
      <div class="cards">
        <section class="card"><h2>Daemon</h2><dl>
          <dt>Version</dt><dd>${now.version}</dd>
          <dt>Running for</dt><dd>${spanOf(Date.parse(now.now) - Date.parse(now.started_at))}</dd>
          <dt>Memory</dt><dd>${sizeOf(now.memory)}</dd>
          <dt>CPU time</dt><dd>${spanOf(now.cpu_seconds * 1000)}</dd>
        </dl></section>
        <section class="card"><h2>Since startup</h2><dl>
          ${(['delivered', 'deferred', 'bounced', 'expired'] as const).map((name) => html`<dt key=${name}>${name.charAt(0).toUpperCase()}${name.slice(1)}</dt><dd>${number(now.deliveries[name])}</dd>`)}
        </dl></section>
        <section class="card"><h2>Latency</h2><div class="scroll"><table class="dense">
          <thead><tr><th scope="col">Operation</th><th scope="col" class="number">Median</th><th scope="col" class="number">95 %</th></tr></thead>
          <tbody>${LATENCIES.map(([name, title]) => html`<tr key=${name}><th scope="row">${title}</th>${[0.5, 0.95].map((part) => html`<td class="number" key=${part}>${percentile(now.latencies[name], part)}</td>`)}</tr>`)}</tbody>
        </table></div></section>
      </div>
    `}<//>
  <//>`;
}

function Tiles({ of: { queue, accepted_last_minute: accepted } }: { readonly of: Status }): ComponentChildren {
  const tiles = [
    ['Accepted', number(accepted), 'in the last minute'],
    ['Queued', number(queue.queued), `${number(queue.sending)} being sent`],
    ['Deferred', number(queue.deferred), 'retried later'],
    ['Oldest due', queue.oldest_due_seconds < 1 ? '–' : spanOf(queue.oldest_due_seconds * 1000), 'waiting to be sent'],
    ['Paused', number(queue.paused), 'destinations'],
    ['Held', number(queue.held), 'destinations'],
  ] as const;
  const targets: Readonly<Record<string, string>> = { Paused: 'failing', Held: 'held' };
  return html`<ul class="tiles">
    ${tiles.map(
      ([title, value, text]) =>
        html`<li key=${title}><a href=${href('/server/queue', { state: targets[title] })}><span class="soft">${title}</span><strong>${value}</strong><span class="soft small">${text}</span></a></li>`,
    )}
  </ul>`;
}

/** Deliveries each second, from sample to sample. */
function Rates({ samples }: { readonly samples: readonly Status[] }): ComponentChildren {
  const pairs = samples.slice(1).map((one, i) => [samples[i] ?? one, one] as const);
  function rate(name: keyof Status['deliveries']): number[] {
    return pairs.map(([before, one]) => {
      const seconds = (Date.parse(one.now) - Date.parse(before.now)) / 1000;
      return seconds <= 0 ? 0 : Math.round(((one.deliveries[name] - before.deliveries[name]) / seconds) * 60);
    });
  }
  return html`<section class="card live"><h2>Deliveries per minute, live</h2>
    ${
      pairs.length < 2
        ? html`<p class="soft plot">The chart appears in a few seconds.</p>`
        : html`<${Chart} label="Deliveries per minute" total="last" at=${pairs.map(([, { now }]) => now)} interval="second" series=${[
            { name: 'Delivered', tone: 'good', values: rate('delivered') },
            { name: 'Deferred', tone: 'warn', values: rate('deferred') },
            { name: 'Bounced', tone: 'bad', values: rate('bounced') },
          ]} />`
    }
  </section>`;
}

const LATENCIES = [
  ['form', 'Form post'],
  ['smtp', 'SMTP transaction'],
  ['delivery', 'Acceptance to delivery'],
] as const;

/** The upper bound of the bucket that has it. */
function percentile({ buckets, count }: Status['latencies']['form'], part: number): string {
  if (count === 0) return '–';
  const bucket = buckets.find((one) => one.count >= count * part);
  if (bucket === undefined || bucket.le === null) return 'over a minute';
  return bucket.le < 1 ? `≤ ${bucket.le * 1000} ms` : `≤ ${bucket.le} s`;
}
