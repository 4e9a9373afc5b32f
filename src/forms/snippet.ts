/** Code for web pages: a form with the address, the fields and the honeypot that its configuration has. */
import { labelOf, type Form } from '../config/snapshot.ts';

/** A plain form; one with a script; a React component; for htmx; for the clients of Formspree. */
type SnippetStyle = 'html' | 'fetch' | 'react' | 'htmx' | 'formspree';

export interface SnippetField {
  readonly name: string;
  readonly label: string;
  readonly type:
    'text' | 'textarea' | 'email' | 'url' | 'tel' | 'number' | 'date' | 'checkbox' | 'list' | 'hidden' | 'file';
  readonly isRequired: boolean;
  /** Characters at most. */
  readonly max?: number | undefined;
  readonly pattern?: string | undefined;
  /** The values that may be chosen. */
  readonly options?: readonly string[] | undefined;
}

export interface SnippetForm {
  readonly id: string;
  /** Where it is posted to. */
  readonly endpoint: string;
  readonly fields: readonly SnippetField[];
  /** Name of the field that people do not see. */
  readonly honeypot: string;
}

const DEFAULT_FIELDS = ['name', 'email', 'message'];

/** What a page has to know of a form: the fields that it names, else the usual ones; one for files where it takes them; an address to answer to in any case. */
export function snippetForm({ id, config }: Pick<Form, 'id' | 'config'>, endpoint: string): SnippetForm {
  const { required, fields, uploads, spam_protection } = config;
  const named = [...new Set([...Object.keys(fields), ...required])];
  const names = named.length === 0 ? DEFAULT_FIELDS : named;
  const isAnswerable = names.some((name) => name === 'email' || fields[name]?.type === 'email');
  const all = (isAnswerable ? names : ['email', ...names]).map((name): SnippetField => {
    const { type = name === 'email' ? 'email' : 'text', ...rest } = fields[name] ?? {};
    return { ...rest, name, type, label: labelOf({ fields }, name), isRequired: required.includes(name) };
  });
  const takesFiles = uploads?.enabled === true && !all.some(({ type }) => type === 'file');
  const files = { name: 'files', label: 'Files', type: 'file', isRequired: false } as const;
  return { id, endpoint, fields: takesFiles ? [...all, files] : all, honeypot: spam_protection.honeypot };
}

/** The code, with a line break at its end. */
export function snippetOf(form: SnippetForm, style: SnippetStyle): string {
  switch (style) {
    case 'html':
      return markup(form, style);
    case 'fetch':
      return `${markup(form, style)}${fetchScript(idOf(form))}`;
    case 'react':
      return reactComponent(form);
    case 'htmx':
      return `${HTMX_HEAD}${markup(form, style)}`;
    case 'formspree':
      return `<div data-fs-success></div>\n<div data-fs-error></div>\n${markup(form, style)}${formspreeScript(form)}`;
  }
}

function markup(form: SnippetForm, style: SnippetStyle): string {
  const { endpoint, fields, honeypot } = form;
  const { hidden, comment, status } = style === 'react' ? JSX : HTML;
  const hasFiles = fields.some((field) => field.type === 'file');
  const attributes = [
    ...(style === 'html' || style === 'react' ? [] : [attribute('id', idOf(form), style)]),
    attribute('action', endpoint, style),
    'method="post"',
    ...(hasFiles ? [attribute('enctype', 'multipart/form-data', style)] : []),
    ...(style === 'htmx' ? [attribute('hx-post', endpoint, style), 'hx-swap="outerHTML"'] : []),
    ...(style === 'htmx' && hasFiles ? ['hx-encoding="multipart/form-data"'] : []),
    ...(style === 'react' ? ['onSubmit={send}'] : []),
  ];
  const trap = ['name', 'tabindex', 'autocomplete'].map((name, i) =>
    attribute(name, [honeypot, '-1', 'off'][i] ?? '', style),
  );
  const button = style === 'formspree' ? ' data-fs-submit-btn' : style === 'react' ? ' disabled={isSending}' : '';
  return `<form ${attributes.join(' ')}>
${fields.map((field) => fieldMarkup(field, style)).join('')}\
  ${comment}
  <div ${hidden} aria-hidden="true">
    <label>Leave this empty <input ${trap.join(' ')} /></label>
  </div>
  <p><button type="submit"${button}>Send</button></p>
${style === 'fetch' || style === 'react' ? `  ${status}\n` : ''}</form>
`;
}

