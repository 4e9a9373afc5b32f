/** Forms: where they are posted to, code for their pages, how their mail looks, and what they got. */
import type { analytics } from '../../contract/analytics.ts';
import type { domains } from '../../contract/domains.ts';
import type { forms, formTools, instantForms } from '../../contract/forms.ts';
import type { AnswerOf } from '../../contract/route.ts';
import { ApiError, call } from '../api.ts';
import {
  Action,
  Code,
  Copy,
  Empty,
  Failed,
  More,
  number,
  Page,
  Ready,
  State,
  Tabs,
  Time,
} from '../components/basics.ts';
import { Chart } from '../components/chart.ts';
import { Field, Select } from '../components/fields.ts';
import { confirm, doing } from '../components/messages.ts';
import { Preview } from '../components/preview.ts';
import { useListing, useLoaded } from '../data.ts';
import { html, type ComponentChildren, useState } from '../lib.ts';
import { go, href, setQuery, thisPage, usePlace, type PageProps } from '../router.ts';
import { can } from '../session.ts';

type Form = AnswerOf<typeof forms.list>['forms'][number];
type FormWithSettings = AnswerOf<typeof forms.show>;
type Domain = AnswerOf<typeof domains.list>['domains'][number];

/** The list, with a form to make one. */
export function Forms(): ComponentChildren {
  const { query } = usePlace();
  const { domain } = query;
  const isNew = query['new'] !== undefined;
  const list = useListing(`forms ${domain}`, async (cursor, signal) => {
    const page = await call<typeof forms.list>('GET /forms', { query: { cursor, domain }, signal });
    return { items: page.forms, count: page.count, next: page.next_cursor };
  });
  const instant = useListing('instant', async (cursor, signal) => {
    const page = await call<typeof instantForms.list>('GET /instant/forms', { query: { cursor }, signal });
    return { items: page.forms, count: page.count, next: page.next_cursor };
  });
  const loaded = { ...list, data: list.count === undefined || instant.count === undefined ? undefined : true };
  const isEmpty = list.items.length + instant.items.length === 0;
  const add = html`<button type="button" onClick=${() => setQuery({ new: true })}>Create form</button>`;
  return html`<${Page} title="Forms" aside=${loaded.data && number((list.count ?? 0) + (instant.count ?? 0))} actions=${!isNew && can('forms.write') && add}>
    ${isNew && html`<${NewForm} />`}
    ${domain !== undefined && html`<p class="filters"><button type="button" class="quiet" onClick=${() => setQuery({ domain: undefined })}>${domain} ✕</button></p>`}
    <${Ready} of=${loaded}>
      ${() =>
        isEmpty
          ? !isNew &&
            html`<${Empty} title="No forms yet">
              <p>A form receives submissions from your page, filters spam, and emails the rest to you. An instant form needs no domain and works at once.</p>
              <p>${add}</p>
            <//>`
          : html`
              ${list.items.length > 0 && html`<ul class="list" aria-label="Forms">${list.items.map((form) => html`<${Line} key=${form.id} id=${form.id} name=${form.name} submissions=${form.submissions} status=${form.recipient_status} to=${[form.to].flat()} />`)}</ul><${More} list=${list} />`}
              ${
                domain === undefined &&
                instant.items.length > 0 &&
                html`<h2 class="above-list">Instant forms</h2>
                  <ul class="list" aria-label="Instant forms">${instant.items.map((form) => html`<${Line} key=${form.id} id=${form.id} name=${form.name} submissions=${form.submissions} status=${form.recipient_status} to=${[form.email]} />`)}</ul>
                  <${More} list=${instant} />`
              }
            `}
    <//>
  <//>`;
}

interface LineProps extends Pick<Form, 'id' | 'name' | 'submissions'> {
  readonly status: Form['recipient_status'];
  readonly to: readonly string[];
}

function Line({ id, name, submissions, status, to }: LineProps): ComponentChildren {
  return html`<li>
    <a class="split" href=${href(`/forms/${id}`)}>
      <span><strong>${name}</strong><span class="soft small line">${id} → ${to.join(', ')}</span></span>
      <span class="meta">
        ${status !== 'confirmed' && html`<${State} of=${status} label=${STATUS[status]} />`}
        <span class="soft small">${number(submissions)} ${submissions === 1 ? 'submission' : 'submissions'}</span>
      </span>
    </a>
  </li>`;
}

const STATUS = { confirmed: 'confirmed', pending: 'recipient must confirm', refused: 'recipient declined' } as const;

const INSTANT = 'instant';
const ANYWHERE = 'anywhere';

