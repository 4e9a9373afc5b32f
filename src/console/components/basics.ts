/** What every page is made of: its frame, states, badges, times, and buttons. */
import type { ApiError } from '../api.ts';
import { type Loaded } from '../data.ts';
import { html, type ComponentChildren, useEffect, useRef, useState } from '../lib.ts';

interface PageProps {
  readonly title: string;
  /** Beside the title, smaller: a count or a status. */
  readonly aside?: ComponentChildren;
  /** Buttons at its right. */
  readonly actions?: ComponentChildren;
  /** Where it belongs: `{ href, name }` of the list. */
  readonly above?: { readonly href: string; readonly name: string };
  readonly children?: ComponentChildren;
}

/** A page with its title, which is that of the window too. */
export function Page({ title, aside, actions, above, children }: PageProps): ComponentChildren {
  useEffect(() => {
    document.title = `${title} · Postern`;
  }, [title]);
  return html`<header class="head">
      <div>
        ${above && html`<a class="above" href=${above.href}>${above.name}</a>`}
        <h1 tabindex="-1">${title}${aside && html` <span class="aside">${aside}</span>`}</h1>
      </div>
      ${actions && html`<div class="actions">${actions}</div>`}
    </header>
    ${children}`;
}

interface StateProps<T> {
  readonly of: Loaded<T>;
  /** Lines that stand where the data will be. */
  readonly lines?: number;
  readonly children: (data: T) => ComponentChildren;
}

/** The data once it is there; until then lines of the same height, and a way to try again where it failed. */
export function Ready<T>({ of, lines = 4, children }: StateProps<T>): ComponentChildren {
  if (of.data !== undefined) {
    return html`${of.error && html`<${Failed} error=${of.error} retry=${of.reload} />`}${children(of.data)}`;
  }
  if (of.error !== undefined) return html`<${Failed} error=${of.error} retry=${of.reload} />`;
  return html`<${Loading} lines=${lines} />`;
}

/** Stands for what is being loaded. */
export function Loading({ lines = 4 }: { readonly lines?: number }): ComponentChildren {
  return html`<div class="loading" role="status" aria-label="Loading">
    ${Array.from({ length: lines }, (_, i) => html`<div class="bone" key=${i}></div>`)}
  </div>`;
}

/** What failed, with the id that finds it in the log. What does not exist is not tried again. */
export function Failed({ error, retry }: { readonly error: ApiError; readonly retry?: () => void }): ComponentChildren {
  return html`<div class="note bad" role="alert">
    <p><strong>${error.message}</strong></p>
    ${
      error.details.length > 0 &&
      html`<ul>
      ${error.details.map(({ path, message }) => html`<li><code>${path}</code> ${message}</li>`)}
    </ul>`
    }
    ${error.requestId !== undefined && html`<p class="soft">Request ID <code>${error.requestId}</code></p>`}
    ${retry && error.status !== 404 && html`<button type="button" class="quiet" onClick=${retry}>Try again</button>`}
  </div>`;
}

/** Says what a list is for, and what to do first. */
export function Empty({
  title,
  children,
}: {
  readonly title: string;
  readonly children?: ComponentChildren;
}): ComponentChildren {
  return html`<div class="empty"><h2>${title}</h2>${children}</div>`;
}

export type Tone = 'good' | 'bad' | 'warn' | 'plain' | 'accent';

/** The state of a thing in a word. */
export function Badge({
  tone = 'plain',
  children,
}: {
  readonly tone?: Tone;
  readonly children?: ComponentChildren;
}): ComponentChildren {
  return html`<span class="badge ${tone}">${children}</span>`;
}

/** What each state of mail, a domain or a form means to who looks at it. */
export function toneOf(state: string): Tone {
  if (/^(delivered|verified|accepted|active|ok|confirmed|captured|enabled)$/.test(state)) return 'good';
  if (/^(bounced|failed|rejected|wrong|missing|spam|revoked|expired|suspended|disabled)$/.test(state)) return 'bad';
  if (/^(deferred|degraded|pending|held|unknown|duplicate|paused)$/.test(state)) return 'warn';
  return 'plain';
}

/** The state as a badge in its tone. */
export function State({ of, label = of }: { readonly of: string; readonly label?: string }): ComponentChildren {
  return html`<${Badge} tone=${toneOf(of)}>${label}<//>`;
}

const clock = new Intl.DateTimeFormat(undefined, { hour: '2-digit', minute: '2-digit' });
const day = new Intl.DateTimeFormat(undefined, { day: 'numeric', month: 'short' });
const year = new Intl.DateTimeFormat(undefined, { day: 'numeric', month: 'short', year: 'numeric' });
const whole = new Intl.DateTimeFormat(undefined, { dateStyle: 'medium', timeStyle: 'medium' });

/** A time of the API (ISO 8601), local; UTC on hover. `short`: as lists have it. */
export function Time({ at, short = false }: { readonly at: string; readonly short?: boolean }): ComponentChildren {
  const date = new Date(at);
  return html`<time datetime=${at} title="${at.replace('T', ' ').replace(/\.\d+Z$/, '')} UTC">${short ? shortTime(date) : whole.format(date)}</time>`;
}

