/**
 * What visitors sent: the inbox of all forms, and one submission beside it where there is room. What is shown and searched for
 * is in the address; lists change by themselves when something comes in.
 */
import type { forms as formRoutes } from '../../contract/forms.ts';
import type { submissions } from '../../contract/submissions.ts';
import type { AnswerOf } from '../../contract/route.ts';
import { ApiError, call, urlOf } from '../api.ts';
import { Action, Badge, Empty, Failed, Loading, More, number, Page, Time } from '../components/basics.ts';
import { Check, DayFields, isTyping, momentsOf, MoreFilters, Search, Select } from '../components/fields.ts';
import { say } from '../components/messages.ts';
import { useListing, useLoaded, type Listing } from '../data.ts';
import { createChange, html, type ComponentChildren, useEffect, useRef, useState } from '../lib.ts';
import { currentPlace, go, href, setQuery, thisPage, usePlace } from '../router.ts';
import { can } from '../session.ts';
import { type ActionName, type Perform, senderOf, Submission, textOf } from './submission.ts';

type Listed = AnswerOf<typeof submissions.inbox>['submissions'][number];

const VIEWS = [
  ['inbox', 'Inbox', { status: 'accepted' }],
  ['unread', 'Unread', { status: 'accepted', unread: true }],
  ['spam', 'Spam', { status: 'spam' }],
  ['pending', 'Pending', { status: 'pending' }],
  ['all', 'All', {}],
] as const;

/** Counts end here: so many, or more. */
const MAX_COUNT = 10_000;

interface Filters {
  readonly view: string;
  readonly q: string;
  readonly form: string;
  readonly domain: string;
  readonly from: string;
  readonly to: string;
  readonly files: string;
}

function filtersOf(query: Readonly<Record<string, string>>): Filters {
  const { view = 'inbox', q = '', form = '', domain = '', from = '', to = '', files = '' } = query;
  return { view, q, form, domain, from, to, files };
}

function queryOf({ view, q, form, domain, files, ...days }: Filters): Readonly<Record<string, unknown>> {
  const [, , conditions] = VIEWS.find(([name]) => name === view) ?? VIEWS[0];
  return { ...conditions, q, form, domain, ...momentsOf(days), files: files === 'true' };
}

// What was done here shows at once, before the list is loaded anew.

const marks = new Map<string, Partial<Pick<Listed, 'read'>> & { readonly hidden?: boolean }>();
const change = createChange();

function mark(ids: readonly string[], made: { readonly read?: boolean; readonly hidden?: boolean }): void {
  for (const id of ids) marks.set(id, { ...marks.get(id), ...made });
  change.notify();
}

/** Does something to submissions; answers those to which it was done. What failed is said. */
async function act(action: ActionName, ids: readonly string[], { leaving = false } = {}): Promise<readonly string[]> {
  try {
    const { results } = await call<typeof submissions.act>('POST /submissions/actions', {
      body: { action, ids },
      keepalive: leaving,
    });
    const failed = results.filter(({ done }) => !done);
    const [first] = failed;
    if (first !== undefined) {
      const others = failed.length === 1 ? '' : ` (and ${failed.length - 1} more)`;
      say(`${first.error ?? 'The action failed.'}${others}`, { tone: 'bad' });
    }
    return results.filter(({ done }) => done).map(({ id }) => id);
  } catch (error) {
    if (!(error instanceof ApiError)) throw error;
    say(error.message, { tone: 'bad' });
    return [];
  }
}

/** How long a deletion can be taken back, ms. Until then nothing is deleted. */
const UNDO_MS = 8000;
const deletions = new Set<{ readonly run: (leaving: boolean) => Promise<void> }>();

// Whoever leaves the page meant it.
addEventListener('pagehide', () => {
  for (const deletion of deletions) void deletion.run(true);
});

function count(ids: readonly string[]): string {
  return ids.length === 1 ? 'Submission' : `${number(ids.length)} submissions`;
}

/** Deletes them once nobody wants to take it back any more. */
function deleteLater(ids: readonly string[], done: () => void): void {
  mark(ids, { hidden: true });
  async function run(leaving: boolean): Promise<void> {
    clearTimeout(timer);
    if (!deletions.delete(deletion)) return;
    const gone = await act('delete', ids, { leaving });
    mark(
      ids.filter((id) => !gone.includes(id)),
      { hidden: false },
    );
    done();
  }
  const deletion = { run };
  const timer = setTimeout(() => void run(false), UNDO_MS);
  deletions.add(deletion);
  say(`${count(ids)} deleted.`, {
    undo() {
      clearTimeout(timer);
      if (deletions.delete(deletion)) mark(ids, { hidden: false });
    },
  });
}