function NewForm(): ComponentChildren {
  const [name, setName] = useState('');
  const [to, setTo] = useState('');
  const [kind, setKind] = useState<string>(INSTANT);
  const [error, setError] = useState<ApiError>();
  const known = useLoaded('domains', async (signal) =>
    can('domains.read')
      ? (await call<typeof domains.list>('GET /domains', { query: { limit: 200 }, signal })).domains
      : [],
  );
  const places = (known.data ?? []).map(
    ({ domain, status }: Domain) =>
      [domain, status === 'pending' ? `${domain} (not verified yet)` : `On ${domain}`] as const,
  );
  const options = [
    [INSTANT, 'Instant form: only a name and an email address'],
    [ANYWHERE, 'Form with settings, for pages on any site'],
    ...places,
  ] as const;
  const recipients = to.split(/[\s,;]+/).filter((address) => address !== '');
  async function create(): Promise<void> {
    const isHere = thisPage();
    try {
      const made =
        kind === INSTANT
          ? await call<typeof instantForms.create>('POST /instant/forms', { body: { name, email: recipients.join() } })
          : await call<typeof forms.create>('POST /forms', {
              body: { name, to: recipients, ...(kind !== ANYWHERE && { domain: kind }) },
            });
      if (isHere()) go(`/forms/${made.id}`);
    } catch (failure) {
      if (!(failure instanceof ApiError)) throw failure;
      setError(failure);
    }
  }
  function faultOf(...paths: readonly string[]): string | undefined {
    return error?.details.find(({ path }) => paths.includes(path.split('.')[0] ?? ''))?.message;
  }
  return html`<section class="card" aria-label="New form">
    <h2>New form</h2>
    ${error && error.details.length === 0 && html`<${Failed} error=${error} />`}
    <${Field} label="Name" value=${name} change=${setName} fault=${faultOf('name')} placeholder="Contact" hint="Notifications come from this name." />
    <${Field} label="Recipient" type="text" value=${to} change=${setTo} fault=${faultOf('to', 'email')} placeholder="you@example.com" hint=${kind === INSTANT ? 'One email address. It may need to be confirmed first.' : 'Email addresses, separated by commas. They may need to be confirmed first.'} />
    <${Field} label="Kind" value=${kind} change=${setKind} options=${options} hint="Forms with templates are defined in the configuration of a project." />
    <div class="actions">
      <${Action} run=${create} disabled=${name.trim() === '' || recipients.length === 0}>Create form<//>
      <button type="button" class="quiet" onClick=${() => setQuery({ new: undefined })}>Cancel</button>
    </div>
  </section>`;
}

/** What a page shows of a form of any kind. */
interface AnyForm {
  readonly id: string;
  readonly name: string;
  readonly endpoint: string;
  readonly submissions: number;
  readonly created_at: string;
  readonly to: readonly string[];
  readonly recipient_status: Form['recipient_status'];
  /** `instant`, or where it comes from. */
  readonly source: Form['source'] | 'instant';
  readonly subject: string | null;
  readonly settings: FormWithSettings['settings'];
}

/** Instant forms have a list of their own, and ids of the same kind as those that the API made. */
async function loadForm(id: string, signal: AbortSignal): Promise<AnyForm> {
  try {
    const form = await call<typeof forms.show>('GET /forms/*id', { params: { id }, signal });
    return { ...form, to: [form.to].flat() };
  } catch (error) {
    if (!(error instanceof ApiError) || error.status !== 404 || !id.startsWith('frm_')) throw error;
    const form = await call<typeof instantForms.show>('GET /instant/forms/:id', { params: { id }, signal });
    return { ...form, to: [form.email], source: 'instant', subject: null, settings: {} };
  }
}

/** One form. */
export function FormPage({ params: { id = '' } }: PageProps): ComponentChildren {
  const { query } = usePlace();
  const tab = TABS.find(([name]) => name === query['tab'])?.[0] ?? 'use';
  const loaded = useLoaded(id, (signal) => loadForm(id, signal), { live: ['submission.'] });
  return html`<${Ready} of=${loaded} lines=${8}>
    ${(
      form: AnyForm,
    ) => html`<${Page} title=${form.name} aside=${form.id} above=${{ href: href('/forms'), name: 'Forms' }} actions=${html`<a class="button quiet" href=${href('/submissions', { form: id })}>${number(form.submissions)} ${form.submissions === 1 ? 'submission' : 'submissions'}</a>`}>
      <${Recipients} of=${form} />
      <${Tabs} label="Views of the form" tabs=${TABS} chosen=${tab} choose=${(name: string) => setQuery({ tab: name === 'use' ? undefined : name })}>
        ${tab === 'use' && html`<${Use} form=${form} />`}
        ${tab === 'activity' && html`<${Activity} form=${form} />`}
        ${tab === 'preview' && html`<${Look} form=${form} />`}
        ${tab === 'settings' && html`<${Settings} form=${form} reload=${loaded.reload} />`}
      <//>
    <//>`}
  <//>`;
}

