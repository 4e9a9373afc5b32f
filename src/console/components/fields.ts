/** Fields of forms and filters: a label that is one, and what is wrong beside the value. */
import { html, type ComponentChildren, useEffect, useId, useRef, useState } from '../lib.ts';

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
