/** Code for web pages: a form with the address, the fields and the honeypot that its configuration has. */

export const STYLES = ['html', 'fetch', 'formspree'] as const;

export type Style = (typeof STYLES)[number];

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

/** The code, with a line break at its end. */
export function snippetOf(form: SnippetForm, style: Style): string {
  switch (style) {
    case 'html':
      return markup(form, style);
    case 'fetch':
      return `${markup(form, style)}${fetchScript(idOf(form))}`;
    case 'formspree':
      return `<div data-fs-success></div>\n<div data-fs-error></div>\n${markup(form, style)}${formspreeScript(form)}`;
  }
}

function markup(form: SnippetForm, style: Style): string {
  const { endpoint, fields, honeypot } = form;
  const attributes = [
    ...(style === 'html' ? [] : [`id="${idOf(form)}"`]),
    `action="${escaped(endpoint)}"`,
    'method="post"',
    ...(fields.some((field) => field.type === 'file') ? ['enctype="multipart/form-data"'] : []),
  ];
  return `<form ${attributes.join(' ')}>
${fields.map((field) => fieldMarkup(field, style === 'formspree')).join('')}\
  <!-- People do not see this field; who fills it in is no person. -->
  <div style="position: absolute; left: -9999px" aria-hidden="true">
    <label>Leave this empty <input name="${escaped(honeypot)}" tabindex="-1" autocomplete="off" /></label>
  </div>
  <p><button type="submit"${style === 'formspree' ? ' data-fs-submit-btn' : ''}>Send</button></p>
${style === 'fetch' ? '  <p role="status"></p>\n' : ''}</form>
`;
}

/** With the marks by which the clients of Formspree find fields, where they are wanted. */
function fieldMarkup(field: SnippetField, isFormspree: boolean): string {
  const { name, type, options: [value = type === 'hidden' ? '' : 'yes'] = [] } = field;
  if (type === 'hidden') return `  <input type="hidden" name="${escaped(name)}" value="${escaped(value)}" />\n`;
  if (type === 'checkbox') {
    const attributes = [
      `name="${escaped(name)}"`,
      `value="${escaped(value)}"`,
      ...(field.isRequired ? ['required'] : []),
    ];
    return `  <p>
    <label><input type="checkbox" ${attributes.join(' ')} /> ${escaped(field.label)}</label>
  </p>
`;
  }
  const error = `    <span data-fs-error="${escaped(field.name)}"></span>\n`;
  const control = controlLines(field, isFormspree ? ['data-fs-field'] : []).map((line) => `      ${line}\n`);
  return `  <p>
    <label>
      ${escaped(field.label)}<br />
${control.join('')}    </label>
${isFormspree ? error : ''}  </p>
`;
}

/** Types whose inputs take a length and a pattern. */
const MEASURED: ReadonlySet<string> = new Set(['text', 'textarea', 'email', 'url', 'tel']);

function controlLines(field: SnippetField, marks: readonly string[]): string[] {
  const { name, type, isRequired, max, pattern, options } = field;
  const attributes = [`name="${escaped(name)}"`, ...(isRequired ? ['required'] : []), ...marks];
  if (options !== undefined) {
    const several = type === 'list' ? ['multiple'] : [];
    // Else the first is chosen before anybody has looked.
    const nothing = type === 'list' ? [] : ['  <option value=""></option>'];
    const choices = options.map((option) => `  <option>${escaped(option)}</option>`);
    return [`<select ${[...attributes, ...several].join(' ')}>`, ...nothing, ...choices, '</select>'];
  }
  const length = max === undefined || !MEASURED.has(type) ? [] : [`maxlength="${max}"`];
  if (type === 'textarea' || (type === 'text' && pattern === undefined && isLong(field))) {
    return [`<textarea ${[...attributes, ...length, 'rows="6"'].join(' ')}></textarea>`];
  }
  const shape = pattern === undefined || !MEASURED.has(type) ? [] : [`pattern="${escaped(pattern)}"`];
  const kind = type === 'list' ? 'text' : type;
  const several = type === 'file' ? ['multiple'] : [];
  const filling = AUTOCOMPLETE.get(name);
  const autocomplete = filling === undefined ? [] : [`autocomplete="${filling}"`];
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
      status.textContent = 'It could not be sent. Please try again.';
    }
    button.disabled = false;
  });
</script>
`;
}

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
