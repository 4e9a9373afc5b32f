/**
 * The built-in templates: the notification of a submission and its acknowledgment. They are functions and not Liquid,
 * because they make most of the mail, in a tenth of the time, and can neither fail nor exceed a limit. Their language is that
 * of the variable `language`.
 */
import { isLanguage, translationOf, type Translation } from '../languages/languages.ts';
import { escapeHtml } from '../lib/html.ts';
import { htmlLines, indent, isEmpty, printable, squish } from './liquid.ts';
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

// What the HTML mails look like: their frame, rows and text styles, in the reader's colours, language and direction.

const FONT = "font-family:-apple-system,'Segoe UI',Roboto,Helvetica,Arial,sans-serif";
/** Text, muted text, links and hairlines. Classes repeat the colours, so that a dark scheme can replace them. */
const TEXT = 'color:#1c2127';
const MUTED = 'color:#5f6b77';
const LINK = 'color:#2456d6';
const LINE = 'border-top:1px solid #e4e7eb';
const BREAKS = 'word-break:break-word;overflow-wrap:anywhere';

const LABEL = `padding-bottom:3px;font-size:13px;line-height:18px;overflow-wrap:anywhere;${MUTED};${FONT}`;
const VALUE = `font-size:16px;line-height:24px;${BREAKS};${TEXT};${FONT}`;
const SMALL = `font-size:13px;line-height:20px;${BREAKS};${MUTED};${FONT}`;
const TITLE = `padding-bottom:4px;font-size:22px;line-height:30px;font-weight:600;word-break:break-word;${TEXT};${FONT}`;

// Each takes HTML.

export function titleText(content: string): string {
  return written('text', TITLE, content);
}

export function labelText(content: string): string {
  return `<div class="muted" style="${LABEL}">${content}</div>`;
}

/** What somebody wrote, in whatever direction that is read. */
export function valueText(content: string): string {
  return written('text', VALUE, content);
}

/** A line or so stands under its label; a text begins where its own language does. */
function written(classes: string, style: string, content: string): string {
  const LINE_LENGTH = 80;
  const isLine = !content.includes('<br') && content.replaceAll(/<[^>]*>/g, '').length <= LINE_LENGTH;
  return isLine
    ? `<div class="${classes}" style="${style}"><span dir="auto">${content}</span></div>`
    : `<div class="${classes}" dir="auto" style="${style}">${content}</div>`;
}

/** A paragraph in words of ours. */
export function bodyText(content: string): string {
  return `<div class="text" style="${VALUE}">${content}</div>`;
}

export function smallText(content: string): string {
  return `<div class="muted" style="${SMALL}">${content}</div>`;
}

/** Muted text within other text. */
function muted(content: string): string {
  return `<span class="muted" style="font-size:13px;${MUTED}">${content}</span>`;
}

export function link(url: string, content: string): string {
  return `<a class="link" href="${escapeHtml(url)}" style="${LINK};text-decoration:underline">${content}</a>`;
}

/** A link that is the one thing to do. */
export function buttonLink(url: string, content: string): string {
  return `<div style="padding:20px 0 6px"><a href="${escapeHtml(url)}" style="display:inline-block;padding:12px 24px;border-radius:8px;background-color:#2456d6;color:#ffffff;font-size:16px;line-height:24px;font-weight:600;text-decoration:none;${FONT}">${content}</a></div>`;
}

/** Links beside one another, or below where there is no room: with a gap that leaves nothing at the end of a line. */
export function links(all: readonly string[]): string {
  return all.map((one) => `<span style="display:inline-block;padding:4px 0">${one}</span>`).join('&emsp; ');
}

/** The first row of a mail. */
export function firstRow(content: readonly string[]): string {
  return tableRow('cell', '26px 28px 20px', content);
}

/** A row under a line. */
export function row(content: readonly string[]): string {
  return tableRow('cell line', `14px 28px;${LINE}`, content);
}

/** The last row. */
export function lastRow(content: readonly string[]): string {
  return tableRow('cell line', `16px 28px 22px;${LINE}`, content);
}

function tableRow(classes: string, padding: string, content: readonly string[]): string {
  return `<tr>\n<td class="${classes}" style="padding:${padding}">\n${content.join('\n')}\n</td>\n</tr>`;
}

const DARK: readonly (readonly [name: string, rule: string])[] = [
  ['page', 'background-color:#14171a!important'],
  ['card', 'background-color:#1f2428!important;border-color:#363c43!important'],
  ['text', 'color:#e7eaee!important'],
  ['muted', 'color:#9fa9b4!important'],
  ['line', 'border-color:#363c43!important'],
  ['link', 'color:#86a8ff!important'],
];

/**
 * The frame of the HTML mails: tables and inline styles for Outlook, one column that shrinks on a phone, and dark colours
 * where the reader's program asks for them (Apple Mail; Outlook by the attributes that it sets, in a style of their own
 * because Gmail drops a whole style that it does not understand; Gmail darkens by itself).
 */
