/** How a mail or a page of a form looks, from the deployed configuration or from one that is being typed. */
import type { formTools } from '../../contract/forms.ts';
import type { AnswerOf } from '../../contract/route.ts';
import type { submissions } from '../../contract/submissions.ts';
import { call } from '../api.ts';
import { useLoaded } from '../data.ts';
import { html, type ComponentChildren, useEffect, useRef, useState } from '../lib.ts';
import { Ready, Tabs } from './basics.ts';
import { Field, Select } from './fields.ts';

type Shown = AnswerOf<typeof formTools.preview>;
type Submission = AnswerOf<typeof submissions.list>['submissions'][number];
type Show = 'notification' | 'acknowledgment' | 'confirmation' | 'thank_you' | 'error';

const SHOWS: readonly (readonly [Show, string])[] = [
  ['notification', 'Notification to you'],
  ['acknowledgment', 'Acknowledgment to the visitor'],
  ['confirmation', 'Confirmation email (double opt-in)'],
  ['thank_you', 'Thank-you page'],
  ['error', 'Error page'],
];

interface PreviewProps {
  readonly form: string;
  /** A configuration that is not deployed. */
  readonly bundle?: { readonly config: string; readonly files: Readonly<Record<string, string>> } | undefined;
}

const SAMPLE = 'sample';
const OWN = 'own';

/** Chooses what to look at, with a sample, with one's own words, or with what a visitor sent. */
export function Preview({ form, bundle }: PreviewProps): ComponentChildren {
  const [show, setShow] = useState<string>('notification');
  const [source, setSource] = useState<string>(SAMPLE);
  const [text, setText] = useState('name: Ada Lovelace\nemail: ada@example.com\nmessage: Hello');
  const latest = useLoaded(`latest ${form}`, async (signal) => {
    const parts = { params: { form }, query: { limit: LATEST }, signal };
    return (await call<typeof submissions.list>('GET /forms/*form/submissions', parts)).submissions;
  });
  const fields = source === OWN ? fieldsOf(text) : {};
  const data = source === OWN ? { fields } : source === SAMPLE ? {} : { submission: source };
  const body = { show, ...bundle, ...data };
  const loaded = useLoaded(JSON.stringify([form, show, source]), (signal) => request(form, body, signal));
  const settled = useSettled(JSON.stringify([bundle, fields]));
  const isFirst = useRef(true);
  useEffect(() => {
    if (!isFirst.current && fields !== undefined) loaded.reload();
    isFirst.current = false;
  }, [settled]);
  const sources = [[SAMPLE, 'Sample data'], [OWN, 'Your own data'], ...(latest.data ?? []).map(named)] as const;
  return html`<div class="preview">
    <div class="filters">
      <${Select} label="What to show" value=${show} change=${setShow} options=${SHOWS} />
      <${Select} label="Data" value=${source} change=${setSource} options=${sources} />
    </div>
    ${source === OWN && html`<${Field} label="Fields" rows=${5} value=${text} change=${setText} fault=${fields === undefined ? 'Enter one field per line, such as name: Ada' : undefined} hint="One field per line." />`}
    <${Ready} of=${loaded} lines=${6}>
      ${(shown: Shown) => html`<${Rendered} shown=${shown} />`}
    <//>
  </div>`;
}

/** So many submissions are offered. */
const LATEST = 20;
const MAX_NAME = 40;
const day = new Intl.DateTimeFormat(undefined, { dateStyle: 'medium', timeStyle: 'short' });

function named({ id, fields, created_at: at }: Submission): [id: string, name: string] {
  const [first = ''] = [fields['name'] ?? fields['email'] ?? Object.values(fields)[0] ?? ''].flat();
  return [id, `${first.slice(0, MAX_NAME)} (${day.format(new Date(at))})`];
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

/** Fields from lines; undefined where there are none, or one of them names no field. */
function fieldsOf(text: string): Readonly<Record<string, string>> | undefined {
  const lines = text.split('\n').filter((line) => line.trim() !== '');
  const pairs = lines.map((line) => /^\s*([^:]{1,200}?)\s*:\s*(.*)$/.exec(line));
  if (pairs.length === 0 || pairs.includes(null)) return undefined;
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
        <p><strong>${isNothing ? 'The configuration cannot be used yet.' : 'A template failed. The built-in template is shown.'}</strong></p>
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