const COMMENT = 'People do not see this field; only bots fill it in.';
const HTML = {
  hidden: 'style="position: absolute; left: -9999px"',
  comment: `<!-- ${COMMENT} -->`,
  status: '<p role="status"></p>',
};
const JSX = {
  hidden: "style={{ position: 'absolute', left: '-9999px' }}",
  comment: `{/* ${COMMENT} */}`,
  status: '<p role="status">{status}</p>',
};

/** How JSX spells the attributes that are used here. */
const JSX_NAMES: ReadonlyMap<string, string> = new Map([
  ['enctype', 'encType'],
  ['tabindex', 'tabIndex'],
  ['autocomplete', 'autoComplete'],
  ['maxlength', 'maxLength'],
]);

function attribute(name: string, value: string, style: SnippetStyle): string {
  return `${style === 'react' ? (JSX_NAMES.get(name) ?? name) : name}="${escaped(value)}"`;
}

/** Text between tags; JSX takes what is in braces for code. */
function textOf(text: string, style: SnippetStyle): string {
  const html = escaped(text);
  return style === 'react' ? html.replaceAll('{', '&#123;').replaceAll('}', '&#125;') : html;
}

/** With the marks by which the clients of Formspree find fields, where they are wanted. */
function fieldMarkup(field: SnippetField, style: SnippetStyle): string {
  const { name, type, options: [value = type === 'hidden' ? '' : 'yes'] = [] } = field;
  const named = attribute('name', name, style);
  const valued = attribute('value', value, style);
  if (type === 'hidden') return `  <input type="hidden" ${named} ${valued} />\n`;
  if (type === 'checkbox') {
    const attributes = [named, valued, ...(field.isRequired ? ['required'] : [])];
    return `  <p>
    <label><input type="checkbox" ${attributes.join(' ')} /> ${textOf(field.label, style)}</label>
  </p>
`;
  }
  const error = style === 'formspree' ? `    <span ${attribute('data-fs-error', name, style)}></span>\n` : '';
  const control = controlLines(field, style).map((line) => `      ${line}\n`);
  return `  <p>
    <label>
      ${textOf(field.label, style)}<br />
${control.join('')}    </label>
${error}  </p>
`;
}

/** Types whose inputs take a length and a pattern. */
const MEASURED: ReadonlySet<string> = new Set(['text', 'textarea', 'email', 'url', 'tel']);

function controlLines(field: SnippetField, style: SnippetStyle): string[] {
  const { name, type, isRequired, max, pattern, options } = field;
  const marks = style === 'formspree' ? ['data-fs-field'] : [];
  const attributes = [attribute('name', name, style), ...(isRequired ? ['required'] : []), ...marks];
  if (options !== undefined) {
    const several = type === 'list' ? ['multiple'] : [];
    // Else the first is chosen before anybody has looked.
    const nothing = type === 'list' ? [] : ['  <option value=""></option>'];
    const choices = options.map((option) => `  <option>${textOf(option, style)}</option>`);
    return [`<select ${[...attributes, ...several].join(' ')}>`, ...nothing, ...choices, '</select>'];
  }
  const length = max === undefined || !MEASURED.has(type) ? [] : [attribute('maxlength', String(max), style)];
  if (type === 'textarea' || (type === 'text' && pattern === undefined && isLong(field))) {
    return [`<textarea ${[...attributes, ...length, 'rows="6"'].join(' ')}></textarea>`];
  }
  const shape = pattern === undefined || !MEASURED.has(type) ? [] : [attribute('pattern', pattern, style)];
  const kind = type === 'list' ? 'text' : type;
  const several = type === 'file' ? ['multiple'] : [];
  const filling = AUTOCOMPLETE.get(name);
  const autocomplete = filling === undefined ? [] : [attribute('autocomplete', filling, style)];
  const given = [`type="${kind}"`, ...attributes, ...length, ...shape, ...several, ...autocomplete];
  return [`<input ${given.join(' ')} />`];
}

