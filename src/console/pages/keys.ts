/** API keys: what each may do, where it came from, and when it was used; made and revoked here. */
import type { keys } from '../../contract/keys.ts';
import type { AnswerOf } from '../../contract/route.ts';
import { ApiError, call } from '../api.ts';
import { Action, Badge, Code, Empty, Failed, More, number, Page, Ready, State, Time } from '../components/basics.ts';
import { Check, Field } from '../components/fields.ts';
import { confirm, doing } from '../components/messages.ts';
import { useListing, useLoaded } from '../data.ts';
import { html, type ComponentChildren, useState } from '../lib.ts';
import { href, setQuery, usePlace, type PageProps } from '../router.ts';
import { can } from '../session.ts';

type Key = AnswerOf<typeof keys.list>['api_keys'][number];
type Permission = Key['permissions'][number];

/** What each permission allows; the compiler holds the table complete. */
const PERMISSIONS: Readonly<Record<Permission, string>> = {
  'forms.read': 'Read forms, recipients and submissions',
  'forms.write': 'Change forms; release, resend and delete submissions',
  'forms.submit': 'Post to forms that need a key',
  'domains.read': 'Read domains and their DNS records',
  'domains.write': 'Add, verify and remove domains; rotate DKIM keys',
  'collections.read': 'Read collections of forms',
  'collections.write': 'Create and delete collections',
  'analytics.read': 'Read statistics and events',
  'projects.read': 'Read projects and their configuration',
  'projects.write': 'Push and roll back projects; manage webhooks',
  'email.send': 'Send mail, and manage the suppression list',
  'keys.read': 'Read API keys',
  'keys.write': 'Create and revoke API keys',
  admin: 'Operate the server: accounts, billing, queue, backups',
};
const NAMES = Object.keys(PERMISSIONS).filter((name): name is Permission => name in PERMISSIONS);

/** Sets of permissions for what keys are usually made for. */
const PRESETS: readonly (readonly [name: string, permissions: readonly Permission[]])[] = [
  ['Send mail', ['email.send']],
  ['Post to forms', ['forms.submit']],
  ['Deploy from CI', ['projects.read', 'projects.write', 'domains.read', 'forms.read']],
  ['Read only', NAMES.filter((name) => name.endsWith('.read'))],
];

/** The list, with a form to make one. */
export function Keys(): ComponentChildren {
  const { query } = usePlace();
  const isNew = query['new'] !== undefined;
  const list = useListing('keys', async (cursor, signal) => {
    const page = await call<typeof keys.list>('GET /api-keys', { query: { cursor }, signal });
    return { items: page.api_keys, count: page.count, next: page.next_cursor };
  });
  const add = html`<button type="button" onClick=${() => setQuery({ new: true })}>Create key</button>`;
  const loaded = { ...list, data: list.count === undefined ? undefined : true };
  const active = list.items.filter((key) => statusOf(key) === 'active');
  const ended = list.items.filter((key) => statusOf(key) !== 'active');
  return html`<${Page} title="API keys" aside=${list.count === undefined ? undefined : number(list.count)} actions=${!isNew && can('keys.write') && add}>
    ${isNew && html`<${NewKey} done=${list.reload} />`}
    <${Ready} of=${loaded}>
      ${() =>
        list.items.length === 0
          ? !isNew &&
            html`<${Empty} title="No API keys yet"><p>A key lets a program use the API, for example to send mail, post to a form or deploy a project.</p><p>${add}</p><//>`
          : html`
              ${active.length > 0 && html`<${KeyList} label="Active keys" of=${active} />`}
              ${ended.length > 0 && html`<h2 class="above-list">Revoked and expired</h2><${KeyList} label="Revoked and expired keys" of=${ended} />`}
            `}
    <//>
    <${More} list=${list} />
  <//>`;
}

function KeyList({ of, label }: { readonly of: readonly Key[]; readonly label: string }): ComponentChildren {
  return html`<ul class="list" aria-label=${label}>
    ${of.map(
      (key) => html`<li key=${key.id}>
        <a class="split" href=${href(`/keys/${key.id}`)}>
          <span>
            <strong>${key.name}</strong> ${key.environment === 'test' && html`<${Badge} tone="accent">test<//>`}
            <span class="soft line small">${key.prefix}…${key.last4} · ${permissionsText(key)}</span>
          </span>
          <span class="meta">
            ${statusOf(key) !== 'active' && html`<${State} of=${statusOf(key)} />`}
            <span class="soft small">${key.last_used_at === null ? 'never used' : html`used <${Time} at=${key.last_used_at} short />`}</span>
          </span>
        </a>
      </li>`,
    )}
  </ul>`;
}

function permissionsText({ permissions }: Pick<Key, 'permissions'>): string {
  if (NAMES.filter((name) => name !== 'admin').every((name) => permissions.includes(name))) {
    return permissions.includes('admin') ? 'every permission' : 'every permission except admin';
  }
  return permissions.join(', ');
}

