/** Domains: their records and what is in DNS today, DKIM keys, forwarding, and what other mail systems report. */
import type { CheckLine, domains } from '../../contract/domains.ts';
import type { projects } from '../../contract/projects.ts';
import type { AnswerOf } from '../../contract/route.ts';
import { ApiError, call, callLines, unreachable } from '../api.ts';
import {
  Action,
  Badge,
  Code,
  Copy,
  Empty,
  Failed,
  Loading,
  More,
  number,
  Page,
  Ready,
  State,
  Tabs,
  Time,
  toneOf,
  type Tone,
} from '../components/basics.ts';
import { Field } from '../components/fields.ts';
import { confirm, doing, say } from '../components/messages.ts';
import { type Loaded, useListing, useLoaded } from '../data.ts';
import { html, type ComponentChildren, useState } from '../lib.ts';
import { go, href, setQuery, thisPage, usePlace } from '../router.ts';
import { can } from '../session.ts';

type Domain = AnswerOf<typeof domains.show>;
type DnsRecord = Domain['records'][number];
type Explained = AnswerOf<typeof domains.explain>;
type Reports = AnswerOf<typeof domains.reports>;

const LIVE = ['domain.'];
const PURPOSES: Readonly<Record<DnsRecord['purpose'], string>> = {
  ownership: 'Ownership',
  dkim: 'DKIM',
  spf: 'SPF',
  dmarc: 'DMARC',
  inbound: 'Incoming mail (MX)',
  mta_sts: 'MTA-STS',
  tlsrpt: 'TLS reports',
};

/** `/domains` */
export function DomainList(): ComponentChildren {
  const list = useListing(
    'domains',
    async (cursor, signal) => {
      const answer = await call<typeof domains.list>('GET /domains', { query: { cursor }, signal });
      return { items: answer.domains, count: answer.count, next: answer.next_cursor };
    },
    { live: LIVE },
  );
  const [isAdding, setAdding] = useState(false);
  const mayAdd = can('domains.write') && can('projects.read');
  return html`<${Page}
    title="Domains"
    aside=${list.count === undefined ? undefined : number(list.count)}
    actions=${mayAdd && html`<button type="button" aria-expanded=${isAdding ? 'true' : 'false'} onClick=${() => setAdding(!isAdding)}>Add domain</button>`}
  >
    ${isAdding && html`<${AddDomain} />`}
    ${list.error && html`<${Failed} error=${list.error} retry=${list.reload} />`}
    ${
      list.items.length > 0
        ? html`<ul class="list domains">${list.items.map((domain) => html`<${Row} key=${domain.domain + domain.environment} domain=${domain} />`)}</ul>`
        : list.isLoading
          ? html`<${Loading} lines=${4} />`
          : list.error === undefined &&
            html`<${Empty} title="No domains yet">
              <p>Mail is sent from your domain. Add it and publish the DNS records that are shown. It is then verified within minutes.</p>
              ${mayAdd && html`<p><button type="button" onClick=${() => setAdding(true)}>Add domain</button></p>`}
            <//>`
    }
    <${More} list=${list} />
  <//>`;
}

