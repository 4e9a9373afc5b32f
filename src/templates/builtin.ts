/**
 * The built-in templates: the notification of a submission and its acknowledgment. They are functions and not Liquid,
 * because they make most of the mail, in a tenth of the time, and can neither fail nor exceed a limit.
 */
import { type Language, type Translation, translationOf } from '../languages/languages.ts';
import { escapeHtml } from '../lib/html.ts';
import { htmlLines, indent, isEmpty, printable, squish } from './liquid.ts';
import type { Rendered, Variables } from './template.ts';

/** `language` among the variables says in which. */
export type Builtin = (variables: Variables) => Rendered;

/** The mail about a submission. */
export function notificationMail(variables: Variables, language: Language): Rendered {
  const translation = translationOf(language);
  return {
    text: textOf(variables, translation),
    html: page(shown(variables, 'form_name'), rowsOf(variables, translation), translation),
  };
}

/** It holds nothing that the visitor wrote: it cannot be used to send text to a stranger's address. */
export function acknowledgmentMail(variables: Variables, language: Language): Rendered {
  const translation = translationOf(language);
  const { say } = translation;
  const domain = printable(variables['domain']);
  const subject = say('acknowledgment.subject');
  const [title, received] = [say('acknowledgment.title'), say('acknowledgment.received', { domain })];
  const reason = say('acknowledgment.reason', { domain });
  const thanks = [
    `<div class="text" style="${ACKNOWLEDGMENT_TITLE}">${escapeHtml(title)}</div>`,
    `<div class="text" style="${VALUE}">${escapeHtml(received)}</div>`,
  ];
  const rows = [
    row('cell', '28px 28px 24px', thanks),
    row('cell line', `16px 28px 22px;${LINE}`, [muted(SMALL, escapeHtml(reason))]),
  ];
  return {
    subject,
    text: `${title}\n\n${received}\n\n----\n${reason}\n`,
    html: page(escapeHtml(subject), rows.join('\n'), translation),
  };
}

const FONT = "font-family:-apple-system,'Segoe UI',Roboto,Helvetica,Arial,sans-serif";
/** Text, muted text and hairlines. Classes repeat the colours, so that a dark scheme can replace them. */
const TEXT = 'color:#1c2127';
const MUTED = 'color:#5f6b77';
const LINE = 'border-top:1px solid #e4e7eb';

const LABEL = `padding-bottom:3px;font-size:13px;line-height:18px;overflow-wrap:anywhere;${MUTED};${FONT}`;
const VALUE = `font-size:16px;line-height:24px;word-break:break-word;overflow-wrap:anywhere;${TEXT};${FONT}`;
const SMALL = `font-size:13px;line-height:20px;word-break:break-word;overflow-wrap:anywhere;${MUTED};${FONT}`;
const TITLE = `font-size:22px;line-height:30px;font-weight:600;word-break:break-word;${TEXT};${FONT}`;

function textOf(variables: Variables, { say, size }: Translation): string {
  const files = listOf(variables, 'files');
  const fields = listOf(variables, 'fields').map((field) => `${squish(field['label'])}\n${indent(valueOf(field))}\n\n`);
  const names = files.map((file) => `  ${squish(file['filename'])} (${size(Number(file['size']))})\n`);
  const { form_name: formName, domain, timestamp, ip, referer } = variables;
  return (
    `${say('mail.subject', { form: squish(formName) })}\n\n${fields.join('')}` +
    (names.length === 0 ? '' : `${say('mail.files')}\n${names.join('')}\n`) +
    `----\n${printable(domain)}, ${printable(timestamp)}\n` +
    (isEmpty(ip) ? '' : `${say('mail.ip', { ip: printable(ip) })}\n`) +
    (isEmpty(referer) ? '' : `${say('mail.page', { url: squish(referer) })}\n`)
  );
}

function rowsOf(variables: Variables, { say, size }: Translation): string {
  const name = shown(variables, 'form_name');
  const files = listOf(variables, 'files').map(
    (file) =>
      `${shown(file, 'filename')} <span class="muted" style="font-size:13px;color:#5f6b77">(${size(Number(file['size']))})</span>`,
  );
  const source = [
    say('mail.source', {
      form: printable(variables['form_name']),
      domain: printable(variables['domain']),
      time: printable(variables['timestamp']),
    }),
    ...(isEmpty(variables['ip']) ? [] : [say('mail.ip', { ip: printable(variables['ip']) })]),
    ...(isEmpty(variables['referer']) ? [] : [say('mail.page', { url: printable(variables['referer']) })]),
  ];
  const title = `<div class="text" dir="auto" style="${TITLE}">${name}</div>`;
  return [
    row('cell', '26px 28px 20px', [muted(LABEL, escapeHtml(say('mail.newSubmission'))), title]),
    ...listOf(variables, 'fields').map((field) =>
      fieldRow(shown(field, 'label'), htmlLines(escapeHtml(printable(valueOf(field))))),
    ),
    ...(files.length === 0 ? [] : [fieldRow(escapeHtml(say('mail.files')), files.join('<br>'))]),
    row('cell line', `16px 28px 22px;${LINE}`, [muted(SMALL, source.map(escapeHtml).join('<br>'))]),
  ].join('\n');
}

