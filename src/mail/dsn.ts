/**
 * Delivery status notifications (RFC 3464): a `multipart/report` (RFC 6522) of words for a person, fields for a program,
 * and the header lines of what could not be delivered, never its body. All of it is 7-bit ASCII in short lines whatever
 * the original and the servers' words hold. The same report gives the same bytes.
 */
import { hash } from 'node:crypto';
import { asciiAddress, needsSmtpUtf8 } from '../lib/addresses.ts';
import { cleanText, dateHeader, mailboxHeader, mailDate, textHeader } from './header.ts';
import { quotedPrintable } from './compose.ts';

export interface FailedRecipient {
  /** As the sender named it. */
  readonly address: string;
  /** The words for which it failed: `550 5.1.1 no such user`. */
  readonly reply: string;
  /** Name of the server that said them; null where nobody but us has said anything. */
  readonly remote: string | null;
  /** When it was last tried, ms. */
  readonly at: number;
}

export interface DeliveryReport {
  /** Who says so: our host name. */
  readonly hostname: string;
  /** The envelope sender of the original. */
  readonly to: string;
  /** At least one. */
  readonly failed: readonly FailedRecipient[];
  /** When the original came in, ms. */
  readonly arrived: number;
  /** Header lines of the original with their CRLF, one character a byte; never bare CR or LF. */
  readonly headers: string;
  /** Milliseconds. */
  readonly date: number;
  /** With its angle brackets; nobody else may know it before. */
  readonly messageId: string;
}

const MAX_REPLY_LENGTH = 900;
/** The same for all, so that lists know it before the report is made. */
export const DSN_SUBJECT = 'Your message could not be delivered';

/** The whole message, to be sent with the null sender. Throws where `to` is no address. */
export function deliveryReport(report: DeliveryReport): Buffer {
  const { hostname, to, messageId, date } = report;
  const boundary = `=_report_${hash('sha256', messageId).slice(0, 32)}`;
  const head = [
    dateHeader(date),
    `Message-ID: ${messageId}\r\n`,
    mailboxHeader('From', [{ name: 'Mail Delivery System', address: `MAILER-DAEMON@${hostname}` }]),
    mailboxHeader('To', [{ address: to }]),
    `Subject: ${DSN_SUBJECT}\r\n`,
    // RFC 3834 §5: nothing answers this automatically.
    'Auto-Submitted: auto-replied\r\n',
    'MIME-Version: 1.0\r\n',
    `Content-Type: multipart/report; report-type=delivery-status;\r\n boundary="${boundary}"\r\n`,
  ].join('');
  const parts = [words(report), statusFields(report), originalHeaders(report.headers)];
  return Buffer.concat([
    Buffer.from(head),
    ...parts.flatMap((part) => [Buffer.from(`\r\n--${boundary}\r\n`), part]),
    Buffer.from(`\r\n--${boundary}--\r\n`),
  ]);
}

/** The status code (RFC 3463) that a reply has, else that of its class. */
export function statusOf(reply: string): string {
  const [, code = '5', enhanced] = /^([245])\d\d(?:[ -]([245]\.\d{1,3}\.\d{1,3})(?!\S))?/.exec(reply) ?? [];
  return enhanced ?? `${code}.0.0`;
}

function words({ hostname, failed, arrived }: DeliveryReport): Buffer {
  const text = [
    `This is the mail server ${hostname}.`,
    '',
    `Your message of ${mailDate(arrived)} could not be delivered:`,
    ...failed.flatMap(({ address, reply, remote }) => [
      '',
      address,
      `    ${remote === null ? '' : `${remote} said: `}${plainWords(reply)}`,
    ]),
    '',
    'Delivery will not be retried. The header of your message is below.',
    '',
  ].join('\r\n');
  const head = 'Content-Type: text/plain; charset=utf-8\r\nContent-Transfer-Encoding: quoted-printable\r\n\r\n';
  return Buffer.concat([Buffer.from(head), quotedPrintable(Buffer.from(text))]);
}

/** RFC 3464 §2.2 for the message, §2.3 for each recipient. */
function statusFields({ hostname, failed, arrived }: DeliveryReport): Buffer {
  const message = `Reporting-MTA: dns; ${hostname}\r\nArrival-Date: ${mailDate(arrived)}\r\n`;
  const recipients = failed.map(
    ({ address, reply, remote, at }) =>
      textHeader('Final-Recipient', typedAddress(address)) +
      `Action: failed\r\nStatus: ${statusOf(reply)}\r\n` +
      (remote === null ? '' : textHeader('Remote-MTA', `dns; ${plainWords(remote)}`)) +
      textHeader('Diagnostic-Code', `${remote === null ? 'X-Postern' : 'smtp'}; ${plainWords(reply)}`) +
      `Last-Attempt-Date: ${mailDate(at)}\r\n`,
  );
  return Buffer.from(`Content-Type: message/delivery-status\r\n\r\n${[message, ...recipients].join('\r\n')}`);
}

/** RFC 6522 §4; its encoding is 7bit unless the header lines are not. */
function originalHeaders(headers: string): Buffer {
  const type = 'Content-Type: text/rfc822-headers\r\n';
  const fits = /^[\t\r\n -~]*$/.test(headers) && headers.split('\r\n').every((line) => line.length <= 998);
  if (fits) return Buffer.from(`${type}\r\n${headers}`);
  const encoded = quotedPrintable(Buffer.from(headers, 'latin1'));
  return Buffer.concat([Buffer.from(`${type}Content-Transfer-Encoding: quoted-printable\r\n\r\n`), encoded]);
}

/** RFC 6533 §3: an address beyond ASCII in a report that is 7-bit. */
function typedAddress(address: string): string {
  return needsSmtpUtf8(address) ? `utf-8; ${asciiAddress(address)}` : `rfc822; ${address}`;
}

/** One line of ASCII that a header shows as it is. */
function plainWords(reply: string): string {
  return cleanText(reply, MAX_REPLY_LENGTH)
    .replaceAll(/[^ -~]/g, '?')
    .replaceAll(/ {2,}/g, ' ')
    .replaceAll('=?', '= ?');
}