const SAID: Readonly<Record<Exclude<ActionName, 'delete'>, string>> = {
  read: 'marked as read.',
  unread: 'marked as unread.',
  spam: 'marked as spam.',
  ham: 'released.',
  resend: 'sent again.',
};
const REVERSE: Readonly<Partial<Record<ActionName, ActionName>>> = {
  read: 'unread',
  unread: 'read',
  spam: 'ham',
  ham: 'spam',
};

/** `/submissions`, `/submissions/:id`, both with `?view=spam&q=…&form=…&domain=…&from=…&to=…&files=true`. */
export function Submissions({ params }: { readonly params: Readonly<Record<string, string>> }): ComponentChildren {
  const { query } = usePlace();
  change.use();
  const filters = filtersOf(query);
  const key = JSON.stringify(queryOf(filters));
  const list = useListing(
    `submissions ${key}`,
    async (cursor, signal) => {
      const page = await call<typeof submissions.inbox>('GET /submissions', {
        query: { ...queryOf(filters), cursor, limit: 50 },
        signal,
      });
      return { items: page.submissions, count: page.count, next: page.next_cursor };
    },
    { live: ['submission.'] },
  );
  const counts = useLoaded(
    'submission counts',
    (signal) => call<typeof submissions.counts>('GET /submissions/counts', { signal }),
    {
      live: ['submission.'],
    },
  );
  const [chosen, setChosen] = useState<ReadonlySet<string>>(new Set());
  const [hasHelp, setHelp] = useState(false);
  useEffect(() => setChosen(new Set()), [key]);
  const items = list.items.filter(({ id }) => marks.get(id)?.hidden !== true);
  const { id: open } = params;

  function reload(): void {
    list.reload();
    counts.reload();
  }

  async function perform(action: ActionName, ids: readonly string[]): Promise<void> {
    if (ids.length === 0) return;
    setChosen(new Set());
    if (action === 'delete') {
      if (open !== undefined && ids.includes(open)) step(1, ids);
      return deleteLater(ids, reload);
    }
    const isHere = thisPage();
    const done = await carryOut(action, ids);
    if (done.length === 0) return;
    // It leaves the list that it was in: on with the next.
    if (/spam|ham/.test(action) && filters.view !== 'all' && open !== undefined && done.includes(open) && isHere())
      step(1, done);
    const back = REVERSE[action];
    say(`${count(done)} ${SAID[action]}`, back === undefined ? {} : { undo: () => void carryOut(back, done) });
  }

  /** Does it and shows it. */
  async function carryOut(action: ActionName, ids: readonly string[]): Promise<readonly string[]> {
    const done = await act(action, ids);
    if (action === 'read' || action === 'unread') mark(done, { read: action === 'read' });
    if (done.length > 0) reload();
    return done;
  }

  /** Shows the next or the one before; past the end, the list. */
  function step(by: 1 | -1, without: readonly string[] = []): void {
    const at = items.findIndex(({ id }) => id === open);
    const rest = at < 0 ? items : by === 1 ? items.slice(at + 1) : items.slice(0, at).reverse();
    const next = rest.find(({ id }) => !without.includes(id));
    if (next !== undefined) go(`/submissions/${next.id}`, currentPlace().query, { replace: open !== undefined });
    else if (without.length > 0) go('/submissions', currentPlace().query);
  }

  // Whoever opens one has read it.
  useEffect(() => {
    if (open === undefined || !can('forms.write')) return;
    if (list.items.find(({ id }) => id === open)?.read === true || marks.get(open)?.read === true) return;
    void noteRead(open);
  }, [open]);

  async function noteRead(id: string): Promise<void> {
    mark(await act('read', [id]), { read: true });
    counts.reload();
  }

  const keys = useRef<(event: KeyboardEvent) => void>(() => undefined);
  keys.current = (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey || isTyping(event)) return;
    if (document.querySelector('dialog[open]') !== null) return;
    const current = items.find(({ id }) => id === open);
    const does: Readonly<Record<string, () => void>> = {
      j: () => step(1),
      k: () => step(-1),
      e() {
        if (current === undefined) return;
        const isRead = marks.get(current.id)?.read ?? current.read;
        void perform(isRead ? 'unread' : 'read', [current.id]);
      },
      s: () => current && void perform(current.status === 'accepted' ? 'spam' : 'ham', [current.id]),
      x: () => open !== undefined && toggle(open),
      '#': () => current && void perform('delete', [current.id]),
      u: () => open !== undefined && go('/submissions', currentPlace().query),
      '?': () => setHelp(true),
    };
    const run = does[event.key];
    if (run === undefined || (!can('forms.write') && /[es#]/.test(event.key))) return;
    event.preventDefault();
    run();
  };
  useEffect(() => {
    function press(event: KeyboardEvent): void {
      keys.current(event);
    }
    document.addEventListener('keydown', press);
    return () => document.removeEventListener('keydown', press);
  }, []);

  function toggle(id: string): void {
    const next = new Set(chosen);
    if (!next.delete(id)) next.add(id);
    setChosen(next);
  }

  const isUnread = filters.view === 'inbox' || filters.view === 'unread';
  const unread = counts.data?.unread ?? 0;
  return html`<${Page}
    title="Submissions"
    aside=${isUnread && unread > 0 ? `${atMost(unread)} unread` : undefined}
    above=${open === undefined ? undefined : { href: href('/submissions', query), name: 'Submissions' }}
    actions=${html`<${Exports} filters=${filters} />
      <button type="button" class="quiet keyboard" onClick=${() => setHelp(true)}>Shortcuts</button>`}
  >
    <div class="inboxes"><div class="panes inbox ${open === undefined ? '' : 'open'}">
      <section class="first" aria-label="List of submissions">
        <${Views} filters=${filters} counts=${counts.data} />
        <${FilterRow} filters=${filters} />
        <${Chosen} chosen=${chosen} items=${items} choose=${setChosen} perform=${perform} view=${filters.view} />
        <${Rows} list=${list} items=${items} filters=${filters} total=${counts.data?.all ?? 0} open=${open} chosen=${chosen} toggle=${toggle} />
      </section>
      ${
        open === undefined
          ? html`<p class="soft nothing">Select a submission to read it.</p>`
          : html`<${Submission} key=${open} id=${open} perform=${perform} isRead=${marks.get(open)?.read} />`
      }
    </div></div>
    ${hasHelp && html`<${Keys} close=${() => setHelp(false)} />`}
  <//>`;
}

function atMost(figure: number): string {
  return figure >= MAX_COUNT ? `${number(MAX_COUNT)}+` : number(figure);
}

type Counts = AnswerOf<typeof submissions.counts>;

/** Which of them: each has an address. */
function Views({
  filters,
  counts,
}: {
  readonly filters: Filters;
  readonly counts: Counts | undefined;
}): ComponentChildren {
  const figures: Readonly<Record<string, number | undefined>> = {
    unread: counts?.unread,
    spam: counts?.spam,
    pending: counts?.pending,
    all: counts?.all,
  };
  const { query } = currentPlace();
  return html`<nav class="boxes" aria-label="Views">
    ${VIEWS.map(([name, title]) => {
      const figure = figures[name] ?? 0;
      return html`<a key=${name} href=${href('/submissions', { ...query, view: name === 'inbox' ? undefined : name })} aria-current=${filters.view === name ? 'page' : undefined}
        >${title}${figure > 0 && html` <span class="soft">${atMost(figure)}</span>`}</a>`;
    })}
  </nav>`;
}

/** The search and what narrows it. */
function FilterRow({ filters }: { readonly filters: Filters }): ComponentChildren {
  const known = useLoaded('forms', async (signal) => {
    const [placed, instant] = await Promise.all([
      call<typeof formRoutes.list>('GET /forms', { query: { limit: 200 }, signal }),
      call('GET /instant/forms', { query: { limit: 200 }, signal }).catch(() => ({ forms: [] })),
    ]);
    // oxlint-disable-next-line typescript/no-unsafe-type-assertion -- both lists have forms with id and name
    return [...placed.forms, ...(instant as { forms: { id: string; name: string }[] }).forms];
  });
  const { form, domain, from, to, files } = filters;
  const places = placesOf(known.data ?? []);
  const chosen = domain === '' ? form : `${OF_DOMAIN}${domain}`;
  const isKnown = chosen === '' || places.some(([place]) => place === chosen);
  const options = [['', 'All forms'], ...places, ...(isKnown ? [] : [[chosen, form === '' ? domain : form]])];
  function choose(place: string): void {
    const isDomain = place.startsWith(OF_DOMAIN);
    setQuery(
      isDomain ? { form: undefined, domain: place.slice(OF_DOMAIN.length) } : { form: place, domain: undefined },
    );
  }
  return html`<div class="filters" role="search">
    <${Search} label="Search submissions" value=${filters.q} change=${(q: string) => setQuery({ q }, { replace: true })} />
    <${Select} label="Form or domain" value=${chosen} options=${options} change=${choose} />
    <${MoreFilters} isSet=${from !== '' || to !== '' || files !== ''}>
      <${DayFields} from=${from} to=${to} />
      <${Check} label="With files" checked=${files === 'true'} change=${(isOn: boolean) => setQuery({ files: isOn ? 'true' : '' })} />
    <//>
  </div>`;
}

/** What stands before a domain among forms: no id of a form has a blank. */
const OF_DOMAIN = 'domain ';

/** Forms to choose from; before those of a domain that has several, the domain. */
function placesOf(forms: readonly { readonly id: string; readonly name: string }[]): [place: string, name: string][] {
  const byDomain = Map.groupBy(forms, ({ id }) => (/^[^/]+\.[^/]+\//.test(id) ? (id.split('/')[0] ?? '') : ''));
  return [...byDomain].flatMap(([domain, those]) => [
    ...(domain !== '' && those.length > 1 ? [[`${OF_DOMAIN}${domain}`, `All of ${domain}`] as [string, string]] : []),
    ...those.map(({ id, name }): [string, string] => [id, id.includes('/') ? id : name]),
  ]);
}

/** Of one form: its submissions as a file, with the filters that are set. */
function Exports({ filters }: { readonly filters: Filters }): ComponentChildren {
  const { form, view, q, from, to } = filters;
  if (form === '') return null;
  const [, , conditions] = VIEWS.find(([name]) => name === view) ?? VIEWS[0];
  const status = 'status' in conditions ? conditions.status : undefined;
  return (['csv', 'json'] as const).map(
    (format) =>
      html`<a class="button quiet" download href=${urlOf<typeof submissions.export>('GET /forms/*form/submissions/export', { params: { form }, query: { format, status, q, ...momentsOf({ from, to }) } })}>${`Export ${format.toUpperCase()}`}</a>`,
  );
}

interface ChosenProps {
  readonly chosen: ReadonlySet<string>;
  readonly items: readonly Listed[];
  readonly choose: (ids: ReadonlySet<string>) => void;
  readonly perform: Perform;
  readonly view: string;
}

/** What can be done to those that were chosen. */
function Chosen({ chosen, items, choose, perform, view }: ChosenProps): ComponentChildren {
  if (chosen.size === 0 || !can('forms.write')) return null;
  const ids = items.filter(({ id }) => chosen.has(id)).map(({ id }) => id);
  const isSpam = view === 'spam' || view === 'pending';
  return html`<div class="chosen" role="toolbar" aria-label="Actions for the selected submissions">
    <${Check} label=${`${ids.length} selected`} checked=${ids.length === items.length} change=${(isOn: boolean) => choose(new Set(isOn ? items.map(({ id }) => id) : []))} />
    <${Action} kind="quiet small" run=${() => perform('read', ids)}>Mark as read<//>
    <${Action} kind="quiet small" run=${() => perform('unread', ids)}>Mark as unread<//>
    <${Action} kind="quiet small" run=${() => perform(isSpam ? 'ham' : 'spam', ids)}>${isSpam ? 'Not spam' : 'Spam'}<//>
    <${Action} kind="quiet small" run=${() => perform('delete', ids)}>Delete<//>
  </div>`;
}

interface RowsProps {
  readonly list: Listing<Listed>;
  readonly items: readonly Listed[];
  readonly filters: Filters;
  /** However they are filtered. */
  readonly total: number;
  readonly open: string | undefined;
  readonly chosen: ReadonlySet<string>;
  readonly toggle: (id: string) => void;
}

function Rows({ list, items, filters, total, open, chosen, toggle }: RowsProps): ComponentChildren {
  if (list.error !== undefined) return html`<${Failed} error=${list.error} retry=${list.reload} />`;
  if (items.length === 0 && (list.isLoading || list.hasMore)) {
    return list.isLoading ? html`<${Loading} lines=${8} />` : html`<${More} list=${list} />`;
  }
  if (items.length === 0) return html`<${Nothing} filters=${filters} total=${total} />`;
  return html`<ul class="list mails">
      ${items.map((item) => html`<${Row} key=${item.id} item=${item} isOpen=${item.id === open} isChosen=${chosen.has(item.id)} toggle=${toggle} />`)}
    </ul>
    <${More} list=${list} />`;
}

interface RowProps {
  readonly item: Listed;
  readonly isOpen: boolean;
  readonly isChosen: boolean;
  readonly toggle: (id: string) => void;
}

function Row({ item, isOpen, isChosen, toggle }: RowProps): ComponentChildren {
  const { id, form, status, files, spam, created_at } = item;
  const row = useRef<HTMLLIElement>(null);
  useEffect(() => {
    if (isOpen) row.current?.scrollIntoView({ block: 'nearest' });
  }, [isOpen]);
  const isRead = marks.get(id)?.read ?? item.read;
  const who = senderOf(item);
  return html`<li ref=${row} class=${isChosen ? 'chosen-row' : ''}>
    ${can('forms.write') && html`<label class="pick"><input type="checkbox" checked=${isChosen} onChange=${() => toggle(id)} /><span class="hidden">Select the submission from ${who}</span></label>`}
    <a href=${href(`/submissions/${id}`, currentPlace().query)} aria-current=${isOpen ? 'true' : undefined}>
      <span class="top">
        ${!isRead && html`<span class="dot" aria-hidden="true"></span>`}
        <span class="line sender ${isRead ? '' : 'unread'}">${who}${!isRead && html`<span class="hidden"> (unread)</span>`}</span>
        <span class="soft small"><${Time} at=${created_at} short /></span>
      </span>
      <span class="line ${isRead ? 'soft' : ''}">${snippetOf(item)}</span>
      <span class="small soft line">
        ${form}
        ${status === 'spam' && html` <${Badge} tone="bad">Spam ${spam.score} %<//>`}
        ${status === 'pending' && html` <${Badge} tone="warn">Pending<//>`}
        ${files.length > 0 && html` <${Badge}>${files.length === 1 ? '1 file' : `${files.length} files`}<//>`}
      </span>
    </a>
  </li>`;
}

/** Says what would be here, and what to do first. */
function Nothing({ filters, total }: Pick<RowsProps, 'filters' | 'total'>): ComponentChildren {
  const { view, ...narrowed } = filters;
  if (Object.values(narrowed).some((value) => value !== '')) {
    return html`<${Empty} title="Nothing found">
      <p>No submission matches the search and the filters.</p>
      <p><a class="button quiet" href=${href('/submissions', { view: view === 'inbox' ? undefined : view })}>Clear the filters</a></p>
    <//>`;
  }
  if (view === 'spam')
    return html`<${Empty} title="No spam"><p>Submissions that the filter holds are listed here, with the reasons, until they are released or deleted.</p><//>`;
  if (view === 'pending')
    return html`<${Empty} title="Nothing pending"><p>Forms with double opt-in keep submissions here until visitors confirm them.</p><//>`;
  if (view === 'unread') return html`<${Empty} title="All read"><p>New submissions appear here automatically.</p><//>`;
  if (total > 0) {
    return html`<${Empty} title="The inbox is empty"><p>Spam and pending submissions are in the views above. New submissions appear here automatically.</p><//>`;
  }
  return html`<${Empty} title="No submissions yet">
    <p>They appear here as soon as someone submits one of your forms.</p>
    <p><a class="button" href=${href('/forms')}>Open your forms</a></p>
  <//>`;
}

/** The longest text of it. */
function snippetOf({ fields, stored }: Listed): string {
  const texts = Object.values(fields).map((value) => textOf(value).replaceAll(/\s+/g, ' ').trim());
  const longest = texts.toSorted((one, other) => other.length - one.length)[0] ?? '';
  return longest === '' && stored === 'metadata' ? 'The fields were deleted after delivery.' : longest.slice(0, 200);
}

const KEYS = [
  ['j', 'Next submission'],
  ['k', 'Previous submission'],
  ['u', 'Back to the list'],
  ['e', 'Mark as read or unread'],
  ['s', 'Spam or not spam'],
  ['x', 'Select'],
  ['#', 'Delete'],
  ['/', 'Search'],
  ['?', 'Show this list'],
] as const;

function Keys({ close }: { readonly close: () => void }): ComponentChildren {
  const dialog = useRef<HTMLDialogElement>(null);
  useEffect(() => dialog.current?.showModal(), []);
  return html`<dialog ref=${dialog} aria-labelledby="keys" onClose=${close}>
    <form method="dialog">
      <h2 id="keys">Shortcuts</h2>
      <dl class="keys">
        ${KEYS.map(([name, what]) => html`<dt key=${name}><kbd>${name}</kbd></dt><dd>${what}</dd>`)}
      </dl>
      <div class="actions"><button>Close</button></div>
    </form>
  </dialog>`;
}