function shortTime(date: Date): string {
  const now = new Date();
  if (date.toDateString() === now.toDateString()) return clock.format(date);
  return (date.getFullYear() === now.getFullYear() ? day : year).format(date);
}

/** How long something took or is ago: `3 min`, `2 days`. */
export function spanOf(ms: number): string {
  const seconds = Math.round(ms / 1000);
  if (seconds < 60) return `${seconds} s`;
  if (seconds < 3600) return `${Math.round(seconds / 60)} min`;
  if (seconds < 172_800) return `${Math.round(seconds / 3600)} h`;
  return `${Math.round(seconds / 86_400)} days`;
}

const decimal = new Intl.NumberFormat();

/** A number with its separators. */
export function number(value: number): string {
  return decimal.format(value);
}

/** The count of a list in words; of one that is not exact, the negative. */
export function countText(count: number | undefined): string | undefined {
  if (count === undefined) return undefined;
  return count < 0 ? `${number(-count)} or more` : number(count);
}

/** A size in bytes for people. */
export function sizeOf(bytes: number): string {
  if (bytes < 1000) return `${bytes} B`;
  return bytes < 1_000_000
    ? `${number(Math.round(bytes / 1000))} kB`
    : `${number(Math.round(bytes / 100_000) / 10)} MB`;
}

/** Copies a text and says so. */
export function Copy({
  text,
  label = 'Copy',
  what,
}: {
  readonly text: string;
  readonly label?: string;
  readonly what: string;
}): ComponentChildren {
  const [isCopied, setCopied] = useState(false);
  async function copy(): Promise<void> {
    await navigator.clipboard.writeText(text);
    setCopied(true);
    setTimeout(() => setCopied(false), 2000);
  }
  return html`<button type="button" class="quiet small" aria-label="Copy ${what}" onClick=${copy}>${isCopied ? 'Copied' : label}</button>`;
}

/** A text that people copy, in one line, with its button. */
export function Code({ text, what }: { readonly text: string; readonly what: string }): ComponentChildren {
  return html`<span class="copyable"><code>${text}</code><${Copy} text=${text} what=${what} /></span>`;
}

interface TabsProps<Name extends string> {
  readonly label: string;
  readonly tabs: readonly (readonly [name: Name, title: ComponentChildren])[];
  readonly chosen: Name;
  readonly choose: (name: Name) => void;
  readonly children?: ComponentChildren;
}

/** Views of one thing: arrow keys go from tab to tab. */
export function Tabs<Name extends string>({
  label,
  tabs,
  chosen,
  choose,
  children,
}: TabsProps<Name>): ComponentChildren {
  const list = useRef<HTMLDivElement>(null);
  function onKeyDown(event: KeyboardEvent): void {
    const step = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
    if (step === undefined) return;
    const at = tabs.findIndex(([name]) => name === chosen);
    const [next] = tabs[(at + step + tabs.length) % tabs.length] ?? [];
    if (next === undefined) return;
    choose(next);
    list.current?.querySelector<HTMLElement>(`[data-name="${next}"]`)?.focus();
  }
  return html`<div class="tabs" role="tablist" aria-label=${label} ref=${list} onKeyDown=${onKeyDown}>
      ${tabs.map(
        ([name, title]) =>
          html`<button type="button" role="tab" data-name=${name} aria-selected=${name === chosen ? 'true' : 'false'} tabindex=${name === chosen ? 0 : -1} onClick=${() => choose(name)}>${title}</button>`,
      )}
    </div>
    <div role="tabpanel" tabindex="0" aria-label=${label} class="panel">${children}</div>`;
}

/** A button that is busy while what it does goes on, and tells what failed. */
export function Action({
  run,
  kind = '',
  disabled = false,
  children,
}: {
  readonly run: () => Promise<unknown>;
  /** `quiet`, `danger`, `small`, as classes. */
  readonly kind?: string;
  readonly disabled?: boolean;
  readonly children?: ComponentChildren;
}): ComponentChildren {
  const [isBusy, setBusy] = useState(false);
  async function press(): Promise<void> {
    if (isBusy) return;
    setBusy(true);
    await run().finally(() => setBusy(false));
  }
  // Busy it is not disabled: that would take the focus from it for good.
  return html`<button type="button" class=${kind} disabled=${disabled} aria-disabled=${isBusy ? 'true' : undefined} aria-busy=${isBusy ? 'true' : undefined} onClick=${press}>${children}</button>`;
}

/** Goes on with a list. */
export function More({
  list,
}: {
  readonly list: { readonly hasMore: boolean; readonly isLoading: boolean; readonly more: () => void };
}): ComponentChildren {
  if (!list.hasMore) return null;
  return html`<p class="more"><button type="button" class="quiet" disabled=${list.isLoading} onClick=${list.more}>Show more</button></p>`;
}