const TABS = [
  ['use', 'Use'],
  ['activity', 'Activity'],
  ['preview', 'Preview'],
  ['settings', 'Settings'],
] as const;

function Recipients({ of: { recipient_status: status, to } }: { readonly of: AnyForm }): ComponentChildren {
  if (status === 'confirmed') return null;
  const isPending = status === 'pending';
  async function ask(): Promise<void> {
    for (const address of to)
      await doing(() => call('POST /recipients', { body: { address } }), `A link was emailed to ${address}.`);
  }
  return html`<div class="note warn">
    <p><strong>${isPending ? 'A recipient must confirm first.' : 'The recipient has declined mail from this server.'}</strong> ${isPending ? `Mail for ${to.join(', ')} waits until it is confirmed with the link in the confirmation email.` : 'Choose another recipient.'}</p>
    ${isPending && can('forms.write') && html`<${Action} kind="quiet small" run=${ask}>Send the link again<//>`}
  </div>`;
}

const STYLES: Readonly<Record<AnswerOf<typeof formTools.snippets>['snippets'][number]['style'], string>> = {
  html: 'HTML',
  fetch: 'HTML + script',
  react: 'React',
  htmx: 'htmx',
  formspree: 'Formspree',
};

function Use({ form }: { readonly form: AnyForm }): ComponentChildren {
  const { id, endpoint } = form;
  const [style, setStyle] = useState<string>('html');
  const snippets = useLoaded(id, (signal) =>
    call<typeof formTools.snippets>('GET /forms/*id/snippets', { params: { id }, signal }),
  );
  return html`<div class="panes side-right">
    <section class="card" aria-label="Code">
      <h2>Put it on your page</h2>
      <p><${Code} text=${endpoint} what="address" /></p>
      <${Ready} of=${snippets} lines=${5}>
        ${({ snippets: all }: AnswerOf<typeof formTools.snippets>) => {
          const chosen = all.find((one) => one.style === style);
          return html`<${Tabs} label="Code formats" tabs=${all.map((one) => [one.style, STYLES[one.style]] as const)} chosen=${style} choose=${setStyle}>
            <div class="code-block"><${Copy} text=${chosen?.code ?? ''} what="code" /><pre class="tall" tabindex="0">${chosen?.code}</pre></div>
          <//>`;
        }}
      <//>
    </section>
    <${TestPost} id=${id} />
  </div>`;
}

function TestPost({ id }: { readonly id: string }): ComponentChildren {
  const [sent, setSent] = useState<AnswerOf<typeof formTools.test>>();
  const [error, setError] = useState<ApiError>();
  async function post(): Promise<void> {
    setError(undefined);
    try {
      setSent(await call<typeof formTools.test>('POST /forms/*id/test', { params: { id }, body: {} }));
    } catch (failure) {
      if (!(failure instanceof ApiError)) throw failure;
      setError(failure);
    }
  }
  if (!can('forms.write')) return null;
  return html`<section class="card" aria-label="Test">
    <h2>Test it</h2>
    <p>Posts a sample to the form. It is checked, stored and emailed like any submission, and marked as a test.</p>
    ${error && html`<${Failed} error=${error} />`}
    ${sent && html`<div class="note good" role="status"><p>Test submission stored <${State} of=${sent.status} /></p><p><a href=${href(`/submissions/${sent.id}`)}>View the submission</a> and its mail.</p></div>`}
    <${Action} kind="quiet" run=${post}>Send a test post<//>
  </section>`;
}

const DAY_MS = 86_400_000;
const RANGES = [
  ['24h', 'Last 24 hours', 'hour', DAY_MS],
  ['30d', 'Last 30 days', 'day', 30 * DAY_MS],
  ['12m', 'Last 12 months', 'month', 365 * DAY_MS],
] as const;

/** What the form got, and what became of its mail, over a time that is in the address. */
function Activity({ form: { id } }: { readonly form: AnyForm }): ComponentChildren {
  const { query } = usePlace();
  const range = RANGES.find(([name]) => name === query['range']) ?? RANGES[1];
  const [name, , interval, ms] = range;
  const loaded = useLoaded(
    `${id} ${name}`,
    (signal) => {
      const from = new Date(Date.now() - ms).toISOString();
      return call<typeof analytics.show>('GET /analytics', { query: { form: id, interval, from }, signal });
    },
    { live: ['submission.'] },
  );
  return html`<div class="filters">
      <${Select} label="Time" value=${name} change=${(range: string) => setQuery({ range }, { replace: true })} options=${RANGES.map(([each, title]) => [each, title] as const)} />
    </div>
    <${Ready} of=${loaded} lines=${6}>
      ${({ series }: AnswerOf<typeof analytics.show>) => {
        const at = series.map((one) => one.at);
        return html`<div class="cards">
          <section class="card" aria-label="Submissions over time">
            <h2>Submissions</h2>
            <${Chart} label="Submissions over time" at=${at} interval=${interval} series=${[
              { name: 'Submissions', tone: 'accent', values: series.map((one) => one.submissions) },
              { name: 'Spam', tone: 'warn', values: series.map((one) => one.spam) },
            ]} />
          </section>
          <section class="card" aria-label="Mail over time">
            <h2>Mail about submissions</h2>
            <${Chart} label="Mail over time" at=${at} interval=${interval} series=${[
              { name: 'Delivered', tone: 'good', values: series.map((one) => one.delivered) },
              { name: 'Deferred', tone: 'warn', values: series.map((one) => one.deferred) },
              { name: 'Bounced', tone: 'bad', values: series.map((one) => one.bounced) },
            ]} />
          </section>
        </div>`;
      }}
    <//>`;
}

