/** The accounts of the server: their plans, limits and use; made, changed, suspended, deleted, and acted for. */
import type { AnswerOf } from '../../../contract/route.ts';
import type { tenants } from '../../../contract/tenants.ts';
import { ApiError, call } from '../../api.ts';
import {
  Action,
  Badge,
  Code,
  Empty,
  Failed,
  Loading,
  More,
  number,
  Page,
  Ready,
  State,
  Time,
} from '../../components/basics.ts';
import { Field } from '../../components/fields.ts';
import { confirm, doing, say } from '../../components/messages.ts';
import { useListing, useLoaded } from '../../data.ts';
import { html, type ComponentChildren, useState } from '../../lib.ts';
import { go, href } from '../../router.ts';
import { actForAccount } from '../../session.ts';

type Tenant = AnswerOf<typeof tenants.list>['tenants'][number];
type Shown = AnswerOf<typeof tenants.show>;
type Usage = AnswerOf<typeof tenants.usage>;
type Plans = AnswerOf<typeof tenants.billing>['plans'];

const OPERATOR = 'ten_operator';
const LIVE = ['tenant.'];

export function Accounts(): ComponentChildren {
  const [isOpen, setOpen] = useState(false);
  const list = useListing(
    'accounts',
    async (cursor, signal) => {
      const page = await call<typeof tenants.list>('GET /admin/tenants', { query: { cursor }, signal });
      return { items: page.tenants, count: page.count, next: page.next_cursor };
    },
    { live: LIVE },
  );
  const used = useLoaded('usage', (signal) => call<typeof tenants.usage>('GET /admin/usage', { signal }));
  const usage = new Map(used.data?.tenants.map((one) => [one.tenant, one]));
  return html`<${Page} title="Accounts" aside=${list.count === undefined ? undefined : number(list.count)} actions=${html`<button type="button" aria-expanded=${isOpen ? 'true' : 'false'} onClick=${() => setOpen(!isOpen)}>New account</button>`}>
    ${isOpen && html`<${NewAccount} close=${() => setOpen(false)} made=${list.reload} />`}
    ${list.error && html`<${Failed} error=${list.error} retry=${list.reload} />`}
    ${list.count === undefined && !list.error && html`<${Loading} lines=${6} />`}
    ${list.count === 0 && html`<${Empty} title="No accounts"><p>Create one, or open sign-up with <code>server.signup</code>.</p><//>`}
    ${
      list.items.length > 0 &&
      html`<div class="card"><div class="scroll" tabindex="0" role="region" aria-label="Accounts"><table class="stack">
        <thead><tr><th scope="col">Account</th><th scope="col">Plan</th><th scope="col" class="number">Submissions</th><th scope="col" class="number">Messages</th><th scope="col" class="number">Requests</th><th scope="col">Created</th></tr></thead>
        <tbody>${list.items.map((one: Tenant) => {
          const own = usage.get(one.id);
          return html`<tr key=${one.id}>
            <th scope="row"><a href=${href(`/server/accounts/${one.id}`)}>${one.name}</a> <${States} of=${one} /><br /><span class="soft small">${one.email}</span></th>
            <td data-label="Plan">${one.plan}</td>
            <td class="number" data-label="Submissions">${number(own?.submissions ?? 0)}</td><td class="number" data-label="Messages">${number(own?.messages ?? 0)}</td><td class="number" data-label="Requests">${number(own?.requests ?? 0)}</td>
            <td data-label="Created"><${Time} at=${one.created_at} short /></td>
          </tr>`;
        })}</tbody>
      </table></div></div>
      <p class="hint">Submissions, messages and requests in the last 30 days.</p>
      <${More} list=${list} />`
    }
  <//>`;
}

function States({
  of,
}: {
  readonly of: Pick<Tenant, 'id' | 'suspended' | 'trusted' | 'confirmed_at' | 'deleting'>;
}): ComponentChildren {
  return html`${of.id === OPERATOR && html`<${Badge} tone="accent">operator<//> `}${of.suspended && html`<${State} of="suspended" /> `}${of.deleting !== null && html`<${Badge} tone="bad">being deleted<//> `}${of.confirmed_at === null && html`<${Badge} tone="warn">not confirmed<//> `}`;
}

/** The plans of the server, once they are known. */
function usePlans(): Plans {
  return (
    useLoaded('plans', (signal) => call<typeof tenants.billing>('GET /admin/billing', { signal })).data?.plans ?? {}
  );
}

/** What is wrong with a field, as the API says it. */
function faultOf(error: ApiError | undefined, path: string): string | undefined {
  return error?.details.find((one) => one.path === path)?.message;
}