function statusOf({
  revoked_at: revoked,
  expires_at: expires,
}: Pick<Key, 'revoked_at' | 'expires_at'>): 'active' | 'revoked' | 'expired' {
  if (revoked !== null) return 'revoked';
  return expires !== null && new Date(expires) <= new Date() ? 'expired' : 'active';
}

interface Draft {
  readonly name: string;
  readonly environment: 'live' | 'test';
  readonly permissions: readonly Permission[];
  readonly networks: string;
  readonly domains: string;
  readonly hourly: string;
  readonly expires: string;
}

const EMPTY: Draft = {
  name: '',
  environment: 'live',
  permissions: [],
  networks: '',
  domains: '',
  hourly: '',
  expires: '',
};

function NewKey({ done }: { readonly done: () => void }): ComponentChildren {
  const [draft, setDraft] = useState(EMPTY);
  const [error, setError] = useState<ApiError>();
  const [made, setMade] = useState<AnswerOf<typeof keys.create>>();
  function set(values: Partial<Draft>): void {
    setDraft({ ...draft, ...values });
  }
  async function create(): Promise<void> {
    try {
      setMade(await call<typeof keys.create>('POST /api-keys', { body: bodyOf(draft) }));
      done();
    } catch (failure) {
      if (!(failure instanceof ApiError)) throw failure;
      setError(failure);
    }
  }
  if (made !== undefined) return html`<${MadeKey} made=${made} />`;
  return html`<section class="card" aria-label="New API key">
    <h2>New API key</h2>
    ${error && html`<${Failed} error=${error} />`}
    <${Field} label="Name" value=${draft.name} change=${(name: string) => set({ name })} placeholder="Newsletter script" hint="What the key is for." />
    <${Permissions} draft=${draft} set=${set} />
    <${Check} label="Test key: its mail is captured and never delivered" checked=${draft.environment === 'test'} change=${(isTest: boolean) => set({ environment: isTest ? 'test' : 'live' })} />
    <details class="more-fields">
      <summary>Restrictions</summary>
      <${Field} label="Networks" value=${draft.networks} change=${(networks: string) => set({ networks })} placeholder="192.0.2.10, 2001:db8::/32" hint="Only from these IP addresses. Leave empty to allow all." />
      <${Field} label="Domains" value=${draft.domains} change=${(domains: string) => set({ domains })} placeholder="example.com" hint="Only for these domains. Leave empty for all domains of the account." />
      <${Field} label="Requests per hour" type="number" value=${draft.hourly} change=${(hourly: string) => set({ hourly })} hint="Leave empty for the account’s limit." />
      <${Field} label="Expires" type="date" value=${draft.expires} change=${(expires: string) => set({ expires })} hint="Leave empty for no expiry." />
    </details>
    <div class="actions">
      <${Action} run=${create} disabled=${draft.name.trim() === '' || draft.permissions.length === 0}>Create key<//>
      <button type="button" class="quiet" onClick=${() => setQuery({ new: undefined })}>Cancel</button>
    </div>
  </section>`;
}

function Permissions({
  draft,
  set,
}: {
  readonly draft: Draft;
  readonly set: (values: Partial<Draft>) => void;
}): ComponentChildren {
  // A key holds at most what its maker holds.
  const mine = NAMES.filter((name) => can(name));
  function choose(permissions: readonly Permission[]): void {
    set({ permissions: mine.filter((name) => permissions.includes(name)) });
  }
  return html`<fieldset>
    <legend>Permissions</legend>
    <p class="actions">
      ${PRESETS.map(([name, permissions]) => html`<button key=${name} type="button" class="quiet small" onClick=${() => choose(permissions)}>${name}</button>`)}
      <button type="button" class="quiet small" onClick=${() => choose(mine.filter((name) => name !== 'admin'))}>Everything</button>
      <button type="button" class="quiet small" onClick=${() => choose([])}>Nothing</button>
    </p>
    <div class="choices">
      ${mine.map(
        (name) =>
          html`<${Check} key=${name} label=${html`<code>${name}</code> <span class="soft small">${PERMISSIONS[name]}</span>`} checked=${draft.permissions.includes(name)} change=${(isOn: boolean) => choose(isOn ? [...draft.permissions, name] : draft.permissions.filter((one) => one !== name))} />`,
      )}
    </div>
  </fieldset>`;
}

function bodyOf({ name, environment, permissions, networks, domains, hourly, expires }: Draft): object {
  const restrictions = {
    ...(networks.trim() !== '' && { ip_whitelist: wordsOf(networks) }),
    ...(domains.trim() !== '' && { domain_restrictions: wordsOf(domains) }),
    ...(hourly !== '' && { rate_limit: Number(hourly) }),
    // The whole of that day, where the person is.
    ...(expires !== '' && { expires_at: new Date(`${expires}T23:59:59`).toISOString() }),
  };
  return { name, environment, permissions, restrictions };
}

function wordsOf(text: string): string[] {
  return text.split(/[\s,;]+/).filter((word) => word !== '');
}

