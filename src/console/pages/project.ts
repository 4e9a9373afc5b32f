/** Projects: their configuration as YAML, checked while it is typed, shown as a plan before it is pushed, with its revisions. */
import type { forms } from '../../contract/forms.ts';
import type { projects } from '../../contract/projects.ts';
import type { AnswerOf } from '../../contract/route.ts';
import { ApiError, call } from '../api.ts';
import { Action, Badge, Empty, Failed, More, number, Page, Ready, sizeOf, Tabs, Time } from '../components/basics.ts';
import { Editor, type Mark } from '../components/editor.ts';
import { Field, Select } from '../components/fields.ts';
import { confirm, doing, say } from '../components/messages.ts';
import { Preview } from '../components/preview.ts';
import { useListing, useLoaded } from '../data.ts';
import { html, type ComponentChildren, useEffect, useState } from '../lib.ts';
import { go, href, setQuery, thisPage, usePlace, type PageProps } from '../router.ts';
import { can } from '../session.ts';

type Project = AnswerOf<typeof projects.show>;
type Config = AnswerOf<typeof projects.config>;
type Change = AnswerOf<typeof projects.push>['changes'][number];
type Revision = AnswerOf<typeof projects.revisions>['revisions'][number];
type Form = AnswerOf<typeof forms.list>['forms'][number];

/** The list, with a form to make one. */
export function Projects(): ComponentChildren {
  const { query } = usePlace();
  const isNew = query['new'] !== undefined;
  const list = useListing('projects', async (cursor, signal) => {
    const page = await call<typeof projects.list>('GET /projects', { query: { cursor }, signal });
    return { items: page.projects, count: page.count, next: page.next_cursor };
  });
  const add = html`<button type="button" onClick=${() => setQuery({ new: true })}>Create project</button>`;
  const loaded = { ...list, data: list.count === undefined ? undefined : true };
  return html`<${Page} title="Projects" aside=${list.count === undefined ? undefined : number(list.count)} actions=${!isNew && can('projects.write') && add}>
    ${isNew && html`<${NewProject} />`}
    <${Ready} of=${loaded}>
      ${() =>
        list.items.length === 0
          ? !isNew &&
            html`<${Empty} title="No projects yet"><p>A project holds domains, forms and templates in one YAML file, here or in a repository.</p><p>${add}</p><//>`
          : html`<ul class="list">
              ${list.items.map(
                (project) => html`<li key=${project.id}>
                  <a class="split" href=${href(`/projects/${project.slug}`)}>
                    <span><strong>${project.name}</strong><span class="soft small line">${project.slug} · ${sourceText(project)}</span></span>
                    ${project.environment === 'test' && html`<${Badge} tone="accent">test<//>`}
                    ${project.file_missing && html`<${Badge} tone="warn">file missing<//>`}
                  </a>
                </li>`,
              )}
            </ul>`}
    <//>
    <${More} list=${list} />
  <//>`;
}

function sourceText({ managed_by: file, source }: Project): string {
  if (file !== null) return `managed by ${file.file} on ${file.machine}`;
  return source === 'push' ? 'pushed' : 'created through the API';
}

function NewProject(): ComponentChildren {
  const [name, setName] = useState('');
  const [fault, setFault] = useState<string>();
  async function create(): Promise<void> {
    const isHere = thisPage();
    try {
      const { slug } = await call<typeof projects.create>('POST /projects', { body: { name } });
      if (isHere()) go(`/projects/${slug}`);
    } catch (error) {
      if (!(error instanceof ApiError)) throw error;
      setFault(error.details[0]?.message ?? error.message);
    }
  }
  return html`<section class="card" aria-label="New project">
    <${Field} label="Name" value=${name} change=${setName} fault=${fault} placeholder="My site" />
    <div class="actions">
      <${Action} run=${create} disabled=${name.trim() === ''}>Create project<//>
      <button type="button" class="quiet" onClick=${() => setQuery({ new: undefined })}>Cancel</button>
    </div>
  </section>`;
}

