/** The notification for forms without a template of their own: each field with its label, the files, where it came from. */
import { escapeHtml, filesize, htmlLines, indent, isEmpty, printable, squish } from '../filters.ts';
import type { Builtin, Variables } from '../template.ts';
import { createPage, FONT, LINE, MUTED, TEXT } from './page.ts';

const LABEL = `padding-bottom:3px;font-size:13px;line-height:18px;overflow-wrap:anywhere;${MUTED};${FONT}`;
const VALUE = `font-size:16px;line-height:24px;word-break:break-word;overflow-wrap:anywhere;${TEXT};${FONT}`;
const SMALL = `font-size:13px;line-height:20px;word-break:break-word;overflow-wrap:anywhere;${MUTED};${FONT}`;
const TITLE = `font-size:22px;line-height:30px;font-weight:600;word-break:break-word;${TEXT};${FONT}`;

/** Without a subject: the form's, or the visitor's, or the one made from the form's name stands. */
export function defaultBuiltin(): Builtin {
  const page = createPage();
  return (variables) => ({ text: textOf(variables), html: page(shown(variables, 'form_name'), rowsOf(variables)) });
}

function textOf(variables: Variables): string {
  const files = listOf(variables, 'files');
  const fields = listOf(variables, 'fields').map(
    (field) => `${squish(field['label'])}\n${indent(printable(valueOf(field)))}\n\n`,
  );
  const names = files.map((file) => `  ${squish(file['filename'])} (${filesize(file['size'])})\n`);
  const { form_name: formName, domain, timestamp, ip, referer } = variables;
  return (
    `${squish(formName)}: new submission\n\n${fields.join('')}` +
    (names.length === 0 ? '' : `Files\n${names.join('')}\n`) +
    `----\n${printable(domain)}, ${printable(timestamp)}\n` +
    (isEmpty(ip) ? '' : `IP address ${printable(ip)}\n`) +
    (isEmpty(referer) ? '' : `Page ${squish(referer)}\n`)
  );
}

function rowsOf(variables: Variables): string {
  const name = shown(variables, 'form_name');
  const files = listOf(variables, 'files').map(
    (file) =>
      `${shown(file, 'filename')} <span class="muted" style="font-size:13px;color:#5f6b77">(${filesize(file['size'])})</span>`,
  );
  const source = [
    `${name} on ${shown(variables, 'domain')}, ${shown(variables, 'timestamp')}`,
    ...(isEmpty(variables['ip']) ? [] : [`IP address ${shown(variables, 'ip')}`]),
    ...(isEmpty(variables['referer']) ? [] : [`Page ${shown(variables, 'referer')}`]),
  ];
  const rows = [
    `<tr>
<td class="cell" style="padding:26px 28px 20px">
<div class="muted" style="${LABEL}">New submission</div>
<div class="text" style="${TITLE}">${name}</div>
</td>
</tr>`,
    ...listOf(variables, 'fields').map((field) =>
      row(shown(field, 'label'), htmlLines(escapeHtml(printable(valueOf(field))))),
    ),
    ...(files.length === 0 ? [] : [row('Files', files.join('<br>'))]),
    `<tr>
<td class="cell line" style="padding:16px 28px 22px;${LINE}">
<div class="muted" style="${SMALL}">${source.join('<br>')}</div>
</td>
</tr>`,
  ];
  return rows.join('\n');
}

function row(label: string, value: string): string {
  return `<tr>
<td class="cell line" style="padding:14px 28px;${LINE}">
<div class="muted" style="${LABEL}">${label}</div>
<div class="text" dir="auto" style="${VALUE}">${value}</div>
</td>
</tr>`;
}

function listOf(variables: Variables, name: string): readonly Variables[] {
  const list = variables[name];
  return Array.isArray(list)
    ? list.filter((item: unknown): item is Variables => typeof item === 'object' && item !== null)
    : [];
}

function valueOf(field: Variables): unknown {
  return isEmpty(field['value']) ? '—' : field['value'];
}

function shown(variables: Variables, name: string): string {
  return escapeHtml(printable(variables[name]));
}
