/** What the console says of what was done: short messages at the bottom, with Undo where there is one, and questions before what cannot be undone. */
import { ApiError } from '../api.ts';
import { html, type ComponentChildren, createChange, useEffect, useRef, useState } from '../lib.ts';

interface Message {
  readonly id: number;
  readonly text: string;
  readonly tone: 'good' | 'bad';
  readonly undo?: (() => void) | undefined;
}

interface Question {
  readonly title: string;
  /** What will happen. */
  readonly text: ComponentChildren;
  /** On the button: `Revoke key`. */
  readonly action: string;
  /** What has to be typed first, for what is worst. */
  readonly type?: string | undefined;
  readonly answer: (yes: boolean) => void;
}

const SHOWN_MS = 8000;
let messages: readonly Message[] = [];
let question: Question | undefined;
let last = 0;
const change = createChange();

/** Says what was done. `undo`: offers to take it back. */
export function say(
  text: string,
  { undo, tone = 'good' }: { readonly undo?: () => void; readonly tone?: 'good' | 'bad' } = {},
): void {
  const message = { id: ++last, text, tone, undo };
  messages = [...messages.slice(-2), message];
  change.notify();
  setTimeout(() => dismiss(message.id), SHOWN_MS);
}

/** Does something of the API, says what was done (with Undo, where there is a way back), and says why where it failed; answers whether it was done. */
export async function doing(work: () => Promise<unknown>, done: string, undo?: () => void): Promise<boolean> {
  try {
    await work();
    say(done, undo === undefined ? {} : { undo });
    return true;
  } catch (error) {
    if (!(error instanceof ApiError)) throw error;
    say(error.requestId === undefined ? error.message : `${error.message} (${error.requestId})`, { tone: 'bad' });
    return false;
  }
}

/** Asks before what cannot be undone: names the thing, and says what will happen. */
export function confirm(asked: Omit<Question, 'answer'>): Promise<boolean> {
  return new Promise((resolve) => {
    question = {
      ...asked,
      answer(yes) {
        question = undefined;
        change.notify();
        resolve(yes);
      },
    };
    change.notify();
  });
}

function dismiss(id: number): void {
  messages = messages.filter((message) => message.id !== id);
  change.notify();
}

/** Where messages and questions appear; once on every page. */
export function Messages(): ComponentChildren {
  change.use();
  return html`<div class="messages" role="status" aria-live="polite">
      ${messages.map(
        ({ id, text, tone, undo }) =>
          html`<div class="said ${tone}" key=${id}>
            <span>${text}</span>
            ${
              undo &&
              html`<button type="button" class="quiet small" onClick=${() => (undo(), dismiss(id))}>Undo</button>`
            }
            <button type="button" class="quiet small" aria-label="Dismiss" onClick=${() => dismiss(id)}>✕</button>
          </div>`,
      )}
    </div>
    ${question && html`<${QuestionDialog} of=${question} />`}`;
}

const YES = 'yes';

function QuestionDialog({ of }: { readonly of: Question }): ComponentChildren {
  const dialog = useRef<HTMLDialogElement>(null);
  const [typed, setTyped] = useState('');
  useEffect(() => dialog.current?.showModal(), []);
  const { title, text, action, type, answer } = of;
  // Gone only once it is closed: the browser gives the focus back to where it was.
  return html`<dialog ref=${dialog} aria-labelledby="asked" onClose=${() => answer(dialog.current?.returnValue === YES)}>
    <form method="dialog">
      <h2 id="asked">${title}</h2>
      <div>${text}</div>
      ${
        type !== undefined &&
        html`<label>Type <code>${type}</code> to continue
        <input autocomplete="off" value=${typed} onInput=${(event: InputEvent) => setTyped(event.target instanceof HTMLInputElement ? event.target.value : '')}
      /></label>`
      }
      <div class="actions">
        <button type="button" class="quiet" onClick=${() => dialog.current?.close()}>Cancel</button>
        <button class="danger" value=${YES} disabled=${type !== undefined && typed !== type}>${action}</button>
      </div>
    </form>
  </dialog>`;
}
