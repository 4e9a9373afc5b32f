/**
 * What a mail system sends back: delivery status notifications (RFC 3464), feedback reports (RFC 5965), bounces in words
 * alone, and automatic answers, which are none of these. Everything in it is a stranger's: time is linear in the bytes
 * that are read, whatever they are, and what it means is for the caller to decide.
 */
import { cleanText } from './header-text.ts';
import { decoded, firstOf, partsOf, readFields, withLf, type Fields, type Part } from './report-parts.ts';
import type { Report, ReportedRecipient } from './report-shapes.ts';
import { recipientsInText, statusIn } from './report-text.ts';

export type { Report, ReportedRecipient };

/** How much of a message is read: what a report tells stands before the message that it is about. */
export const MOST_REPORT_BYTES = 256 * 1024;

const MOST_RECIPIENTS = 100;
const LONGEST_WORDS = 500;
const AUTOMATIC_SUBJECT =
  /^(?:auto(?:matic)?[ -]?(?:reply|response|answer)|automatische antwort|out of (?:the )?office)/i;

/** Reads the beginning of a message: at most MOST_REPORT_BYTES of it. */
export function readReport(bytes: Uint8Array): Report {
  const { buffer, byteOffset, length } = bytes;
  const text = Buffer.from(buffer, byteOffset, Math.min(length, MOST_REPORT_BYTES)).toString('latin1');
  const { whole, leaves } = partsOf(withLf(text));
  const complaint = leaves.find(({ type }) => type === 'message/feedback-report');
  if (complaint !== undefined) return readComplaint(complaint);
  const status = leaves.find(({ type }) => /^message\/(?:global-)?delivery-status$/.test(type));
  const told = status === undefined ? [] : groupsOf(decoded(status)).flatMap(readRecipient);
  const recipients = told.length > 0 ? told : recipientsInText(whole, leaves);
  if (recipients.length > 0) return { kind: 'bounce', recipients: recipients.slice(0, MOST_RECIPIENTS).map(clean) };
  const isReceipt = leaves.some(({ type }) => /^message\/(?:global-)?disposition-notification$/.test(type));
  return { kind: isReceipt || isAutomatic(whole.fields) ? 'automatic' : 'unknown' };
}

function readComplaint(part: Part): Report {
  const fields = readFields(decoded(part));
  const named = [...(fields.get('original-rcpt-to') ?? []), ...(fields.get('removal-recipient') ?? [])];
  const recipients = named.slice(0, MOST_RECIPIENTS).map((value) => words(addressOf(value)));
  return { kind: 'complaint', feedback: words(firstOf(fields, 'feedback-type').toLowerCase()), recipients };
}

/** RFC 3464 §2.1: groups of fields with empty lines between them; the first is of the whole message. */
function groupsOf(text: string): Fields[] {
  const groups: string[][] = [[]];
  for (const line of text.split('\n')) {
    if (line.trim() === '') groups.push([]);
    else groups.at(-1)?.push(line);
  }
  return groups.filter((lines) => lines.length > 0).map((lines) => readFields(lines.join('\n')));
}

function readRecipient(fields: Fields): ReportedRecipient[] {
  const address = addressOf(firstOf(fields, 'final-recipient'));
  const original = addressOf(firstOf(fields, 'original-recipient'));
  const [action = ''] = /^[a-z]+/.exec(firstOf(fields, 'action').toLowerCase()) ?? [];
  if (address === '' && original === '' && action === '') return [];
  const diagnostic = untyped(firstOf(fields, 'diagnostic-code'));
  const status = exactStatus(firstOf(fields, 'status'), diagnostic);
  return [{ address, original, action, status, diagnostic, remote: untyped(firstOf(fields, 'remote-mta')) }];
}

/** Some servers put their own class in the field, and the other side's status into its words. */
function exactStatus(field: string, diagnostic: string): string {
  const [status = ''] = /^[245]\.\d{1,3}\.\d{1,3}(?!\.?\d)/.exec(field) ?? [];
  const said = statusIn(diagnostic);
  const isVague = status === '' || (status.endsWith('.0.0') && said.startsWith(status.charAt(0)));
  return isVague && said !== '' ? said : status;
}

/** `rfc822; ana@example.org` */
function addressOf(value: string): string {
  const [type = ''] = value.split(';', 1);
  const text = untyped(value).replace(/^</, '').replace(/>$/, '');
  return /^utf-8$/i.test(type.trim()) ? text.replaceAll(/\\x\{([\dA-F]{1,6})\}/gi, unescaped) : text;
}

/** RFC 6533 §3. */
function unescaped(escape: string, hex: string): string {
  const point = Number.parseInt(hex, 16);
  return point > 0x10ffff ? escape : Buffer.from(String.fromCodePoint(point)).toString('latin1');
}

/** What follows the type. */
function untyped(value: string): string {
  return value.slice(/^[\w-]+\s*;/.exec(value)?.[0].length ?? 0).trim();
}

/** RFC 3834, and what was usual before it. */
function isAutomatic(fields: Fields): boolean {
  const submitted = firstOf(fields, 'auto-submitted').toLowerCase();
  return (
    (submitted !== '' && !submitted.startsWith('no')) ||
    ['x-autoreply', 'x-autorespond', 'x-auto-reply', 'x-auto-response-suppress'].some((name) => fields.has(name)) ||
    /^(?:auto_reply|bulk|junk|list)\b/i.test(firstOf(fields, 'precedence')) ||
    AUTOMATIC_SUBJECT.test(firstOf(fields, 'subject'))
  );
}

function clean(recipient: ReportedRecipient): ReportedRecipient {
  const { address, original, action, status, diagnostic, remote } = recipient;
  return {
    address: words(address),
    original: words(original),
    action,
    status,
    diagnostic: words(diagnostic),
    remote: words(remote),
  };
}

/** One line of text that was Latin-1 here and is UTF-8 as a rule. */
function words(text: string): string {
  return cleanText(Buffer.from(text.slice(0, 2 * LONGEST_WORDS), 'latin1').toString(), LONGEST_WORDS);
}
