/** How a mail or a page of a form looks, from the configuration in force or from one that is being typed. */
import type { formTools } from '../../contract/forms.ts';
import type { AnswerOf } from '../../contract/route.ts';
import { call } from '../api.ts';
import { useLoaded } from '../data.ts';
import { html, type ComponentChildren, useEffect, useRef, useState } from '../lib.ts';
import { Ready, Tabs } from './basics.ts';
import { Field, Select } from './fields.ts';

type Shown = AnswerOf<typeof formTools.preview>;
type Show = 'notification' | 'acknowledgment' | 'confirmation' | 'thank_you' | 'error';

const SHOWS: readonly (readonly [Show, string])[] = [
  ['notification', 'Notification to you'],
  ['acknowledgment', 'Acknowledgment to the visitor'],
  ['confirmation', 'Confirmation mail (double opt-in)'],
  ['thank_you', 'Thank-you page'],
  ['error', 'Error page'],
];

interface PreviewProps {
  readonly form: string;
  /** A configuration that is not in force. */
  readonly bundle?: { readonly config: string; readonly files: Readonly<Record<string, string>> } | undefined;
}

/** Chooses what to look at, with data that can be changed. */
export function Preview({ form, bundle }: PreviewProps): ComponentChildren {
  const [show, setShow] = useState<string>('notification');
  const [data, setData] = useState('');
  const fields = fieldsOf(data);
  const body = { show, ...bundle, ...(fields !== undefined && fields !== 'invalid' && { fields }) };
  const loaded = useLoaded(JSON.stringify([form, show]), (signal) => request(form, body, signal));
  const settled = useSettled(JSON.stringify([bundle, data]));
  const isFirst = useRef(true);
  useEffect(() => {
    if (!isFirst.current && fields !== 'invalid') loaded.reload();
    isFirst.current = false;
  }, [settled]);
  return html`<div class="preview">
    <div class="filters">
      <${Select} label="What to show" value=${show} change=${setShow} options=${SHOWS} />
    </div>
    <${Ready} of=${loaded} lines=${6}>
      ${(shown: Shown) => html`<${Rendered} shown=${shown} />`}
    <//>
    <details class="more-fields">
      <summary>Sample data</summary>
      <${Field} label="Fields" rows=${6} value=${data} change=${setData} fault=${fields === 'invalid' ? 'Write one field per line, such as name: Ada' : undefined} placeholder=${'name: Ada Lovelace\nemail: ada@example.com\nmessage: Hello'} hint="One field per line. Empty: a sample of all fields of the form." />
    </details>
  </div>`;
}

function request(form: string, body: object, signal: AbortSignal): Promise<Shown> {
  return call<typeof formTools.preview>('POST /forms/*id/preview', { params: { id: form }, body, signal });
}

const PAUSE_MS = 500;

/** The value once nobody has changed it for a moment. */
function useSettled(value: string): string {
  const [settled, setSettled] = useState(value);
  useEffect(() => {
    const timer = setTimeout(() => setSettled(value), PAUSE_MS);
    return () => clearTimeout(timer);
  }, [value]);
  return settled;
}

/** Fields from lines; undefined where there are none. */
function fieldsOf(text: string): Readonly<Record<string, string>> | undefined | 'invalid' {
  const lines = text.split('\n').filter((line) => line.trim() !== '');
  if (lines.length === 0) return undefined;
  const pairs = lines.map((line) => /^\s*([^:]{1,200}?)\s*:\s*(.*)$/.exec(line));
  if (pairs.includes(null)) return 'invalid';
  return Object.fromEntries(pairs.map((pair) => [pair?.[1] ?? '', pair?.[2] ?? '']));
}

function Rendered({ shown }: { readonly shown: Shown }): ComponentChildren {
  const { errors, from, to, reply_to: replyTo, subject, text, html: page } = shown;
  const [chosen, choose] = useState<'html' | 'text'>('html');
  const isNothing = page === null && text === null;
  const view = page === null ? 'text' : chosen;
  return html`
    ${
      errors.length > 0 &&
      html`<div class="note bad" role="alert">
        <p><strong>${isNothing ? 'The configuration cannot be used yet.' : 'A template failed: the built-in one is shown.'}</strong></p>
        <ul>${errors.map(({ path, line, message, template }) => html`<li key=${`${path} ${line} ${message}`}>${template ?? path} ${template === null && `line ${line}`}: ${message}</li>`)}</ul>
      </div>`
    }
    ${
      subject !== null &&
      html`<dl class="mail-head">
        <dt>From</dt><dd>${from}</dd>
        <dt>To</dt><dd>${to.join(', ')}</dd>
        ${replyTo !== null && html`<dt>Reply to</dt><dd>${replyTo}</dd>`}
        <dt>Subject</dt><dd><strong>${subject}</strong></dd>
      </dl>`
    }
    ${
      text !== null && page !== null
        ? html`<${Tabs} label="Parts of the mail" tabs=${PARTS} chosen=${view} choose=${choose}>${view === 'html' ? html`<${Frame} page=${page} />` : html`<pre class="tall" tabindex="0">${text}</pre>`}<//>`
        : page !== null
          ? html`<${Frame} page=${page} />`
          : text !== null && html`<pre class="tall" tabindex="0">${text}</pre>`
    }`;
}

const PARTS = [
  ['html', 'HTML'],
  ['text', 'Text'],
] as const;

/** HTML that somebody wrote: in a frame of another origin, where nothing runs and nothing is fetched. */
function Frame({ page }: { readonly page: string }): ComponentChildren {
  const frame = useRef<HTMLIFrameElement>(null);
  const isReady = useRef(false);
  function send(): void {
    frame.current?.contentWindow?.postMessage(page, '*');
  }
  useEffect(() => {
    function onMessage({ source, data }: MessageEvent): void {
      if (source === null || source !== frame.current?.contentWindow || data !== 'ready') return;
      isReady.current = true;
      send();
    }
    addEventListener('message', onMessage);
    if (isReady.current) send();
    return () => removeEventListener('message', onMessage);
  }, [page]);
  return html`<iframe ref=${frame} class="mail-frame" title="Preview" sandbox="allow-scripts" src="/console/frame"></iframe>`;
}
