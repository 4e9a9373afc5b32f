/** The mail that brings a submission to the owner of the form. */
import { needsSmtpUtf8 } from '../lib/addresses.ts';
import type { Attachment, Mail } from '../mail/compose.ts';
import type { FileRow } from '../store/tables.ts';
import { emailOf, replyToOf, type Field } from './fields.ts';
import { firstLine, messageIdOf, renderMail, senderOf, variablesOf, type FormMail } from './form-mail.ts';

/** The notification, to `to`, with these attachments; `smtpUtf8`: for servers that take addresses beyond ASCII in it. */
export async function notification(
  mail: FormMail,
  { to, smtpUtf8 }: { readonly to: readonly string[]; readonly smtpUtf8: boolean },
  attachments: readonly Attachment[],
): Promise<Mail> {
  const { message, control, form } = mail;
  const replyTo = answersGoTo(mail, smtpUtf8);
  const variables = variablesOf(mail, unseenReplyTo(mail, replyTo));
  const { subject, from_name } = form.config;
  const rendered = await renderMail(mail, variables, { type: 'form', lines: [subject, from_name] });
  const [line, fromName] = rendered.lines;
  const subjects = [line, rendered.subject, control.subject];
  return {
    from: { name: fromName ?? form.name, address: senderOf(mail) },
    to: to.map((address) => ({ address })),
    replyTo: replyTo === undefined ? undefined : [{ address: replyTo }],
    subject: firstLine(subjects, `New submission: ${form.name}`),
    text: rendered.text,
    html: rendered.html,
    date: message.created_at,
    messageId: messageIdOf(mail),
    headers: [['Auto-Submitted', 'auto-generated']],
    attachments,
  };
}

/**
 * The visitor (through the relay where the form has it), while `replies` is true, else the form's `replyTo`. An address
 * that needs SMTPUTF8 stands in the text alone where the server does not take it: it would refuse the whole mail.
 */
function answersGoTo(mail: FormMail, smtpUtf8: boolean): string | undefined {
  const { form, relay } = mail;
  const visitor = visitorOf(mail);
  if (visitor === undefined) return form.config.replyTo;
  if (needsSmtpUtf8(visitor)) return smtpUtf8 ? visitor : form.config.replyTo;
  return relay ?? visitor;
}

/** The visitor's address, where answers go to him. */
function visitorOf({ form, fields, control }: FormMail): string | undefined {
  return form.config.replies ? (replyToOf(control) ?? emailOf(fields, form.config)) : undefined;
}

/** Whether answers go to an address beyond ASCII, which not all servers take. */
export function hasInternationalVisitor(mail: FormMail): boolean {
  return needsSmtpUtf8(visitorOf(mail) ?? '');
}

/** `_replyto` is no data, but where it is all that is known of the visitor and no header has it, it must be seen. */
function unseenReplyTo({ form, fields, control }: FormMail, replyTo: string | undefined): Field[] {
  const visitor = replyToOf(control);
  if (visitor === undefined || visitor === replyTo || emailOf(fields, form.config) === visitor) return [];
  return [['email', visitor]];
}

/** The same mail without attachments, which are named instead: the lead arrives whatever was uploaded. */
export function withoutAttachments(mail: Mail, files: readonly FileRow[], submission: string): Mail {
  if (files.length === 0) return mail;
  const names = files.map(({ filename, size }) => `${filename === '' ? 'a file' : filename} (${shown(size)})`);
  const note = `The files of this submission are too big for one mail and are kept on the server (${submission}): ${names.join(', ')}.`;
  const { text = '', html } = mail;
  return {
    ...mail,
    attachments: [],
    text: `${text.trimEnd()}\n\n${note}\n`,
    html: html === undefined ? undefined : withNote(html, note),
  };
}

/** What is left when even the fields are too big for one mail: the beginning of the text, at most `bytes` of UTF-8. */
export function shortened(mail: Mail, bytes: number, submission: string): Mail {
  const start = Buffer.from(mail.text ?? '')
    .subarray(0, bytes)
    .toString();
  const note = `This submission is too big for one mail. The whole of it is kept on the server (${submission}).`;
  return { ...mail, attachments: [], text: `${note}\n\n${start}\n\n[…]\n`, html: undefined };
}

function withNote(html: string, note: string): string {
  const escaped = note.replaceAll(/[&<>"']/g, (char) => `&#${char.charCodeAt(0)};`);
  const paragraph = `<p style="margin:16px;font-family:sans-serif;font-size:14px">${escaped}</p>`;
  const end = html.toLowerCase().lastIndexOf('</body');
  return end === -1 ? html + paragraph : html.slice(0, end) + paragraph + html.slice(end);
}

function shown(bytes: number): string {
  return bytes < 1_048_576 ? `${Math.ceil(bytes / 1024)} KiB` : `${(bytes / 1_048_576).toFixed(1)} MiB`;
}