/** One project. */
export function ProjectPage({ params: { slug = '' } }: PageProps): ComponentChildren {
  const { query } = usePlace();
  const tab = query['tab'] === 'revisions' ? 'revisions' : 'configuration';
  const project = useLoaded(slug, (signal) =>
    call<typeof projects.show>('GET /projects/:slug', { params: { slug }, signal }),
  );
  return html`<${Ready} of=${project} lines=${8}>
    ${(
      shown: Project,
    ) => html`<${Page} title=${shown.name} aside=${shown.slug} above=${{ href: href('/projects'), name: 'Projects' }} actions=${shown.managed_by === null && can('projects.write') && html`<${Action} kind="quiet" run=${() => remove(shown)}>Delete<//>`}>
      ${shown.managed_by !== null && html`<div class="note"><p>The file <code>${shown.managed_by.file}</code> on ${shown.managed_by.machine} manages this project. Here you can view it and try changes. To deploy changes, edit the file.</p></div>`}
      <${Tabs} label="Views of the project" tabs=${TABS} chosen=${tab} choose=${(name: string) => setQuery({ tab: name === 'configuration' ? undefined : name })}>
        ${tab === 'revisions' ? html`<${Revisions} project=${shown} reload=${project.reload} />` : html`<${Configuration} project=${shown} reload=${project.reload} />`}
      <//>
    <//>`}
  <//>`;
}

const TABS = [
  ['configuration', 'Configuration'],
  ['revisions', 'Revisions'],
] as const;

async function remove({ slug, name }: Project): Promise<void> {
  const isHere = thisPage();
  const text = html`<p>Its domains and forms stop working at once. Submissions are kept, and queued mail is still sent.</p>`;
  if (!(await confirm({ title: `Delete ${name}?`, text, action: 'Delete project', type: slug }))) return;
  const done = await doing(
    () => call<typeof projects.remove>('DELETE /projects/:slug', { params: { slug } }),
    `The project ${name} was deleted.`,
  );
  if (done && isHere()) go('/projects');
}

interface OfProject {
  readonly project: Project;
  readonly reload: () => void;
}

function Configuration({ project, reload }: OfProject): ComponentChildren {
  const { slug, revision } = project;
  const config = useLoaded(`${slug} ${revision}`, (signal) =>
    call<typeof projects.config>('GET /projects/:slug/config', { params: { slug }, signal }),
  );
  return html`<${Ready} of=${config} lines=${10}>
    ${(shown: Config) => html`<${Workbench} key=${shown.revision} project=${project} config=${shown} reload=${reload} />`}
  <//>`;
}

interface Draft {
  readonly config: string;
  readonly files: Readonly<Record<string, string>>;
}

/** A draft outlives a reload of the page, until it is pushed or thrown away. */
function draftOf(slug: string, { revision, config, files }: Config): Draft {
  const kept = sessionStorage.getItem(`draft ${slug} ${revision}`);
  // oxlint-disable-next-line typescript/no-unsafe-type-assertion -- written below, in this browser
  return kept === null ? { config: config ?? '', files } : (JSON.parse(kept) as Draft);
}

interface WorkbenchProps extends OfProject {
  readonly config: Config;
}

const MAIN = 'postern.yml';