function Row({
  domain: { domain, status, project, records, checked_at: at, environment },
}: {
  readonly domain: Domain;
}): ComponentChildren {
  const wrong = records.filter(({ status: found, required }) => required && found !== 'ok').length;
  return html`<li>
    <a href=${href(`/domains/${domain}`)}>
      <span class="line"><strong>${domain}</strong> ${environment === 'test' && html`<${Badge}>test<//>`}</span>
      <span><${State} of=${status} /> ${wrong > 0 && html`<span class="small soft">${wrong} of ${records.filter(({ required }) => required).length} required records to publish</span>`}</span>
      <span class="small soft">${project}${at !== null && html`, checked <${Time} at=${at} short />`}</span>
    </a>
  </li>`;
}

function AddDomain(): ComponentChildren {
  const found = useLoaded('projects', (signal) =>
    call<typeof projects.list>('GET /projects', { query: { limit: 200 }, signal }),
  );
  const [name, setName] = useState('');
  const [project, setProject] = useState('');
  const [error, setError] = useState<ApiError>();
  const all = found.data?.projects ?? [];
  const chosen = project === '' ? (all[0]?.slug ?? '') : project;
  async function add(): Promise<void> {
    const isHere = thisPage();
    try {
      const body = { domain: name.trim(), project: chosen };
      const { domain } = await call<typeof domains.create>('POST /domains', { body });
      say(`${domain} was added. Publish its records next.`);
      if (isHere()) go(`/domains/${domain}`);
    } catch (failure) {
      if (!(failure instanceof ApiError)) throw failure;
      setError(failure);
    }
  }
  return html`<section class="card" aria-labelledby="add"><h2 id="add">Add a domain</h2>
    <${Ready} of=${found} lines=${2}>
      ${() =>
        all.length === 0
          ? html`<p>A domain belongs to a project, and there is no project yet. <a href=${href('/projects')}>Create a project</a></p>`
          : html`<form class="ask" onSubmit=${(event: Event) => {
              event.preventDefault();
              void add();
            }}>
              <${Field} label="Domain" value=${name} change=${setName} placeholder="example.com" autocomplete="off" required />
              <${Field} label="Project" value=${chosen} change=${setProject} options=${all.map(({ slug, name: title }) => [slug, title])} />
              <button disabled=${name.trim() === ''}>Add domain</button>
            </form>`}
    <//>
    ${error && html`<${Failed} error=${error} />`}
  </section>`;
}

const TABS = ['records', 'forwarding', 'keys', 'reports'] as const;
type Tab = (typeof TABS)[number];

/** `/domains/:domain`, `?tab=forwarding` */
export function DomainPage({ params }: { readonly params: Readonly<Record<string, string>> }): ComponentChildren {
  const { domain: name = '' } = params;
  const { query } = usePlace();
  const tab = TABS.find((each) => each === query['tab']) ?? 'records';
  const domain = useLoaded(
    name,
    (signal) => call<typeof domains.show>('GET /domains/:domain', { params: { domain: name }, signal }),
    { live: LIVE },
  );
  const { data } = domain;
  const [check, setCheck] = useState<Check>();
  async function verify({ records }: Domain): Promise<void> {
    let shown: Check = { domain: name, records, found: new Map() };
    setCheck(shown);
    try {
      for await (const line of callLines<CheckLine>('POST /domains/:domain/verify', { params })) {
        const found = line.domain?.records ?? (line.record === undefined ? [] : [line.record]);
        shown = {
          ...shown,
          found: new Map([...shown.found, ...found.map((record) => [idOf(record), record] as const)]),
        };
        if (line.domain !== undefined) shown = { ...shown, records: found, end: line.domain };
        setCheck(shown);
      }
      if (shown.end === undefined) throw unreachable();
    } catch (error) {
      if (!(error instanceof ApiError)) throw error;
      setCheck(undefined);
      say(error.message, { tone: 'bad' });
    }
    domain.reload();
  }
  return html`<${Page}
    title=${name}
    aside=${data && html`<${State} of=${data.status} />`}
    above=${{ href: href('/domains'), name: 'Domains' }}
    actions=${data && can('domains.write') && html`<${Actions} of=${data} check=${() => verify(data)} />`}
  >
    <${Ready} of=${domain} lines=${6}>
      ${(shown: Domain) => html`<${Standing} of=${shown} />
        ${check?.domain === name && html`<${Progress} of=${check} />`}
        <${Tabs}
          label=${name}
          chosen=${tab}
          choose=${(next: Tab) => setQuery({ tab: next === 'records' ? undefined : next }, { replace: true })}
          tabs=${[
            ['records', 'Records'],
            ['forwarding', 'Forwarding'],
            ['keys', 'DKIM keys'],
            ['reports', 'Reports'],
          ]}
        >
          ${tab === 'records' && html`<${Records} of=${shown} />`}
          ${tab === 'forwarding' && html`<${Forwarding} domain=${name} />`}
          ${tab === 'keys' && html`<${Keys} of=${shown} reload=${domain.reload} />`}
          ${tab === 'reports' && html`<${ReportsOf} domain=${name} />`}
        <//>`}
    <//>
  <//>`;
}

