/** A text with line numbers, and marks at lines that are wrong. The text itself is a plain textarea: what browsers and screen readers know. */
import { html, type ComponentChildren, useEffect, useMemo, useRef } from '../lib.ts';
import { valueOf } from './fields.ts';

/** Something that is wrong at a place; both count from 1. */
export interface Mark {
  readonly line: number;
  readonly column: number;
  readonly path: string;
  readonly message: string;
}

interface EditorProps {
  readonly label: string;
  readonly text: string;
  readonly change: (text: string) => void;
  readonly marks?: readonly Mark[];
  readonly isReadOnly?: boolean;
  /** What is wrong elsewhere, in a word. */
  readonly status?: ComponentChildren;
}

/** Edits it; a click on what is wrong goes to its line. */
export function Editor({
  label,
  text,
  change,
  marks = [],
  isReadOnly = false,
  status,
}: EditorProps): ComponentChildren {
  const area = useRef<HTMLTextAreaElement>(null);
  const gutter = useRef<HTMLPreElement>(null);
  const lines = useMemo(() => text.split('\n').length, [text]);
  const wrong = new Map(marks.map((mark) => [mark.line, mark.message]));
  function follow(): void {
    if (gutter.current !== null && area.current !== null) gutter.current.scrollTop = area.current.scrollTop;
  }
  // A text that is replaced may scroll.
  useEffect(follow, [text]);
  function goTo({ line, column }: Mark): void {
    const field = area.current;
    if (field === null) return;
    const before = text.split('\n').slice(0, line - 1);
    const start = before.reduce((sum, each) => sum + each.length + 1, 0) + column - 1;
    field.focus();
    field.setSelectionRange(start, start);
    const height = field.scrollHeight / Math.max(1, lines);
    field.scrollTop = Math.max(0, (line - 6) * height);
    follow();
  }
  return html`<div class="editor">
    <div class="code-area">
      <pre class="gutter" ref=${gutter} aria-hidden="true">${numbers(lines, wrong)}</pre>
      <textarea ref=${area} aria-label=${label} aria-invalid=${marks.length > 0 ? 'true' : undefined} class="mono" spellcheck=${false} autocomplete="off" autocapitalize="off" wrap="off" readonly=${isReadOnly} value=${text} onScroll=${follow} onInput=${(event: Event) => change(valueOf(event))}></textarea>
    </div>
    <div class="marks" role="status">
      ${marks.map((mark) => html`<button type="button" class="mark" key=${`${mark.line} ${mark.column} ${mark.message}`} onClick=${() => goTo(mark)}><strong>Line ${mark.line}</strong> ${mark.path !== '' && html`<code>${mark.path}</code> `}${mark.message}</button>`)}
      ${marks.length === 0 && status}
    </div>
  </div>`;
}

/** One text for lines that are right, a mark for those that are not. */
function numbers(lines: number, wrong: ReadonlyMap<number, string>): ComponentChildren[] {
  const parts: ComponentChildren[] = [];
  let plain = '';
  for (let line = 1; line <= lines; line++) {
    const message = wrong.get(line);
    if (message === undefined) plain += `${line}\n`;
    else {
      parts.push(plain, html`<span class="bad" title=${message} key=${line}>${line}</span>`, '\n');
      plain = '';
    }
  }
  return [...parts, plain];
}