function Workbench({ project, config, reload }: WorkbenchProps): ComponentChildren {
  const { slug } = project;
  const { query } = usePlace();
  const [draft, setDraft] = useState(() => draftOf(slug, config));
  const [file, setFile] = useState(MAIN);
  const plan = usePlan(slug, draft);
  const before: Draft = { config: config.config ?? '', files: config.files };
  const isChanged = JSON.stringify(draft) !== JSON.stringify(before);
  const key = `draft ${slug} ${config.revision}`;
  const side = query['form'] === undefined ? 'plan' : 'preview';
  const names = [MAIN, ...Object.keys(draft.files)];

  function edit(next: Draft): void {
    setDraft(next);
    sessionStorage.setItem(key, JSON.stringify(next));
  }
  function change(text: string): void {
    edit(file === MAIN ? { ...draft, config: text } : { ...draft, files: { ...draft.files, [file]: text } });
  }
  async function push(): Promise<void> {
    const parts = { params: { slug }, body: { ...draft, base_revision: config.revision } };
    const isDone = await doing(
      () => call<typeof projects.push>('PUT /projects/:slug/config', parts),
      `${project.name} was deployed.`,
    );
    if (!isDone) return;
    sessionStorage.removeItem(key);
    reload();
  }
  function discard(): void {
    const lost = draft;
    edit(before);
    sessionStorage.removeItem(key);
    say('The changes were discarded.', { undo: () => edit(lost) });
  }
  const canPush = project.managed_by === null && can('projects.write');
  const hasChanges = plan.kind === 'ready' && plan.changes.length > 0;
  return html`<div class="panes workbench">
    <section aria-label="Configuration">
      <div class="filters">
        ${names.length > 1 && html`<${Select} label="File" value=${file} change=${setFile} options=${names.map((name) => [name, name] as const)} />`}
        ${canPush && html`<${Action} run=${push} disabled=${!isChanged || !hasChanges}>Push<//>`}
        ${isChanged && html`<button type="button" class="quiet" onClick=${discard}>Discard changes</button>`}
      </div>
      <${Editor} label=${file} text=${file === MAIN ? draft.config : (draft.files[file] ?? '')} change=${change} marks=${plan.kind === 'invalid' ? marksIn(file, plan.marks) : []} status=${statusText(plan, isChanged)} />
      <${AddFile} known=${names} add=${(name: string) => (edit({ ...draft, files: { ...draft.files, [name]: '' } }), setFile(name))} />
    </section>
    <section aria-label="Plan and preview">
      <${Tabs} label="Plan or preview" tabs=${SIDES} chosen=${side} choose=${(name: string) => setQuery({ form: name === 'preview' ? 'first' : undefined }, { replace: true })}>
        ${side === 'plan' ? html`<${Plan} of=${plan} />` : html`<${FormPreview} slug=${slug} draft=${draft} isChanged=${isChanged} chosen=${query['form'] ?? ''} />`}
      <//>
    </section>
  </div>`;
}

interface AddFileProps {
  readonly known: readonly string[];
  readonly add: (name: string) => void;
}

/** A template's own file: the YAML names it with `html_file`. */
function AddFile({ known, add }: AddFileProps): ComponentChildren {
  const [name, setName] = useState('');
  const fault = known.includes(name) ? 'A file with this name already exists.' : undefined;
  function submit(event: Event): void {
    event.preventDefault();
    add(name);
    setName('');
  }
  return html`<details class="more-fields">
    <summary>Add a file</summary>
    <form onSubmit=${submit}>
      <${Field} label="Name" value=${name} change=${setName} fault=${fault} placeholder="templates/contact.html" hint="Refer to it in the YAML: html_file of a template, or logo of a theme. A file without a reference is not kept." />
      <button class="quiet" disabled=${name.trim() === '' || fault !== undefined}>Add file</button>
    </form>
  </details>`;
}

/** What is wrong in this file: a fault in a template's own file is told as `contact.html:3:30: …`. */
function marksIn(file: string, marks: readonly Mark[]): Mark[] {
  if (file === MAIN) return [...marks];
  return marks.flatMap((mark) => {
    if (!mark.message.startsWith(`${file}:`)) return [];
    const [, line = '1', column = '1', message = ''] =
      /^(\d+):(\d+): (.*)$/.exec(mark.message.slice(file.length + 1)) ?? [];
    return [{ path: '', line: Number(line), column: Number(column), message }];
  });
}

const SIDES = [
  ['plan', 'Plan'],
  ['preview', 'Preview'],
] as const;

type PlanState =
  | { readonly kind: 'checking' }
  | { readonly kind: 'ready'; readonly changes: readonly Change[]; readonly warnings: readonly Mark[] }
  | { readonly kind: 'invalid'; readonly marks: readonly Mark[] }
  | { readonly kind: 'failed'; readonly error: ApiError };

const PAUSE_MS = 500;

/** What a push would change; asked a moment after the last key. */
function usePlan(slug: string, draft: Draft): PlanState {
  const [state, setState] = useState<PlanState>({ kind: 'checking' });
  useEffect(() => {
    const ended = new AbortController();
    const timer = setTimeout(() => {
      const parts = { params: { slug }, query: { dry_run: 'true' }, body: draft, signal: ended.signal };
      call<typeof projects.push>('PUT /projects/:slug/config', parts).then(
        ({ changes, warnings }) => setState({ kind: 'ready', changes, warnings }),
        (error: unknown) => {
          if (ended.signal.aborted) return;
          if (!(error instanceof ApiError)) throw error;
          const marks = error.details.map(({ line = 1, column = 1, path, message }) => ({
            line,
            column,
            path,
            message,
          }));
          setState(marks.length > 0 ? { kind: 'invalid', marks } : { kind: 'failed', error });
        },
      );
    }, PAUSE_MS);
    return () => {
      clearTimeout(timer);
      ended.abort();
    };
  }, [slug, JSON.stringify(draft)]);
  return state;
}

function statusText(plan: PlanState, isChanged: boolean): string {
  switch (plan.kind) {
    case 'checking':
      return 'Checking …';
    case 'ready':
      return isChanged ? 'Valid' : 'Valid and deployed';
    case 'invalid':
    case 'failed':
      return '';
  }
}

function Plan({ of }: { readonly of: PlanState }): ComponentChildren {
  switch (of.kind) {
    case 'checking':
      return html`<p class="soft">Checking …</p>`;
    case 'failed':
      return of.error.status === 409
        ? html`<p class="soft">${of.error.message}</p>`
        : html`<${Failed} error=${of.error} />`;
    case 'invalid':
      return html`<p class="soft">The plan is shown once the configuration is valid.</p>`;
    case 'ready':
      return html`
        ${of.warnings.length > 0 && html`<div class="note warn"><ul>${of.warnings.map(({ line, message }) => html`<li key=${`${line} ${message}`}>Line ${line}: ${message}</li>`)}</ul></div>`}
        <${Changes} of=${of.changes} nothing="Nothing would change." />
      `;
  }
}

/** Changes as lines that go and lines that come. */
function Changes({ of, nothing }: { readonly of: readonly Change[]; readonly nothing: string }): ComponentChildren {
  if (of.length === 0) return html`<p class="soft">${nothing}</p>`;
  return html`<div class="diff" role="list">
    ${of.map(
      ({ op, path, from, to }) => html`<div role="listitem" key=${path}>
        <div class="path">${path}</div>
        ${op !== 'add' && html`<pre class="gone">${signed('-', from)}</pre>`}
        ${op !== 'remove' && html`<pre class="come">${signed('+', to)}</pre>`}
      </div>`,
    )}
  </div>`;
}

function signed(sign: string, value: unknown): string {
  const text = typeof value === 'string' ? value : JSON.stringify(value, null, 2);
  return text
    .split('\n')
    .map((line) => `${sign} ${line}`)
    .join('\n');
}

interface FormPreviewProps {
  readonly slug: string;
  readonly draft: Draft;
  readonly isChanged: boolean;
  readonly chosen: string;
}

function FormPreview({ slug, draft, isChanged, chosen }: FormPreviewProps): ComponentChildren {
  const known = useLoaded(
    slug,
    async (signal) => (await call<typeof forms.list>('GET /forms', { query: { limit: 200 }, signal })).forms,
  );
  return html`<${Ready} of=${known}>
    ${(all: readonly Form[]) => {
      // Those of this configuration: each stands under its domain or its collection.
      const ids = all
        .filter(({ id, source }) => source !== 'api' && draft.config.includes(id.split('/').at(-2) ?? id))
        .map(({ id }) => id);
      const form = ids.includes(chosen) ? chosen : ids[0];
      if (form === undefined)
        return html`<p class="soft">Push a form first. Its mail and pages are then shown here.</p>`;
      return html`<div class="filters"><${Select} label="Form" value=${form} change=${(id: string) => setQuery({ form: id }, { replace: true })} options=${ids.map((id) => [id, id] as const)} /></div>
        <${Preview} form=${form} bundle=${isChanged ? draft : undefined} />`;
    }}
  <//>`;
}

