/** The operator looks at the server: what doctor finds, the active settings, and the log. */
import type { AnswerOf } from '../../../contract/route.ts';
import type { configCheck, doctor, serverConfig, serverLog } from '../../../contract/server.ts';
import { call } from '../../api.ts';
import { Action, Badge, Empty, Loading, Page, Ready, State, Time, type Tone } from '../../components/basics.ts';
import { Check, Search } from '../../components/fields.ts';
import { doing } from '../../components/messages.ts';
import { useLoaded } from '../../data.ts';
import { html, type ComponentChildren } from '../../lib.ts';
import { setQuery, usePlace } from '../../router.ts';

const ORDER = ['failed', 'warning', 'unknown', 'ok'];

export function Doctor(): ComponentChildren {
  const loaded = useLoaded('doctor', (signal) => call<typeof doctor.check>('GET /admin/doctor', { signal }));
  return html`<${Page} title="Doctor" aside=${loaded.data && !loaded.isLoading ? (loaded.data.ok ? 'no check failed' : 'some checks failed') : undefined} actions=${html`<button type="button" class="quiet" disabled=${loaded.isLoading} onClick=${loaded.reload}>Check again</button>`}>
    ${loaded.isLoading && html`<p class="soft" role="status">Checking DNS, connections, the machine and the configuration. This takes up to 30 seconds.</p>`}
    ${
      loaded.isLoading && loaded.data === undefined
        ? html`<${Loading} lines=${8} />`
        : html`<${Ready} of=${loaded}>${({ checks }: AnswerOf<typeof doctor.check>) => html`<ul class="list">
      ${checks
        .toSorted((a, b) => ORDER.indexOf(a.status) - ORDER.indexOf(b.status))
        .map(
          ({ name, status, found, advice }, i) => html`<li key=${`${name} ${i}`}><div class="row attention">
            <${State} of=${status === 'warning' ? 'degraded' : status} label=${status} />
            <div><strong>${titleOf(name)}</strong><br />${found}${advice !== undefined && html`<p class="hint">${advice}</p>`}</div>
          </div></li>`,
        )}
    </ul>`}<//>`
    }
  <//>`;
}

const ABBREVIATIONS = /\b(?:arc|dane|dkim|dmarc|dns|dnssec|ip|ipv6|mta sts|mx|spf|tls)\b/g;

/** `reverse_dns` as a title: Reverse DNS. */
function titleOf(name: string): string {
  const words = name.replaceAll('_', ' ').replaceAll(ABBREVIATIONS, (word) => word.toUpperCase());
  return words.charAt(0).toUpperCase() + words.slice(1);
}

export function Configuration(): ComponentChildren {
  const { query } = usePlace();
  const text = query['q'] ?? '';
  const isChanged = query['changed'] === 'true';
  const loaded = useLoaded('config', (signal) => call<typeof serverConfig.show>('GET /admin/config', { signal }));

  async function reload(): Promise<void> {
    const done = await doing(
      () => call<typeof configCheck.reload>('POST /admin/config/reload', { body: {} }),
      'The configuration was reloaded.',
    );
    if (done) loaded.reload();
  }

  return html`<${Page} title="Configuration" aside=${loaded.data && html`<code>${loaded.data.file}</code>`} actions=${html`<${Action} kind="quiet" run=${reload}>Reload configuration<//>`}>
    <p class="soft">The active settings of this daemon. Change them in the file. Secrets are not shown.</p>
    <${Ready} of=${loaded} lines=${10}>${({ settings, waiting, problems }: AnswerOf<typeof serverConfig.show>) => {
      const shown = settings.filter(
        ({ path, value, source }) =>
          (!isChanged || source === 'file') &&
          `${path} ${JSON.stringify(value)}`.toLowerCase().includes(text.toLowerCase()),
      );
      return html`
        ${problems.length > 0 && html`<div class="note bad" role="status"><ul class="plain">${problems.map((problem) => html`<li key=${problem}>${problem}</li>`)}</ul></div>`}
        ${waiting.length > 0 && html`<div class="note warn" role="status"><p>These take effect at the next start: ${waiting.map((key) => html`<code key=${key}>${key}</code> `)}</p></div>`}
        <div class="filters">
          <${Search} label="Search settings" value=${text} change=${(q: string) => setQuery({ q }, { replace: true })} />
          <${Check} label="Only settings from the file" checked=${isChanged} change=${(changed: boolean) => setQuery({ changed })} />
        </div>
        ${
          shown.length === 0
            ? html`<${Empty} title="No setting found" />`
            : [...Map.groupBy(shown, ({ path }) => path.split('.', 1)[0] ?? '')].map(
                ([section, some]) => html`<${Section} key=${section} name=${section} settings=${some} />`,
              )
        }`;
    }}<//>
  <//>`;
}

