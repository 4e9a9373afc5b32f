/**
 * The mail that thanks the visitor. It goes to an address that anybody may have typed, so nothing that was typed is in it
 * unless its template asks for it, and no program answers it (RFC 3834).
 */
import type { Mail } from '../mail/compose.ts';
import { firstLine, messageIdOf, renderMail, senderOf, variablesOf, type FormMail } from './form-mail.ts';
import type { AcknowledgmentSource } from './stored.ts';

/** The acknowledgment to `to`; answers go to `replyTo`. */
export async function acknowledgment(mail: FormMail, { to, replyTo }: AcknowledgmentSource): Promise<Mail> {
  const { message, form } = mail;
  const { from_name: fromName, acknowledgment: config } = form.config;
  const variables = variablesOf(mail);
  const rendered = await renderMail(mail, variables, { type: 'acknowledgment', lines: [config?.subject] });
  const subjects = [...rendered.lines, rendered.subject];
  // An expression in the sender's name is there for the notification: it would bring the visitor's words in here.
  const plainName = fromName === undefined || fromName.includes('{') ? undefined : fromName;
  return {
    from: { name: firstLine([plainName], form.name), address: senderOf(mail) },
    to: [{ address: to }],
    replyTo: replyTo === undefined ? undefined : [{ address: replyTo }],
    subject: firstLine(subjects, 'We have received your message'),
    text: rendered.text,
    html: rendered.html,
    date: message.created_at,
    messageId: messageIdOf(mail),
    headers: [
      ['Auto-Submitted', 'auto-replied'],
      ['X-Auto-Response-Suppress', 'All'],
    ],
  };
}
