/** Mail that came in: accepted and refused, with reasons and what was found of its sender. */
import type { inbound } from '../../contract/queue.ts';
import type { AnswerOf } from '../../contract/route.ts';
import { call } from '../api.ts';
import {
  Badge,
  countText,
  Empty,
  Failed,
  Loading,
  More,
  Page,
  sizeOf,
  State,
  Time,
  type Tone,
} from '../components/basics.ts';
import { DayFields, FilterChips, momentsOf, MoreFilters, Search, Select } from '../components/fields.ts';
import { useListing } from '../data.ts';
import { html, type ComponentChildren } from '../lib.ts';
import { href, setQuery, usePlace } from '../router.ts';

type Entry = AnswerOf<typeof inbound.list>['inbound'][number];

const OUTCOMES = [
  ['', 'All outcomes'],
  ['accepted', 'Accepted'],
  ['rejected', 'Rejected'],
  ['deferred', 'Deferred'],
] as const;

/** `/inbound`, `?recipient=…&outcome=rejected&domain=…&reason=…&from=…&to=…` */
export function Inbound(): ComponentChildren {
  const { query } = usePlace();
  const { recipient = '', outcome = '', domain, reason, sender, from = '', to = '' } = query;
  const days = momentsOf({ from, to });
  const filters = { outcome, domain, reason, sender, ...days, ...(recipient.includes('@') && { recipient }) };
  const list = useListing(
    JSON.stringify(filters),
    async (cursor, signal) => {
      const answer = await call<typeof inbound.list>('GET /inbound', { query: { ...filters, cursor }, signal });
      const { inbound: items, count, count_is_more: isMore, next_cursor: next } = answer;
      return { items, count: isMore ? -count : count, next };
    },
    { live: ['inbound.'] },
  );
  const unshown = { domain, reason, sender };
  const isFiltered = [outcome, recipient, from, to, ...Object.values(unshown)].some((value) => (value ?? '') !== '');
  return html`<${Page} title="Inbound" aside=${countText(list.count)}>
    <div class="filters" role="search">
      <${Search} label="Recipient, such as info@example.com" value=${recipient} change=${(text: string) => setQuery({ recipient: text.trim() }, { replace: true })} />
      <${Select} label="Outcome" value=${outcome} change=${(value: string) => setQuery({ outcome: value })} options=${OUTCOMES} />
      <${MoreFilters} isSet=${from !== '' || to !== ''}><${DayFields} from=${from} to=${to} /><//>
    </div>
    <${FilterChips} filters=${unshown} />
    ${list.error && html`<${Failed} error=${list.error} retry=${list.reload} />`}
    ${
      list.items.length > 0
        ? html`<ul class="list">${list.items.map((entry) => html`<${Row} key=${entry.id} entry=${entry} />`)}</ul>`
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
    return html`<${Empty} title="Nothing found in the newest entries"><p>Older entries have not been searched yet: show more.</p><//>`;
  }
  if (isFiltered) {
    return html`<${Empty} title="Nothing matches"><p><a href=${href('/inbound')}>Show all</a></p><//>`;
  }
  return html`<${Empty} title="No incoming mail yet">
    <p>To forward mail for your domains, set up forwarding in the project and point the MX record to this server.</p>
    <p><a class="button" href=${href('/domains')}>Domains</a></p>
  <//>`;
}

function Row({ entry }: { readonly entry: Entry }): ComponentChildren {
  const { at, outcome, reason, sender, recipient, reply, ip, helo, tls, size, authentication, messages, domain } =
    entry;
  return html`<li>
    <details class="row entry">
      <summary>
        <span class="state"><${State} of=${outcome} /></span>
        <span class="line who-to">${recipient === '' ? 'no recipient' : recipient}</span>
        <span class="line what"><span class="soft">from</span> ${sender === '' ? 'the null sender' : sender}</span>
        <span class="when soft small"><${Time} at=${at} short /></span>
      </summary>
      <dl>
        <dt>Reply</dt><dd>${reply}</dd>
        <dt>Reason</dt><dd><a href=${href('/inbound', { reason })}>${reason.replaceAll('_', ' ')}</a></dd>
        <dt>Time</dt><dd><${Time} at=${at} /></dd>
        <dt>Client</dt><dd>${helo === `[${ip}]` ? '' : `${helo} `}[${ip}]${authentication !== null && (tls === null ? ', in clear text' : `, ${tls}`)}</dd>
        ${sender !== '' && html`<dt>Sender</dt><dd><a href=${href('/inbound', { sender })}>${sender}</a></dd>`}
        ${domain !== null && html`<dt>Domain</dt><dd><a href=${href(`/domains/${domain}`)}>${domain}</a></dd>`}
        ${size !== null && html`<dt>Size</dt><dd>${sizeOf(size)}</dd>`}
        ${authentication && html`<${Authentication} of=${authentication} />`}
        ${
          messages.length > 0 &&
          html`<dt>Forwarded as</dt><dd>${messages.map((id) => html`<a class="mono" key=${id} href=${href(`/mail/${id}`)}>${id}</a> `)}</dd>`
        }
      </dl>
    </details>
  </li>`;
}

function Authentication({ of }: { readonly of: NonNullable<Entry['authentication']> }): ComponentChildren {
  const { from, spf, dkim, dmarc, arc } = of;
  return html`${from !== '' && html`<dt>Author</dt><dd>${from}</dd>`}
    <dt>Authentication</dt>
    <dd class="checks">
      <${Result} name="SPF" result=${spf.result} domain=${spf.domain} />
      ${dkim.length === 0 && html`<${Result} name="DKIM" result="none" domain="" />`}
      ${dkim.map(
        ({ result, domain, aligned }, i) =>
          html`<${Result} name="DKIM" key=${i} result=${result} domain="${domain}${aligned ? '' : ', not aligned'}" />`,
      )}
      <${Result} name="DMARC" result=${dmarc.result} domain=${dmarc.domain} />
      ${arc !== 'none' && html`<${Result} name="ARC" result=${arc} domain="" />`}
    </dd>`;
}

const TONES: Readonly<Record<string, Tone>> = {
  pass: 'good',
  fail: 'bad',
  softfail: 'warn',
  permerror: 'bad',
  temperror: 'warn',
};

function Result({
  name,
  result,
  domain,
}: {
  readonly name: string;
  readonly result: string;
  readonly domain: string;
}): ComponentChildren {
  return html`<span><${Badge} tone=${TONES[result] ?? 'plain'}>${name} ${result}<//>${domain !== '' && html` <span class="soft small">${domain}</span>`}</span>`;
}