function fieldRow(label: string, value: string): string {
  const shown = `<div class="text" dir="auto" style="${VALUE}">${value}</div>`;
  return row('cell line', `14px 28px;${LINE}`, [muted(LABEL, label), shown]);
}

function muted(style: string, content: string): string {
  return `<div class="muted" style="${style}">${content}</div>`;
}

function row(classes: string, padding: string, content: readonly string[]): string {
  return `<tr>\n<td class="${classes}" style="padding:${padding}">\n${content.join('\n')}\n</td>\n</tr>`;
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

const ACKNOWLEDGMENT_TITLE = `padding-bottom:10px;font-size:22px;line-height:30px;font-weight:600;${TEXT};${FONT}`;

const DARK: readonly (readonly [name: string, rule: string])[] = [
  ['page', 'background-color:#14171a!important'],
  ['card', 'background-color:#1f2428!important;border-color:#363c43!important'],
  ['text', 'color:#e7eaee!important'],
  ['muted', 'color:#9fa9b4!important'],
  ['line', 'border-color:#363c43!important'],
];

/**
 * The frame of the HTML mails: tables and inline styles for Outlook, one column that shrinks on a phone, and dark colours
 * where the reader's program asks for them (Apple Mail; Outlook by the attributes that it sets, in a style of their own
 * because Gmail drops a whole style that it does not understand; Gmail darkens by itself).
 */
function page(title: string, rows: string, { language, direction }: Translation): string {
  const [start = '', head = '', body = '', table = '', end = ''] = FRAME;
  // On the table as well: Gmail drops what stands on html and body.
  const attributes = ` lang="${language}" dir="${direction}"`;
  return start + attributes + head + title + body + attributes + table + rows + end;
}

const GAP = '\0';
const FRAME = `<!DOCTYPE html>
<html${GAP}>
  <head>
    <meta charset="utf-8">
    <meta name="viewport" content="width=device-width,initial-scale=1">
    <meta name="color-scheme" content="light dark">
    <meta name="supported-color-schemes" content="light dark">
    <meta name="format-detection" content="telephone=no,date=no,address=no">
    <title>${GAP}</title>
    <style>
      :root{color-scheme:light dark;supported-color-schemes:light dark}
      @media (prefers-color-scheme:dark){
        ${DARK.map(([name, rule]) => `.${name}{${rule}}`).join('\n        ')}
      }
      @media (max-width:480px){
        .page{padding:0!important}
        .card{border-width:0!important;border-radius:0!important}
        .cell{padding-left:20px!important;padding-right:20px!important}
      }
    </style>
    <style>
      ${DARK.map(([name, rule]) => `[data-ogsc] .${name},[data-ogsb] .${name}{${rule}}`).join('\n      ')}
    </style>
  </head>
  <body class="page" style="margin:0;padding:0;background-color:#f3f5f7">
    <table class="page" role="presentation" width="100%" cellpadding="0" cellspacing="0" border="0" style="background-color:#f3f5f7">
      <tr>
        <td class="page" align="center" style="padding:24px 12px">
          <!--[if mso]><table role="presentation" width="600" cellpadding="0" cellspacing="0" border="0"><tr><td><![endif]-->
          <table class="card"${GAP} role="presentation" width="100%" cellpadding="0" cellspacing="0" border="0" style="max-width:600px;background-color:#ffffff;border:1px solid #e4e7eb;border-radius:8px;border-collapse:separate;table-layout:fixed;${FONT}">
${GAP}
          </table>
          <!--[if mso]></td></tr></table><![endif]-->
        </td>
      </tr>
    </table>
  </body>
</html>
`
  // What indents the lines here would be an eighth of each mail.
  .replaceAll(/\n +/g, '\n')
  .split(GAP);

/** Characters of all labels and values that a built-in template shows, so that every mail server takes its mail. */
const MAX_CHARACTERS = 1 << 18;
const MAX_LABEL_CHARACTERS = 200;

/** The variables themselves, or ones in which each label and value of `fields` is cut to an equal share. */
export function bounded(variables: Variables, language: Language): Variables {
  const fields = variables['fields'];
  if (!Array.isArray(fields)) return variables;
  const all = fields.map((field: unknown) => ({ label: partOf(field, 'label'), value: partOf(field, 'value') }));
  if (all.reduce((sum, { label, value }) => sum + label.length + value.length, 0) <= MAX_CHARACTERS) return variables;
  const share = Math.floor(MAX_CHARACTERS / all.length);
  const { say } = translationOf(language);
  return {
    ...variables,
    fields: all.map(({ label, value }) => ({
      label: cut(label, Math.min(share, MAX_LABEL_CHARACTERS), say),
      value: cut(value, share, say),
    })),
  };
}

function partOf(field: unknown, name: 'label' | 'value'): string {
  return typeof field === 'object' && field !== null && name in field ? printable(Reflect.get(field, name)) : '';
}

function cut(text: string, max: number, say: Translation['say']): string {
  if (text.length <= max) return text;
  const start = text.slice(0, max).replace(/[\uD800-\uDBFF]$/, '');
  return `${start}… [${say('mail.cut', { count: text.length - start.length })}]`;
}