function Look({ form }: { readonly form: AnyForm }): ComponentChildren {
  const project = useProject(form);
  return html`<div class="panes side-right">
    <${Preview} form=${form.id} />
    <section class="card" aria-label="Change the look">
      <h2>Change it</h2>
      ${
        project === undefined
          ? html`<p>This form uses the built-in mail templates. The thank-you text, the language and the colors are in its <a href=${href(`/forms/${form.id}`, { tab: 'settings' })}>settings</a>.</p>`
          : html`<p>Templates, texts and colors are in the configuration of the project. The preview there changes as you type.</p>
              <p><a class="button" href=${href(`/projects/${project}`, { form: form.id })}>Edit the templates</a></p>`
      }
    </section>
  </div>`;
}

/** The project whose configuration has the form; undefined where none has, or it is not known yet. */
function useProject({ id, source }: AnyForm): string | undefined {
  const domain =
    source === 'file' || source === 'push' || (source === 'api' && !id.startsWith('frm_'))
      ? id.split('/')[0]
      : undefined;
  const loaded = useLoaded(`project of ${id}`, async (signal) => {
    if (domain === undefined || !domain.includes('.') || !can('domains.read')) return undefined;
    return (await call<typeof domains.show>('GET /domains/:domain', { params: { domain }, signal })).project;
  });
  return loaded.data;
}

interface SettingsProps {
  readonly form: AnyForm;
  readonly reload: () => void;
}