function Actions({
  of: { domain },
  check,
}: {
  readonly of: Domain;
  readonly check: () => Promise<void>;
}): ComponentChildren {
  const params = { domain };
  async function remove(): Promise<void> {
    const isHere = thisPage();
    const text = `Its forms stop working, and mail to it is no longer forwarded. Queued mail is still sent: keep the DKIM records until the queue is empty.`;
    if (!(await confirm({ title: `Remove ${domain}?`, text, action: 'Remove domain', type: domain }))) return;
    const done = await doing(
      () => call<typeof domains.remove>('DELETE /domains/:domain', { params }),
      `${domain} was removed.`,
    );
    if (done && isHere()) go('/domains');
  }
  return html`<${Action} run=${check}>Check now<//><${Action} kind="quiet" run=${remove}>Remove<//>`;
}

/** A check of the records, from when it begins until the page is left. */
interface Check {
  readonly domain: string;
  /** Those that are looked up. */
  readonly records: readonly DnsRecord[];
  /** Those that were, by idOf. */
  readonly found: ReadonlyMap<string, DnsRecord>;
  /** The domain after the check; undefined while it runs. */
  readonly end?: Domain;
}

function idOf({ purpose, type, name }: DnsRecord): string {
  return `${purpose} ${type} ${name}`;
}

/** What is being looked up, and how each record was found. */
function Progress({ of: { domain, records, found, end } }: { readonly of: Check }): ComponentChildren {
  const required = records.filter((record) => record.required);
  const ok = required.filter((record) => found.get(idOf(record))?.status === 'ok').length;
  return html`<section class="card" aria-label="Check of the DNS records" aria-busy=${end === undefined ? 'true' : undefined}>
    <p role="status"><strong>${
      end === undefined
        ? `Looking up the records of ${domain}: ${found.size} of ${records.length} done`
        : `${domain} is ${end.status}: ${ok} of ${required.length} required records found.`
    }</strong></p>
    <ul class="lookups">${records.map((record) => {
      const { status } = found.get(idOf(record)) ?? {};
      return html`<li key=${idOf(record)}>
        ${status === undefined ? html`<${Badge} tone="accent">looking up<//>` : html`<${RecordStatus} of=${{ ...record, status }} />`}
        <span>${PURPOSES[record.purpose]} <code class="small soft">${record.type} ${record.name}</code></span>
      </li>`;
    })}</ul>
  </section>`;
}

function RecordStatus({
  of: { required, status },
}: {
  readonly of: Pick<DnsRecord, 'required' | 'status'>;
}): ComponentChildren {
  return html`<${Badge} tone=${required || status === 'ok' ? toneOf(status) : 'warn'}>${status}<//>`;
}

function Standing({ of: { status, reason, records, checked_at: at } }: { readonly of: Domain }): ComponentChildren {
  const missing = records.filter((record) => record.required && record.status !== 'ok').length;
  const checked = at === null ? 'It has not been checked yet.' : html`Last check: <${Time} at=${at} />.`;
  if (status === 'verified') return html`<p class="soft">Mail is sent from this domain. ${checked}</p>`;
  const [tone, text] =
    status === 'pending'
      ? ([
          'warn',
          `Publish the records below at your DNS provider. Mail is sent once the required ones are found${missing === 0 ? '' : `: ${missing} to go`}.`,
        ] as const)
      : status === 'degraded'
        ? ([
            'warn',
            'A required record is missing or wrong. Mail is still sent for now: correct the record soon.',
          ] as const)
        : ([
            'bad',
            'The records have been wrong for too long: mail from this domain is held. It is sent once they are correct.',
          ] as const);
  return html`<div class="note ${tone}"><p>${text}</p>${reason !== null && html`<p>The domain is ${reason}.</p>`}<p class="soft small">${checked}</p></div>`;
}

