/** Mail that no person wrote: nothing answers it by itself, or two machines would talk for ever (RFC 3834 §2). */
import { valueOf, type Field } from './header.ts';

/** Whether the header says that it is an answer, a report, or of a list. */
export function isAutomatic(fields: readonly Field[]): boolean {
  return fields.some((field) => {
    const { name } = field;
    switch (name) {
      case 'auto-submitted':
        return firstWord(field) !== 'no';
      case 'precedence':
        return ['bulk', 'list', 'junk'].includes(firstWord(field));
      case 'content-type':
        return firstWord(field) === 'multipart/report';
      default:
        return name.startsWith('list-');
    }
  });
}

/**
 * Whether the header is one of a delivery report or an automatic answer: a `multipart/report` (RFC 6522), or what mail
 * systems write that know of none (RFC 3834, Exim's field, the name that qmail and Sendmail give themselves).
 */
export function isReport(fields: readonly Field[]): boolean {
  return fields.some((field) => {
    switch (field.name) {
      case 'content-type':
        return firstWord(field) === 'multipart/report';
      case 'auto-submitted':
        return firstWord(field) !== 'no';
      case 'precedence':
        return firstWord(field) === 'auto_reply';
      case 'x-failed-recipients':
      case 'x-autoreply':
      case 'x-autorespond':
        return true;
      case 'from':
        return MAIL_SYSTEM.test(valueOf(field).replaceAll('\r\n', ''));
      default:
        return false;
    }
  });
}

/** `MAILER-DAEMON@mx.example.org (Mail Delivery System)`, `Mail Delivery Subsystem <MAILER-DAEMON>`, `<>` */
const MAIL_SYSTEM =
  /^[^<>@,]{0,200}<(?:(?:mailer-daemon|postmaster)(?:@[^<>@,]*)?)?>\s*$|^\s*(?:mailer-daemon|postmaster)(?:@[^\s<>@,]*)?\s*(?:\([^()<>@]*\)\s*)?$/i;

/** In lower case, without comments and parameters. */
function firstWord(field: Field): string {
  const [, word = ''] = /^(?:\s|\([^()]*\))*([^\s;()]*)/.exec(valueOf(field)) ?? [];
  return word.toLowerCase();
}