function MadeKey({ made }: { readonly made: AnswerOf<typeof keys.create> }): ComponentChildren {
  return html`<section class="card note good" aria-label="New API key">
    <h2>The key ${made.name} was created</h2>
    <p><strong>Copy its value now. It is not shown again.</strong></p>
    <p><${Code} text=${made.key} what="key" /></p>
    <p class="soft">Try it:</p>
    <pre tabindex="0">${`curl -H "Authorization: Bearer ${made.key}" ${location.origin}/auth/status`}</pre>
    <div class="actions"><a class="button quiet" href=${href(`/keys/${made.id}`)}>Done</a></div>
  </section>`;
}

/** One key, with the keys that it made. */
export function KeyPage({ params: { id = '' } }: PageProps): ComponentChildren {
  const loaded = useLoaded(id, (signal) => call<typeof keys.show>('GET /api-keys/:id', { params: { id }, signal }));
  return html`<${Ready} of=${loaded} lines=${6}>
    ${(key: AnswerOf<typeof keys.show>) => html`<${OneKey} of=${key} reload=${loaded.reload} />`}
  <//>`;
}

function OneKey({
  of,
  reload,
}: {
  readonly of: AnswerOf<typeof keys.show>;
  readonly reload: () => void;
}): ComponentChildren {
  const { id, name, permissions, active_children: children, created_by: maker } = of;
  const status = statusOf(of);
  async function revoke(withChildren: boolean): Promise<void> {
    const text = withChildren
      ? html`<p>Programs that use it, or one of these keys, are rejected at once. This cannot be undone.</p><ul>${children.map((child) => html`<li>${child.name} <code>…${child.last4}</code></li>`)}</ul>`
      : html`<p>Programs that use <code>${of.prefix}…${of.last4}</code> are rejected at once. This cannot be undone.</p>${children.length > 0 && html`<p>The ${children.length} keys that it created stay active.</p>`}`;
    const title = withChildren ? `Revoke ${name} and ${children.length} more?` : `Revoke ${name}?`;
    if (!(await confirm({ title, text, action: withChildren ? 'Revoke all' : 'Revoke key' }))) return;
    const parts = { params: { id }, query: { with_children: withChildren ? 'true' : 'false' } };
    await doing(() => call<typeof keys.revoke>('DELETE /api-keys/:id', parts), `The key ${name} was revoked.`);
    reload();
  }
  const actions =
    status === 'active' &&
    can('keys.write') &&
    html`<${Action} kind="danger" run=${() => revoke(false)}>Revoke<//>
      ${children.length > 0 && html`<${Action} kind="quiet" run=${() => revoke(true)}>Revoke with its ${children.length} keys<//>`}`;
  return html`<${Page} title=${name} aside=${html`<${State} of=${status} />`} above=${{ href: href('/keys'), name: 'API keys' }} actions=${actions}>
    <div class="cards">
      <section class="card" aria-label="Key">
        <h2>Key</h2>
        <dl>
          <dt>Value</dt><dd><code>${of.prefix}…${of.last4}</code></dd>
          <dt>Environment</dt><dd>${of.environment === 'test' ? 'Test: its mail is never delivered' : 'Live'}</dd>
          <dt>Last used</dt><dd>${of.last_used_at === null ? 'Never' : html`<${Time} at=${of.last_used_at} />`}</dd>
          <dt>Created</dt><dd><${Time} at=${of.created_at} />${maker !== null && html` by <a href=${href(`/keys/${maker}`)}>another key</a>`}</dd>
          <dt>Expires</dt><dd>${of.expires_at === null ? 'Never' : html`<${Time} at=${of.expires_at} />`}</dd>
          ${of.revoked_at !== null && html`<dt>Revoked</dt><dd><${Time} at=${of.revoked_at} /></dd>`}
        </dl>
      </section>
      <section class="card" aria-label="Restrictions">
        <h2>Restrictions</h2>
        <${Restrictions} of=${of.restrictions} />
      </section>
      <section class="card" aria-label="Permissions">
        <h2>Permissions</h2>
        <ul class="bare">${permissions.map((permission) => html`<li key=${permission}><code>${permission}</code> <span class="soft small">${PERMISSIONS[permission]}</span></li>`)}</ul>
      </section>
    </div>
    ${children.length > 0 && html`<h2 class="above-list">Active keys that it created</h2><${KeyList} label="Keys that it created" of=${children} />`}
  <//>`;
}

function Restrictions({ of }: { readonly of: Key['restrictions'] }): ComponentChildren {
  const { ip_whitelist: networks, domain_restrictions: domains, rate_limit: hourly, burst_limit: minutely } = of;
  if ([networks, domains, hourly, minutely].every((one) => one === undefined)) {
    return html`<p class="soft">None: the key may be used from anywhere, for all domains of the account.</p>`;
  }
  return html`<dl>
    ${networks && html`<dt>Networks</dt><dd>${networks.map((one) => html`<div key=${one}><code>${one}</code></div>`)}</dd>`}
    ${domains && html`<dt>Domains</dt><dd>${domains.join(', ')}</dd>`}
    ${hourly !== undefined && html`<dt>Per hour</dt><dd>${number(hourly)} requests</dd>`}
    ${minutely !== undefined && html`<dt>Per minute</dt><dd>${number(minutely)} requests</dd>`}
  </dl>`;
}