function Records({ of: { domain, records } }: { readonly of: Domain }): ComponentChildren {
  return html`<section class="card" aria-label="DNS records">
      ${records.map((record) => html`<${RecordView} key=${idOf(record)} record=${record} domain=${domain} />`)}
      ${records.length === 0 && html`<p class="soft">The records are being determined.</p>`}
    </section>
    <${Zone} domain=${domain} />`;
}

function RecordView({ record, domain }: { readonly record: DnsRecord; readonly domain: string }): ComponentChildren {
  const { purpose, type, name, value, required, status, found, problem, note } = record;
  const relative = name === domain ? '@' : name.endsWith(`.${domain}`) ? name.slice(0, -domain.length - 1) : name;
  // Nothing is left to do about one that is right.
  return html`<details class="record" open=${status !== 'ok'}>
    <summary><h2>${PURPOSES[purpose]} <${RecordStatus} of=${record} /> ${!required && html`<span class="soft small">recommended</span>`}</h2></summary>
    ${problem !== undefined && status !== 'ok' && html`<p>${problem}</p>`}
    ${note !== undefined && html`<p class="soft small">${note}</p>`}
    <dl>
      <dt>Type</dt><dd><code>${type}</code></dd>
      <dt>Name</dt><dd><${Code} text=${relative} what="the name" /> <span class="soft small">${relative === name ? '' : name}</span></dd>
      ${
        value === ''
          ? html`<dt>Value</dt><dd class="soft">Not known yet: nothing to publish.</dd>`
          : html`<dt>Value</dt><dd><${Code} text=${value} what="the value" /></dd>`
      }
      ${
        (found.length > 0 || status !== 'ok') &&
        html`<dt>In DNS now</dt><dd>${
          found.length === 0
            ? html`<span class="soft">${status === 'unknown' ? 'DNS did not answer' : 'nothing'}</span>`
            : found.map((text, i) =>
                text === value
                  ? html`<div key=${i} class="soft">the same</div>`
                  : html`<div key=${i}><code>${text}</code></div>`,
              )
        }</dd>`
      }
    </dl>
  </details>`;
}

function Zone({ domain }: { readonly domain: string }): ComponentChildren {
  const [isOpen, setOpen] = useState(false);
  return html`<details class="card" onToggle=${(event: Event) => setOpen(event.target instanceof HTMLDetailsElement && event.target.open)}>
    <summary>Zone file</summary>
    ${isOpen && html`<${ZoneText} domain=${domain} />`}
  </details>`;
}

function ZoneText({ domain }: { readonly domain: string }): ComponentChildren {
  const zone = useLoaded(domain, (signal) =>
    call<typeof domains.zone>('GET /domains/:domain/zone', { params: { domain }, signal }),
  );
  return html`<${Ready} of=${zone} lines=${3}>
    ${(shown: AnswerOf<typeof domains.zone>) => html`<p><${Copy} text=${shown.zone} what="the zone file" /></p><pre class="zone" tabindex="0">${shown.zone}</pre>`}
  <//>`;
}