function Settings({ form, reload }: SettingsProps): ComponentChildren {
  const project = useProject(form);
  const isOwn = form.id.startsWith('frm_') && can('forms.write');
  const rows = Object.entries(form.settings);
  return html`<div class="panes side-right">
    ${
      isOwn
        ? html`<${EditForm} form=${form} reload=${reload} />`
        : html`<section class="card" aria-label="Settings"><h2>Settings</h2>
        <dl>
          <dt>Recipients</dt><dd>${form.to.join(', ')}</dd>
          ${form.subject !== null && html`<dt>Subject</dt><dd>${form.subject}</dd>`}
          ${rows.map(([name, value]) => html`<dt key=${name}><code>${name}</code></dt><dd>${typeof value === 'string' ? value : html`<pre>${JSON.stringify(value, null, 2)}</pre>`}</dd>`)}
        </dl>
        ${rows.length === 0 && html`<p class="soft">All other settings have their defaults.</p>`}
      </section>`
    }
    <section class="card" aria-label="About">
      <h2>About</h2>
      <dl>
        <dt>ID</dt><dd><${Code} text=${form.id} what="the ID" /></dd>
        <dt>Known since</dt><dd><${Time} at=${form.created_at} /></dd>
        <dt>Source</dt><dd>${project === undefined ? (form.source === 'instant' ? 'instant form' : 'the API or the console') : html`project <a href=${href(`/projects/${project}`)}>${project}</a>`}</dd>
      </dl>
      ${isOwn && html`<p class="actions spaced"><${Action} kind="quiet" run=${() => removeForm(form)}>Delete form<//></p>`}
    </section>
  </div>`;
}

async function removeForm({ id, name, source }: AnyForm): Promise<void> {
  const isHere = thisPage();
  const text = html`<p>Its address <code>${id}</code> no longer accepts submissions: pages that post to it show an error. Its submissions are kept.</p>`;
  if (!(await confirm({ title: `Delete ${name}?`, text, action: 'Delete form', type: name }))) return;
  const params = { id };
  const isDone = await doing(
    () =>
      source === 'instant'
        ? call<typeof instantForms.remove>('DELETE /instant/forms/:id', { params })
        : call<typeof forms.remove>('DELETE /forms/*id', { params }),
    `The form ${name} was deleted.`,
  );
  if (isDone && isHere()) go('/forms');
}

/** Settings with a field of their own; all others are edited as JSON. */
const TEXTS = [
  ['subject', 'Subject', 'Subject of notifications. Leave empty for the names of form and visitor.'],
  ['redirect', 'Page after success', 'A web address. Leave empty for the thank-you page.'],
  ['thank_you', 'Thank-you text', 'On the thank-you page, and in the response to scripts.'],
] as const;

function EditForm({ form, reload }: SettingsProps): ComponentChildren {
  const isInstant = form.source === 'instant';
  const known: Readonly<Record<string, unknown>> = { ...form.settings, subject: form.subject };
  const otherSettings = Object.fromEntries(
    Object.entries(form.settings).filter(([name]) => !TEXTS.some(([text]) => text === name)),
  );
  const [name, setName] = useState(form.name);
  const [to, setTo] = useState(form.to.join(', '));
  const [texts, setTexts] = useState<Readonly<Record<string, string>>>(
    Object.fromEntries(TEXTS.map(([key]) => [key, textOf(known[key])])),
  );
  const [json, setJson] = useState(
    Object.keys(otherSettings).length === 0 ? '' : JSON.stringify(otherSettings, null, 2),
  );
  const [error, setError] = useState<ApiError>();
  const parsed = parseSettings(json);
  async function save(): Promise<void> {
    const recipients = to.split(/[\s,;]+/).filter((address) => address !== '');
    const removed = Object.fromEntries(Object.keys(otherSettings).map((key) => [key, null]));
    const written = Object.fromEntries(Object.entries(texts).map(([key, text]) => [key, text === '' ? null : text]));
    const { id } = form;
    try {
      if (isInstant)
        await call<typeof instantForms.change>('PATCH /instant/forms/:id', {
          params: { id },
          body: { name, email: recipients.join() },
        });
      else
        await call<typeof forms.change>('PATCH /forms/*id', {
          params: { id },
          body: { name, to: recipients, ...written, ...removed, ...parsed },
        });
      setError(undefined);
      reload();
    } catch (failure) {
      if (!(failure instanceof ApiError)) throw failure;
      setError(failure);
    }
  }
  return html`<section class="card" aria-label="Settings">
    <h2>Settings</h2>
    ${error && html`<${Failed} error=${error} />`}
    <${Field} label="Name" value=${name} change=${setName} />
    <${Field} label=${isInstant ? 'Recipient' : 'Recipients'} value=${to} change=${setTo} hint="A new address may need to be confirmed first." />
    ${
      !isInstant &&
      html`${TEXTS.map(([key, label, hint]) => html`<${Field} key=${key} label=${label} hint=${hint} value=${texts[key] ?? ''} change=${(text: string) => setTexts({ ...texts, [key]: text })} />`)}
        <${Field} label="Other settings (JSON)" rows=${8} value=${json} change=${setJson} fault=${parsed === undefined ? 'Enter a JSON object, such as { "required": ["email"] }' : undefined} placeholder=${'{ "required": ["email"], "theme": { "language": "de" } }'} hint="The settings of a form in a project file: required, fields, theme, spam_protection, acknowledgment, uploads, allowed_origins and others." />`
    }
    <div class="actions"><${Action} run=${save} disabled=${parsed === undefined}>Save<//></div>
  </section>`;
}

function textOf(value: unknown): string {
  return typeof value === 'string' ? value : '';
}

/** The object; undefined for what is none. */
function parseSettings(text: string): object | undefined {
  if (text.trim() === '') return {};
  try {
    const value: unknown = JSON.parse(text);
    return typeof value === 'object' && value !== null && !Array.isArray(value) ? value : undefined;
  } catch {
    return undefined;
  }
}