function NewAccount({ close, made }: { readonly close: () => void; readonly made: () => void }): ComponentChildren {
  const [values, setValues] = useState({ name: '', email: '', plan: 'free' });
  const [error, setError] = useState<ApiError>();
  const [key, setKey] = useState<string>();
  const plans = usePlans();
  function set(change: Partial<typeof values>): void {
    setValues({ ...values, ...change });
  }
  async function create(event: Event): Promise<void> {
    event.preventDefault();
    try {
      const account = await call<typeof tenants.create>('POST /admin/tenants', { body: values });
      setKey(account.key);
      setError(undefined);
      made();
    } catch (failure) {
      if (!(failure instanceof ApiError)) throw failure;
      setError(failure);
    }
  }
  if (key !== undefined) {
    return html`<section class="card note good" role="status"><h2>The account ${values.name} was created</h2>
      <p>This is its first API key. It is shown only once.</p>
      <${Code} text=${key} what="the API key" />
      <p class="actions"><button type="button" class="quiet" onClick=${close}>Close</button></p></section>`;
  }
  return html`<form class="card" onSubmit=${create}>
    <h2>New account</h2>
    ${error && html`<${Failed} error=${error} />`}
    <div class="cards">
      <${Field} label="Name" required value=${values.name} change=${(name: string) => set({ name })} fault=${faultOf(error, 'name')} hint="The name of the person or organization." />
      <${Field} label="Email address" type="email" required value=${values.email} change=${(email: string) => set({ email })} fault=${faultOf(error, 'email')} hint="For sign-in links to the console and for alerts." />
      <${Field} label="Plan" value=${values.plan} change=${(plan: string) => set({ plan })} fault=${faultOf(error, 'plan')} options=${planOptions(plans, values.plan)} />
    </div>
    <div class="actions"><button>Create account</button><button type="button" class="quiet" onClick=${close}>Cancel</button></div>
  </form>`;
}

function planOptions(plans: Plans, current: string): (readonly [string, string])[] {
  return [...new Set([...Object.keys(plans), current])].map((name) => [name, name] as const);
}

export function Account({ params }: { readonly params: Readonly<Record<string, string>> }): ComponentChildren {
  const id = params['id'] ?? '';
  const loaded = useLoaded(
    id,
    (signal) => call<typeof tenants.show>('GET /admin/tenants/:id', { params: { id }, signal }),
    { live: LIVE },
  );
  const used = useLoaded('usage', (signal) => call<typeof tenants.usage>('GET /admin/usage', { signal }));
  const { data } = loaded;
  return html`<${Page} title=${data?.name ?? 'Account'} above=${{ href: href('/server/accounts'), name: 'Accounts' }} aside=${data && html`<${States} of=${data} />`} actions=${data && html`<${AccountActions} of=${data} reload=${loaded.reload} />`}>
    <${Ready} of=${loaded} lines=${8}>${(tenant: Shown) => html`<div class="cards wide">
      <section class="card"><h2>Account</h2><dl>
        <dt>ID</dt><dd><${Code} text=${tenant.id} what="the ID" /></dd>
        <dt>Email address</dt><dd>${tenant.email}</dd>
        <dt>Created</dt><dd><${Time} at=${tenant.created_at} /></dd>
        <dt>Confirmed</dt><dd>${tenant.confirmed_at === null ? 'not yet: its API keys do not work' : html`<${Time} at=${tenant.confirmed_at} />`}</dd>
        <dt>Recipients</dt><dd>${tenant.trusted ? 'trusted: they get its mail without confirmation' : 'must confirm before they get its mail'}</dd>
        <dt>In the queue</dt><dd>${number(tenant.queued)} ${tenant.queued === 1 ? 'delivery' : 'deliveries'}</dd>
      </dl></section>
      <section class="card"><h2>Resources</h2><dl>
        <dt>Submissions</dt><dd>${number(tenant.submissions)}</dd>
        ${Object.entries(tenant.objects).map(([name, count]) => html`<dt key=${name}>${name === 'keys' ? 'API keys' : `${name.charAt(0).toUpperCase()}${name.slice(1)}`}</dt><dd>${number(count)}</dd>`)}
      </dl>
      ${tenant.domains.length > 0 && html`<ul class="plain spaced">${tenant.domains.map(({ domain, status }) => html`<li key=${domain}>${domain} <${State} of=${status} /></li>`)}</ul>`}
      </section>
      <${UsageCard} of=${used.data?.tenants.find((one) => one.tenant === id)} />
      ${tenant.id !== OPERATOR && html`<${Limits} key=${JSON.stringify([tenant.plan, tenant.requests_per_hour, tenant.messages_per_hour, tenant.messages_per_day])} of=${tenant} reload=${loaded.reload} />`}
    </div>`}<//>
  <//>`;
}

const USED = [
  ['requests', 'Requests'],
  ['errors', 'Errors'],
  ['rate_limited', 'Rate limited'],
  ['messages', 'Counted messages'],
  ['submissions', 'Submissions'],
  ['spam', 'Spam'],
  ['delivered', 'Delivered'],
  ['deferred', 'Deferred'],
  ['bounced', 'Bounced'],
] as const;