function Forwarding({ domain }: { readonly domain: string }): ComponentChildren {
  const table = useLoaded(domain, (signal) =>
    call<typeof domains.forwarding>('GET /domains/:domain/forwarding', { params: { domain }, signal }),
  );
  return html`<${Explain} domain=${domain} />
    <section class="card" aria-labelledby="table"><h2 id="table">Addresses</h2>
      <${Ready} of=${table}>
        ${({ forwarding }: AnswerOf<typeof domains.forwarding>) =>
          forwarding.length === 0
            ? html`<${Empty} title="Nothing is forwarded"><p>Add <code>forwarding</code> to the domain in the configuration of its project.</p><//>`
            : html`<div class="scroll"><table>
                <thead><tr><th scope="col">Mail to</th><th scope="col">Goes to</th></tr></thead>
                <tbody>${forwarding.map(
                  ({ address, action, to }) => html`<tr key=${address}>
                    <th scope="row">${address === `*@${domain}` ? html`${address} <span class="soft small">all other addresses</span>` : address}</th>
                    <td>${action === 'forward' ? to.map((target) => html`<div key=${target}>${target}</div>`) : html`<${Badge} tone=${action === 'reject' ? 'bad' : 'plain'}>${action === 'reject' ? 'rejected' : 'discarded'}<//>`}</td>
                  </tr>`,
                )}</tbody></table></div>`}
      <//>
      <p><a href=${href('/inbound', { domain })}>Incoming mail for ${domain}</a></p>
    </section>`;
}

const VERDICTS: Readonly<Record<Explained['steps'][number]['verdict'], readonly [Tone, string]>> = {
  ok: ['good', 'ok'],
  warning: ['warn', 'warning'],
  stop: ['bad', 'stop'],
};

function Explain({ domain }: { readonly domain: string }): ComponentChildren {
  const [address, setAddress] = useState('');
  const [explained, setExplained] = useState<Explained>();
  const [error, setError] = useState<ApiError>();
  const [isBusy, setBusy] = useState(false);
  async function ask(): Promise<void> {
    setBusy(true);
    try {
      const parts = { params: { domain }, query: { address: address.trim() } };
      setExplained(await call<typeof domains.explain>('GET /domains/:domain/explain', parts));
      setError(undefined);
    } catch (failure) {
      if (!(failure instanceof ApiError)) throw failure;
      setExplained(undefined);
      setError(failure);
    } finally {
      setBusy(false);
    }
  }
  return html`<section class="card" aria-labelledby="explain"><h2 id="explain">Where would mail go?</h2>
    <form class="ask" onSubmit=${(event: Event) => {
      event.preventDefault();
      void ask();
    }}>
      <${Field} label="Address at ${domain}" value=${address} change=${setAddress} placeholder="info@${domain}" autocomplete="off" />
      <button disabled=${isBusy} aria-busy=${isBusy ? 'true' : undefined}>Explain</button>
    </form>
    <div aria-live="polite">
      ${error && html`<${Failed} error=${error} />`}
      ${
        explained &&
        html`<p class="small soft">Mail to ${explained.address}, as DNS and the configuration are now:</p>
          <ol class="explained">${explained.steps.map(({ step, about, verdict, found, because }, i) => {
            const [tone, word] = VERDICTS[verdict];
            return html`<li key=${i}><span><${Badge} tone=${tone}>${word}<//></span><div><p>${found}</p><p class="soft small">${step}${about === undefined ? '' : ` of ${about}`}: ${because}</p></div></li>`;
          })}</ol>`
      }
    </div>
  </section>`;
}

const KEY_STATES: Readonly<Record<Domain['keys'][number]['state'], Tone>> = {
  active: 'good',
  next: 'warn',
  retiring: 'plain',
  retired: 'plain',
};

