/**
 * The built-in templates: the notification of a submission and its acknowledgment. They are functions and not Liquid,
 * because they make most of the mail, in a tenth of the time, and can neither fail nor exceed a limit. Their language is that
 * of the variable `language`.
 */
import { isLanguage, translationOf, type Translation } from '../languages/languages.ts';
import { escapeHtml } from '../lib/html.ts';
import { htmlLines, indent, isEmpty, printable, squish } from './liquid.ts';
import {
  bodyText,
  firstRow,
  labelText,
  lastRow,
  link,
  links,
  mailPage,
  muted,
  row,
  smallText,
  titleText,
  valueText,
} from './mail-page.ts';
import type { Rendered, Variables } from './template.ts';

export type Builtin = (variables: Variables) => Rendered;

/** The mail about a submission. */
export function notificationMail(variables: Variables): Rendered {
  const translation = languageOf(variables);
  return {
    text: textOf(variables, translation),
    html: mailPage(printable(variables['form_name']), rowsOf(variables, translation), translation),
  };
}

/** It holds nothing that the visitor wrote: it cannot be used to send text to a stranger's address. */
export function acknowledgmentMail(variables: Variables): Rendered {
  const translation = languageOf(variables);
  const { say } = translation;
  const domain = printable(variables['domain']);
  const subject = say('acknowledgment.subject');
  const title = say('acknowledgment.title');
  const received = say('acknowledgment.received', { domain });
  const reason = say('acknowledgment.reason', { domain });
  const rows = [
    firstRow([titleText(escapeHtml(title)), bodyText(escapeHtml(received))]),
    lastRow([smallText(escapeHtml(reason))]),
  ];
  const text = `${title}\n\n${received}\n\n----\n${reason}\n`;
  return { subject, text, html: mailPage(subject, rows, translation) };
}

/** The translation that the variables ask for. */
export function languageOf({ language }: Variables): Translation {
  return translationOf(isLanguage(language) ? language : 'en');
}

/** What stands under the submission: where and when it was sent. */
function sourceOf(variables: Variables, { say }: Translation): string[] {
  const { form_name: form, domain, timestamp, ip, referer } = variables;
  const time = printable(timestamp);
  return [
    say('mail.source', { form: squish(form), domain: printable(domain), time }),
    ...(isEmpty(ip) ? [] : [say('mail.ip', { ip: printable(ip) })]),
    ...(isEmpty(referer) ? [] : [say('mail.page', { url: squish(referer) })]),
  ];
}

/** What the owner can do, with its link. */
function actionsOf(variables: Variables, { say }: Translation): { words: string; url: string }[] {
  const urls = variables['links'];
  if (typeof urls !== 'object' || urls === null) return [];
  return (['view', 'spam', 'stop'] as const).flatMap((name) => {
    const url: unknown = Reflect.get(urls, name);
    return typeof url === 'string' ? [{ words: say(`mail.${name}`), url }] : [];
  });
}

function textOf(variables: Variables, translation: Translation): string {
  const { say, size } = translation;
  const files = listOf(variables, 'files');
  const fields = fieldsOf(variables).map((field) => `${squish(field['label'])}\n${indent(field['value'])}\n\n`);
  const names = files.map((file) => `  ${squish(file['filename'])} (${size(Number(file['size']))})\n`);
  const actions = actionsOf(variables, translation).map(({ words, url }) => `${words}:\n${url}\n`);
  return (
    `${say('mail.subject', { form: squish(variables['form_name']) })}\n\n${fields.join('')}` +
    (names.length === 0 ? '' : `${say('mail.files')}\n${names.join('')}\n`) +
    `----\n${sourceOf(variables, translation).join('\n')}\n` +
    (actions.length === 0 ? '' : `\n${actions.join('')}`)
  );
}

function rowsOf(variables: Variables, translation: Translation): string[] {
  const { say, size } = translation;
  const files = listOf(variables, 'files').map(
    (file) => `<span dir="auto">${shown(file, 'filename')}</span> ${muted(`(${size(Number(file['size']))})`)}`,
  );
  const source = sourceOf(variables, translation).map(escapeHtml).join('<br>');
  const actions = actionsOf(variables, translation).map(({ words, url }) => link(url, escapeHtml(words)));
  return [
    firstRow([labelText(escapeHtml(say('mail.newSubmission'))), titleText(shown(variables, 'form_name'))]),
    ...fieldsOf(variables).map((field) => row([labelText(shown(field, 'label')), valueText(valueOf(field))])),
    ...(files.length === 0 ? [] : [row([labelText(escapeHtml(say('mail.files'))), valueText(files.join('<br>'))])]),
    lastRow([
      smallText(source),
      ...(actions.length === 0 ? [] : [`<div style="padding-top:12px">${smallText(links(actions))}</div>`]),
    ]),
  ];
}

/** The value, which a link to write or call back stands around. */
function valueOf(field: Variables): string {
  const value = htmlLines(shown(field, 'value'));
  const url = printable(field['link']);
  return /^(?:mailto|tel):/.test(url) ? link(url, value) : value;
}

/** Those that were not left empty. */
function fieldsOf(variables: Variables): readonly Variables[] {
  return listOf(variables, 'fields').filter(({ value }) => printable(value).trim() !== '');
}

function listOf(variables: Variables, name: string): readonly Variables[] {
  const list = variables[name];
  return Array.isArray(list)
    ? list.filter((item: unknown): item is Variables => typeof item === 'object' && item !== null)
    : [];
}

function shown(variables: Variables, name: string): string {
  return escapeHtml(printable(variables[name]));
}

/** Characters of all labels and values that a built-in template shows, so that every mail server takes its mail. */
const MAX_CHARACTERS = 1 << 18;
const MAX_LABEL_CHARACTERS = 200;

/** The variables themselves, or ones in which each label and value of `fields` is cut to an equal share. */
export function bounded(variables: Variables): Variables {
  const fields = variables['fields'];
  if (!Array.isArray(fields)) return variables;
  const all = fields.map((field: unknown) => ({ label: partOf(field, 'label'), value: partOf(field, 'value') }));
  if (all.reduce((sum, { label, value }) => sum + label.length + value.length, 0) <= MAX_CHARACTERS) return variables;
  const share = Math.floor(MAX_CHARACTERS / all.length);
  const { say } = languageOf(variables);
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
