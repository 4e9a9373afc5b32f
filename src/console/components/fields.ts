/** Fields of forms and filters: a label that is one, and what is wrong beside the value. */
import { html, type ComponentChildren, useEffect, useId, useRef, useState } from '../lib.ts';
import { setQuery } from '../router.ts';

interface FieldProps {
  readonly label: string;
  readonly value: string;
  readonly change: (value: string) => void;
  readonly hint?: ComponentChildren;
  /** What is wrong with it. */
  readonly fault?: string | undefined;
  readonly type?: string;
  readonly required?: boolean;
  readonly autocomplete?: string;
  readonly placeholder?: string;
  readonly rows?: number;
  /** In place of an input: values and their names. */
  readonly options?: readonly (readonly [value: string, name: string])[];
}

/** One value with its label, hint and fault. */
export function Field({ label, value, change, hint, fault, rows, options, ...input }: FieldProps): ComponentChildren {
  const id = useId();
  const described = [hint && `${id}-hint`, fault && `${id}-fault`].filter(Boolean).join(' ');
  const common = {
    id,
    ...input,
    onInput: (event: Event) => change(valueOf(event)),
    'aria-describedby': described === '' ? undefined : described,
    'aria-invalid': fault === undefined ? undefined : 'true',
  };
  const control =
    options !== undefined
      ? html`<select ...${common}>${options.map(([each, name]) => html`<option value=${each} selected=${each === value}>${name}</option>`)}</select>`
      : rows === undefined
        ? html`<input ...${common} value=${value} />`
        : html`<textarea ...${common} rows=${rows} value=${value}></textarea>`;
  return html`<div class="field ${fault === undefined ? '' : 'wrong'}">
    <label for=${id}>${label}</label>${control}
    ${hint && html`<p class="hint" id="${id}-hint">${hint}</p>`}
    ${fault && html`<p class="fault" id="${id}-fault">${fault}</p>`}
  </div>`;
}

/** A choice that is on or off. */
export function Check({
  label,
  checked,
  change,
}: {
  readonly label: ComponentChildren;
  readonly checked: boolean;
  readonly change: (checked: boolean) => void;
}): ComponentChildren {
  return html`<label class="choice"><input type="checkbox" checked=${checked} onChange=${(event: Event) => change(event.target instanceof HTMLInputElement && event.target.checked)} /><span>${label}</span></label>`;
}

interface SelectProps {
  readonly label: string;
  readonly value: string;
  readonly change: (value: string) => void;
  readonly options: readonly (readonly [value: string, name: string])[];
}

/** A filter of a list: its label is for those who do not see where it stands. */
export function Select({ label, value, change, options }: SelectProps): ComponentChildren {
  return html`<select class="filter" aria-label=${label} onInput=${(event: Event) => change(valueOf(event))}>
    ${options.map(([each, name]) => html`<option value=${each} selected=${each === value}>${name}</option>`)}
  </select>`;
}

/** What typing waits for before it searches, ms. */
const PAUSE_MS = 250;

/** The search of a list: asks a moment after the last key. `/` goes to it. */
export function Search({
  label,
  value,
  change,
}: {
  readonly label: string;
  readonly value: string;
  readonly change: (value: string) => void;
}): ComponentChildren {
  const [text, setText] = useState(value);
  const field = useRef<HTMLInputElement>(null);
  useEffect(() => setText(value), [value]);
  useEffect(() => {
    if (text === value) return undefined;
    const timer = setTimeout(() => change(text), PAUSE_MS);
    return () => clearTimeout(timer);
  }, [text]);
  useEffect(() => {
    function toSearch(event: KeyboardEvent): void {
      if (event.key !== '/' || event.ctrlKey || event.metaKey || isTyping(event)) return;
      event.preventDefault();
      field.current?.focus();
    }
    document.addEventListener('keydown', toSearch);
    return () => document.removeEventListener('keydown', toSearch);
  }, []);
  return html`<input class="search" type="search" ref=${field} aria-label=${label} placeholder=${label} value=${text} onInput=${(event: Event) => setText(valueOf(event))} />`;
}

interface Days {
  /** `2026-11-28`, or empty. */
  readonly from: string;
  readonly to: string;
}

/** The first and the last day of a list, in the query of the address. */
export function DayFields({ from, to }: Days): ComponentChildren {
  return html`<${Day} label="From" name="from" value=${from} /><${Day} label="To" name="to" value=${to} />`;
}

function Day({
  label,
  name,
  value,
}: {
  readonly label: string;
  readonly name: keyof Days;
  readonly value: string;
}): ComponentChildren {
  return html`<label class="day">${label} <input type="date" value=${value} onChange=${(event: Event) => setQuery({ [name]: valueOf(event) }, { replace: true })} /></label>`;
}

const DATE = /^\d{4}-\d{2}-\d{2}$/;

/** The same days as the API takes them. Days are those of whoever looks, and of UTC in the API: it gets their moments. */
export function momentsOf({ from, to }: Days): Days {
  return { from: startOf(from, 0), to: startOf(to, 1) };
}

/** The midnight, local, with which the day so many days after this one begins; what is no date stays as it is. */
function startOf(date: string, after: number): string {
  if (!DATE.test(date)) return date;
  const moment = new Date(`${date}T00:00`);
  moment.setDate(moment.getDate() + after);
  return Number.isNaN(moment.getTime()) ? date : moment.toISOString();
}

/** Filters of the address that no field shows, each with a button that removes it. */
export function FilterChips({
  filters,
}: {
  readonly filters: Readonly<Record<string, string | undefined>>;
}): ComponentChildren {
  const set = Object.entries(filters).filter(([, value]) => value !== undefined);
  if (set.length === 0) return null;
  return html`<p class="chips">${set.map(
    ([name, value]) =>
      html`<button type="button" class="quiet small" key=${name} aria-label="Remove the filter ${name} ${value}" onClick=${() => setQuery({ [name]: undefined })}>${name}: ${value} ✕</button>`,
  )}</p>`;
}

/** A button that shows what narrows a list further; open where something of it is set. */
export function MoreFilters({
  isSet,
  children,
}: {
  readonly isSet: boolean;
  readonly children?: ComponentChildren;
}): ComponentChildren {
  const [isOpen, setOpen] = useState(isSet);
  return html`<button type="button" class="quiet" aria-expanded=${isOpen ? 'true' : 'false'} onClick=${() => setOpen(!isOpen)}>Filter</button>
    ${isOpen && html`<div class="further">${children}</div>`}`;
}

/** Whether a key goes into a field, so that it is no shortcut. */
export function isTyping({ target }: Event): boolean {
  return target instanceof HTMLElement && target.closest('input, textarea, select, [contenteditable]') !== null;
}

/** What a field holds. */
export function valueOf({ target }: Event): string {
  const isField =
    target instanceof HTMLInputElement || target instanceof HTMLTextAreaElement || target instanceof HTMLSelectElement;
  return isField ? target.value : '';
}