export function mailPage(title: string, rows: readonly string[], { language, direction }: Translation): string {
  const [start = '', head = '', body = '', table = '', end = ''] = FRAME;
  // On the table as well: Gmail drops what stands on html and body.
  const attributes = ` lang="${language}" dir="${direction}"`;
  return start + attributes + head + escapeHtml(title) + body + attributes + table + rows.join('\n') + end;
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

// What a notification calls the visitor in its sender and its subject. Mail programs show the sender's name in place of the
// address, so that no address and no link may be there, and always whose form it came by.

/** A field as it was sent. */
type VisitorField = readonly [name: string, value: string | readonly string[]];

/** Of a whole name, in the order in which they are looked for; written in lower case, without what is not a letter. */
const NAMES = [
  'name fullname yourname contactname visitorname customername realname displayname',
  'vollständigername ihrname dername nom nomcomplet votrenom nombre nombrecompleto nome nomecompleto naam volledigenaam imięinazwisko imieinazwisko jméno jmeno namn navn nimi isim adsoyad імя имя الاسم שם お名前 氏名 名前 姓名 이름 성함',
].flatMap((line) => line.split(' '));
const GIVEN =
  'firstname givenname fname forename first vorname prénom prenom nombres voornaam imię imie förnamn fornavn etunimi'.split(
    ' ',
  );
const FAMILY =
  'lastname familyname lname surname last nachname familienname apellido apellidos cognome sobrenome achternaam nazwisko příjmení prijmeni efternamn efternavn sukunimi soyad'.split(
    ' ',
  );
const OF_NAMES: ReadonlySet<string> = new Set([...NAMES, ...GIVEN, ...FAMILY]);

const MAX_FIELD_NAME = 100;
const MAX_NAME_CHARACTERS = 60;
const MAX_SUBJECT_CHARACTERS = 150;

/**
 * What the visitor calls himself, from the fields that forms have for it: one bounded line for a header. Undefined where
 * there is none, or what is there is an address or a link: mail programs show a name in place of the sender's address.
 */
export function visitorName(fields: readonly VisitorField[]): string | undefined {
  const values = new Map<string, string | undefined>();
  for (const [name, value] of fields) {
    const key = plain(name);
    if (OF_NAMES.has(key) && values.get(key) === undefined) values.set(key, nameText([value].flat().join(' ')));
  }
  const [whole, given, family] = [NAMES, GIVEN, FAMILY].map((names) =>
    names.map((name) => values.get(name)).find((value) => value !== undefined),
  );
  return whole ?? nameText([given, family].filter((part) => part !== undefined).join(' '));
}

function plain(name: string): string {
  return name
    .slice(0, MAX_FIELD_NAME)
    .normalize('NFC')
    .toLowerCase()
    .replaceAll(/[^\p{L}\p{M}]/gu, '');
}

function nameText(text: string): string | undefined {
  const line = text
    // Full-width forms of @ and the like are compatible with it, and look like it.
    .slice(0, 20 * MAX_NAME_CHARACTERS)
    .normalize('NFKC')
    .replaceAll(/[\p{C}\p{Z}\s]+/gu, (gap) => (/^[\u200c\u200d]+$/u.test(gap) ? gap : ' '))
    .trim();
  if (line === '' || /[@\\<>]|:\/\/|\bwww\./iu.test(line) || !/\p{L}/u.test(line)) return undefined;
  const characters = Array.from(line);
  return characters.length <= MAX_NAME_CHARACTERS ? line : `${characters.slice(0, MAX_NAME_CHARACTERS - 1).join('')}…`;
}

/** The text of the field `subject`, on one line. */
export function visitorSubject(fields: readonly VisitorField[]): string | undefined {
  const [, value = ''] = fields.find(([name]) => plain(name) === 'subject') ?? [];
  const line = [value]
    .flat()
    .join(', ')
    .slice(0, 20 * MAX_SUBJECT_CHARACTERS)
    .replaceAll(/[\p{C}\p{Z}\s]+/gu, ' ')
    .trim();
  return line === '' ? undefined : Array.from(line).slice(0, MAX_SUBJECT_CHARACTERS).join('');
}

/** Whose form it is about, and what is known of the visitor. */
interface SubjectParts {
  readonly form: string;
  /** A name, else an address. */
  readonly visitor: string | undefined;
  /** What the visitor says it is about. */
  readonly about: string | undefined;
}

/** The subject of a notification for which nobody has set one: it tells mails of different visitors apart. */
export function builtinSubject({ form, visitor, about }: SubjectParts, { say }: Translation): string {
  if (visitor !== undefined && about !== undefined) return say('mail.subjectAbout', { form, visitor, subject: about });
  const either = visitor ?? about;
  return either === undefined ? say('mail.subject', { form }) : say('mail.subjectFrom', { form, visitor: either });
}

/** The sender of a notification for which nobody has set a name: "Zoë Müller via Contact". */
export function builtinSender(form: string, visitor: string | undefined, { say }: Translation): string {
  return visitor === undefined ? form : say('mail.sender', { visitor, form });
}