function Revisions({ project, reload }: OfProject): ComponentChildren {
  const { slug } = project;
  const { query } = usePlace();
  const open = query['revision'];
  const list = useListing(`${slug} ${project.revision}`, async (cursor, signal) => {
    const page = await call<typeof projects.revisions>('GET /projects/:slug/revisions', {
      params: { slug },
      query: { cursor },
      signal,
    });
    return { items: page.revisions, count: page.count, next: page.next_cursor };
  });
  const loaded = { ...list, data: list.count === undefined ? undefined : true };
  return html`<${Ready} of=${loaded}>
      ${() => html`<ul class="list">
        ${list.items.map(
          (revision) => html`<li key=${revision.id}>
            <button type="button" class="row split plain" aria-expanded=${revision.id === open ? 'true' : 'false'} onClick=${() => setQuery({ revision: revision.id === open ? undefined : revision.id }, { replace: true })}>
              <span><strong><${Time} at=${revision.created_at} /></strong><span class="soft small line">${authorText(revision)} · ${revision.size === null ? '' : `${sizeOf(revision.size)} · `}<code>${revision.id}</code></span></span>
              ${revision.current && html`<${Badge} tone="good">deployed<//>`}
            </button>
            ${revision.id === open && html`<${OneRevision} project=${project} revision=${revision} reload=${reload} />`}
          </li>`,
        )}
      </ul>`}
    <//>
    <${More} list=${list} />`;
}

function authorText({ author }: Revision): string {
  if (author === null) return 'author not recorded';
  const { kind, name } = author;
  const whose = { key: 'API key ', session: 'console, ', operator: 'on the server, ', file: 'file ' }[kind];
  return `${whose}${name ?? ''}`;
}

interface OneRevisionProps extends OfProject {
  readonly revision: Revision;
}

function OneRevision({ project, revision, reload }: OneRevisionProps): ComponentChildren {
  const { slug, name } = project;
  const params = { slug, revision: revision.id };
  const changes = useLoaded(revision.id, (signal) =>
    call<typeof projects.changes>('GET /projects/:slug/revisions/:revision/changes', { params, signal }),
  );
  const config = useLoaded(revision.id, (signal) =>
    call<typeof projects.config>('GET /projects/:slug/config', {
      params: { slug },
      query: { revision: revision.id },
      signal,
    }),
  );
  async function restore(): Promise<void> {
    const text = html`<p>The configuration of <strong>${name}</strong> from <${Time} at=${revision.created_at} /> is deployed at once. You can restore the current one in the same way.</p>`;
    if (!(await confirm({ title: 'Restore this revision?', text, action: 'Restore revision' }))) return;
    const body = { revision: revision.id, base_revision: project.revision };
    if (
      await doing(
        () => call<typeof projects.rollback>('POST /projects/:slug/rollback', { params: { slug }, body }),
        'The revision was deployed.',
      )
    )
      reload();
  }
  return html`<div class="details">
    ${
      !revision.current &&
      html`<p><strong>Compared with the deployed revision</strong></p>
        <${Ready} of=${changes}>${(shown: AnswerOf<typeof projects.changes>) => html`<${Changes} of=${shown.changes} nothing="No differences." />`}<//>
        ${project.managed_by === null && can('projects.write') && html`<p class="actions"><${Action} run=${restore}>Restore<//></p>`}`
    }
    <details>
      <summary>YAML</summary>
      <${Ready} of=${config}>${(shown: Config) => html`<pre class="tall" tabindex="0">${shown.config}</pre>${Object.entries(shown.files).map(([file, text]) => html`<p key=${file}><strong>${file}</strong></p><pre class="tall" tabindex="0">${text}</pre>`)}`}<//>
    </details>
  </div>`;
}