function UsageCard({ of }: { readonly of: Usage['tenants'][number] | undefined }): ComponentChildren {
  return html`<section class="card"><h2>Last 30 days</h2><dl>${USED.map(([name, title]) => html`<dt key=${name}>${title}</dt><dd>${number(of?.[name] ?? 0)}</dd>`)}</dl></section>`;
}

const LIMITS = [
  ['requests_per_hour', 'Requests per hour'],
  ['messages_per_hour', 'Messages per hour'],
  ['messages_per_day', 'Messages per day'],
] as const;

function Limits({ of, reload }: { readonly of: Shown; readonly reload: () => void }): ComponentChildren {
  const [plan, setPlan] = useState(of.plan);
  const [values, setValues] = useState<Readonly<Record<string, string>>>(
    Object.fromEntries(LIMITS.map(([name]) => [name, of[name] === null ? '' : String(of[name])])),
  );
  const [error, setError] = useState<ApiError>();
  const plans = usePlans();
  async function save(event: Event): Promise<void> {
    event.preventDefault();
    const limits = Object.fromEntries(
      LIMITS.map(([name]) => [name, values[name] === '' ? null : Number(values[name])]),
    );
    try {
      await call<typeof tenants.change>('PATCH /admin/tenants/:id', {
        params: { id: of.id },
        body: { plan, ...limits },
      });
      setError(undefined);
      say(`The limits of ${of.name} were changed.`);
      reload();
    } catch (failure) {
      if (!(failure instanceof ApiError)) throw failure;
      setError(failure);
    }
  }
  const chosen = plans[plan];
  return html`<form class="card" onSubmit=${save}><h2>Plan and limits</h2>
    ${error && html`<${Failed} error=${error} />`}
    <${Field} label="Plan" value=${plan} change=${setPlan} fault=${faultOf(error, 'plan')} options=${planOptions(plans, plan)} />
    ${LIMITS.map(([name, label]) => {
      const usual = chosen?.[name];
      return html`<${Field} key=${name} label=${label} type="number" value=${values[name] ?? ''} change=${(value: string) => setValues({ ...values, [name]: value })} fault=${faultOf(error, name)} hint=${usual === undefined ? 'Leave empty for the plan’s limit.' : `Leave empty for the plan’s limit: ${usual === null ? 'no limit' : number(usual)}.`} />`;
    })}
    <button>Save</button>
  </form>`;
}

function AccountActions({ of, reload }: { readonly of: Shown; readonly reload: () => void }): ComponentChildren {
  const { id, name } = of;
  const params = { id };

  async function change(body: object, done: string, undo?: () => void): Promise<void> {
    if (await doing(() => call<typeof tenants.change>('PATCH /admin/tenants/:id', { params, body }), done, undo))
      reload();
  }

  async function suspend(): Promise<void> {
    const yes = await confirm({
      title: `Suspend ${name}?`,
      text: 'Its API keys and sessions are rejected, its forms accept nothing, and none of its mail and webhooks are sent. Queued mail waits until the account is active again, or expires.',
      action: 'Suspend account',
    });
    if (yes) await change({ suspended: true }, `${name} is suspended.`, () => void resume());
  }

  function resume(): Promise<void> {
    return change({ suspended: false }, `${name} is active again.`);
  }

  async function remove(): Promise<void> {
    const yes = await confirm({
      title: `Delete ${name}?`,
      text: 'Its API keys are revoked, its projects, domains and webhooks stop working, and queued mail is cancelled. Then its submissions, messages and all other data are deleted. This cannot be undone.',
      action: 'Delete account',
      type: name,
    });
    if (!yes) return;
    const query = { queued: 'cancel' };
    if (
      await doing(
        () => call<typeof tenants.remove>('DELETE /admin/tenants/:id', { params, query }),
        `${name} is being deleted.`,
      )
    )
      reload();
  }

  async function act(): Promise<void> {
    if (await doing(() => actForAccount(id), `You are acting for ${name}.`)) go('/');
  }

  if (id === OPERATOR || of.deleting !== null) return null;
  return html`<${Action} run=${act}>Act for this account<//>
    ${of.trusted ? html`<${Action} kind="quiet" run=${() => change({ trusted: false }, `Recipients of ${name} must confirm from now on.`, () => void change({ trusted: true }, `${name} is trusted.`))}>Stop trusting<//>` : html`<${Action} kind="quiet" run=${() => change({ trusted: true }, `${name} is trusted. Mail that waited for confirmation is sent.`)}>Trust<//>`}
    ${of.suspended ? html`<${Action} kind="quiet" run=${resume}>End suspension<//>` : html`<${Action} kind="quiet" run=${suspend}>Suspend<//>`}
    <${Action} kind="danger" run=${remove}>Delete<//>`;
}