function isLong({ name, max }: SnippetField): boolean {
  return max === undefined ? /message|comment|text|question|description/i.test(name) : max > 200;
}

/** What browsers fill in by themselves. */
const AUTOCOMPLETE: ReadonlyMap<string, string> = new Map([
  ['name', 'name'],
  ['email', 'email'],
  ['phone', 'tel'],
  ['company', 'organization'],
]);

function fetchScript(id: string): string {
  return `<script type="module">
  const form = document.getElementById('${id}');
  const status = form.querySelector('[role=status]');
  const button = form.querySelector('button');
  form.addEventListener('submit', async (event) => {
    event.preventDefault();
    button.disabled = true;
    status.textContent = 'Sending …';
    try {
      const response = await fetch(form.action, {
        method: 'POST',
        body: new FormData(form),
        headers: { Accept: 'application/json' },
      });
      const answer = await response.json();
      const faults = (answer.errors ?? []).map(({ message }) => message);
      status.textContent = faults.length > 0 ? faults.join(' ') : answer.message;
      if (answer.success) form.reset();
    } catch {
      status.textContent = 'The form could not be sent. Please try again.';
    }
    button.disabled = false;
  });
</script>
`;
}

function reactComponent(form: SnippetForm): string {
  const lines = markup(form, 'react').trimEnd().split('\n');
  return `import { useState } from 'react';

export function ContactForm() {
  const [status, setStatus] = useState('');
  const [isSending, setSending] = useState(false);

  async function send(event) {
    event.preventDefault();
    const form = event.currentTarget;
    setSending(true);
    setStatus('Sending …');
    try {
      const response = await fetch(form.action, {
        method: 'POST',
        body: new FormData(form),
        headers: { Accept: 'application/json' },
      });
      const answer = await response.json();
      const faults = (answer.errors ?? []).map(({ message }) => message);
      setStatus(faults.length > 0 ? faults.join(' ') : answer.message);
      if (answer.success) form.reset();
    } catch {
      setStatus('The form could not be sent. Please try again.');
    }
    setSending(false);
  }

  return (
${lines.map((line) => `    ${line}\n`).join('')}  );
}
`;
}

/** By default htmx sends nothing to other sites, and does not show what was refused. */
const HTMX_HEAD = `<script src="https://unpkg.com/htmx.org@2" defer></script>
<meta
  name="htmx-config"
  content='{"selfRequestsOnly": false, "responseHandling": [{"code": "204", "swap": false}, {"code": "...", "swap": true}]}'
/>
`;

function formspreeScript(form: SnippetForm): string {
  const path = new URL(form.endpoint).pathname;
  const own = [`/f/${form.id}`, `/${encodeURI(form.id)}`].find((end) => path.endsWith(end)) ?? '';
  const settings = { formElement: `#${idOf(form)}`, formId: form.id, origin: form.endpoint.slice(0, -own.length) };
  return `<script>
  window.formspree = window.formspree || function () { (formspree.q = formspree.q || []).push(arguments); };
  formspree('initForm', ${JSON.stringify(settings).replaceAll('<', String.raw`\u003c`)});
</script>
<script src="https://unpkg.com/@formspree/ajax@1" defer></script>
`;
}

/** An id for the page that needs no escaping. */
function idOf({ id }: SnippetForm): string {
  return `form-${id.replaceAll(/[^\w-]+/g, '-')}`;
}

function escaped(text: string): string {
  return text.replaceAll('&', '&amp;').replaceAll('<', '&lt;').replaceAll('>', '&gt;').replaceAll('"', '&quot;');
}