function Keys({
  of: { domain, keys },
  reload,
}: {
  readonly of: Domain;
  readonly reload: () => void;
}): ComponentChildren {
  async function rotate(): Promise<void> {
    const text =
      'New keys are created. The current keys sign until the records of the new keys are found in DNS: publish those next.';
    if (!(await confirm({ title: `Rotate the DKIM keys of ${domain}?`, text, action: 'Rotate keys' }))) return;
    const done = await doing(
      () => call<typeof domains.rotateDkim>('POST /domains/:domain/rotate-dkim', { params: { domain } }),
      'New keys were created: publish their records.',
    );
    if (done) reload();
  }
  return html`<section class="card" aria-label="DKIM keys">
    ${can('domains.write') && html`<p><${Action} kind="quiet" run=${rotate}>Rotate keys<//></p>`}
    ${keys.length === 0 && html`<p class="soft">There are no keys yet.</p>`}
    ${keys.map(
      ({
        selector,
        algorithm,
        state,
        since,
        keep_until: until,
        record,
        advice,
      }) => html`<div class="record" key=${selector}>
        <h2>${selector} <${Badge} tone=${KEY_STATES[state]}>${state}<//> <span class="soft small">${algorithm}, since <${Time} at=${since} short /></span></h2>
        <p>${advice}</p>
        <dl>
          ${until !== null && html`<dt>Keep until</dt><dd><${Time} at=${until} /></dd>`}
          <dt>Name</dt><dd><${Code} text=${record.name} what="the name" /></dd>
          <dt>Value</dt><dd><${Code} text=${record.value} what="the value" /></dd>
        </dl>
      </div>`,
    )}
  </section>`;
}

const DISPOSITIONS: Readonly<Record<string, Tone>> = { none: 'plain', quarantine: 'warn', reject: 'bad' };

function ReportsOf({ domain }: { readonly domain: string }): ComponentChildren {
  const reports: Loaded<Reports> = useLoaded(domain, (signal) =>
    call<typeof domains.reports>('GET /domains/:domain/reports', { params: { domain }, signal }),
  );
  return html`<${Ready} of=${reports}>
    ${({ messages, passed, sources, tls, reporters }: Reports) =>
      messages === 0 && tls.sessions === 0
        ? html`<${Empty} title="No reports in the last 30 days"><p>Other mail systems send reports once a day if the DMARC and TLS report records name this server.</p><//>`
        : html`<section class="card" aria-labelledby="dmarc"><h2 id="dmarc">Mail sent as ${domain}, last 30 days</h2>
            <p>${number(passed)} of ${number(messages)} messages passed DMARC.</p>
            <div class="scroll"><table><thead><tr><th scope="col">Source</th><th scope="col" class="number">Messages</th><th scope="col">DKIM</th><th scope="col">SPF</th><th scope="col">Policy applied</th></tr></thead>
              <tbody>${sources.map(
                (row, i) => html`<tr key=${i}>
                  <th scope="row">${row.source === '' ? 'others' : row.source} ${row.this_server && html`<${Badge} tone="accent">this server<//>`}</th>
                  <td class="number">${number(row.messages)}</td>
                  <td>${row.dkim} <span class="soft small">${row.dkim_domain}</span></td>
                  <td>${row.spf} <span class="soft small">${row.spf_domain}</span></td>
                  <td><${Badge} tone=${DISPOSITIONS[row.disposition] ?? 'plain'}>${row.disposition}<//></td>
                </tr>`,
              )}</tbody></table></div>
          </section>
          <section class="card" aria-labelledby="tls"><h2 id="tls">TLS for mail to ${domain}</h2>
            <p>${number(tls.failures)} of ${number(tls.sessions)} connections failed.</p>
            ${
              tls.results.length > 0 &&
              html`<div class="scroll"><table><thead><tr><th scope="col">Result</th><th scope="col">Policy</th><th scope="col">Mail server</th><th scope="col" class="number">Connections</th></tr></thead>
                <tbody>${tls.results.map(
                  (row, i) =>
                    html`<tr key=${i}><th scope="row">${row.result}</th><td>${row.policy}</td><td>${row.mx}</td><td class="number">${number(row.sessions)}</td></tr>`,
                )}</tbody></table></div>`
            }
          </section>
          <section class="card" aria-labelledby="reporters"><h2 id="reporters">Reporters</h2>
            <ul>${reporters.map(({ reporter, kind, reports: count }) => html`<li key=${reporter + kind}>${reporter} <span class="soft small">${number(count)} ${kind === 'dmarc' ? 'DMARC' : 'TLS'} reports</span></li>`)}</ul>
            <p class="soft small">Anyone can send such a report: check who sent it before you rely on the figures.</p>
          </section>`}
  <//>`;
}