type Setting = AnswerOf<typeof serverConfig.show>['settings'][number];

function Section({
  name,
  settings,
}: {
  readonly name: string;
  readonly settings: readonly Setting[];
}): ComponentChildren {
  return html`<section class="card"><h2><code>${name}</code></h2>
    <div class="scroll" tabindex="0" role="region" aria-label="Settings of ${name}"><table class="settings">
      <thead><tr><th scope="col">Setting</th><th scope="col">Value</th><th scope="col">From</th></tr></thead>
      <tbody>${settings.map(
        ({ path, value, source, restart }) => html`<tr key=${path}>
        <th scope="row"><code>${path.slice(name.length + 1)}</code>${restart && html`<br /><span class="soft small">needs a restart</span>`}</th>
        <td><${Value} of=${value} /></td>
        <td>${source === 'file' ? html`<${Badge} tone="accent">file<//>` : html`<span class="soft">default</span>`}</td>
      </tr>`,
      )}</tbody>
    </table></div></section>`;
}

function Value({ of }: { readonly of: unknown }): ComponentChildren {
  if (of === null) return html`<span class="soft">null</span>`;
  if (Array.isArray(of))
    return of.length === 0
      ? html`<span class="soft">empty</span>`
      : html`<ul class="plain inline">${of.map((one, i) => html`<li key=${i}><${Value} of=${one} /></li>`)}</ul>`;
  return html`<code>${typeof of === 'string' ? of : JSON.stringify(of)}</code>`;
}

const TONES: Readonly<Record<string, Tone>> = { error: 'bad', warn: 'warn', info: 'plain', debug: 'plain' };
const ID = /^[a-z]{3}_[0-9a-z]{26}$/;

export function Logs(): ComponentChildren {
  const { query } = usePlace();
  const id = (query['id'] ?? '').trim();
  const isId = id === '' || ID.test(id);
  const loaded = useLoaded(`logs ${isId ? id : ''}`, (signal) =>
    call<typeof serverLog.list>('GET /admin/logs', { query: { id: isId ? id : undefined, limit: 200 }, signal }),
  );
  return html`<${Page} title="Log" aside="the last hour of this daemon" actions=${html`<button type="button" class="quiet" disabled=${loaded.isLoading} onClick=${loaded.reload}>Refresh</button>`}>
    <div class="filters"><${Search} label="Find by ID: req_…, sub_…, msg_…, dlv_…" value=${id} change=${(value: string) => setQuery({ id: value.trim() }, { replace: true })} /></div>
    ${!isId && html`<p class="fault" role="status">An ID has three letters, an underscore and 26 characters, such as the request ID of an error.</p>`}
    <${Ready} of=${loaded} lines=${10}>${({ lines, since }: AnswerOf<typeof serverLog.list>) =>
      lines.length === 0
        ? html`<${Empty} title=${id === '' ? 'No entries yet' : 'No entry contains this ID'}><p>${since === null ? 'Nothing was logged since the daemon started.' : html`This page has entries since <${Time} at=${since} />. Older entries are in the journal.`}</p><//>`
        : html`<ul class="list log">${lines.map(
            ({ time, level, event, message, fields }, i) => html`<li key=${`${time} ${i}`}><details>
              <summary class="row attention"><span class="soft small"><${Time} at=${time} /></span><span>${level !== 'info' && html`<${Badge} tone=${TONES[level] ?? 'plain'}>${level}<//>`} ${message} <code>${event}</code></span></summary>
              <dl>${Object.entries(fields).map(([name, value]) => html`<dt key=${name}>${name}</dt><dd><${FieldValue} of=${value} /></dd>`)}</dl>
            </details></li>`,
          )}</ul>`}<//>
  <//>`;
}

/** An id leads to all lines that name it. */
function FieldValue({ of }: { readonly of: unknown }): ComponentChildren {
  const text = typeof of === 'string' ? of : JSON.stringify(of);
  if (!ID.test(text)) return html`<span class="mono">${text}</span>`;
  return html`<button type="button" class="link mono" onClick=${() => setQuery({ id: text })}>${text}</button>`;
}
