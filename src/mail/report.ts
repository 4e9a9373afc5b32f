/**
 * What a mail system sends back: delivery status notifications (RFC 3464), feedback reports (RFC 5965), bounces in words
 * alone, and automatic answers, which are none of these. Everything in it is a stranger's: time is linear in the bytes
 * that are read, whatever they are, and what it means is for the caller to decide.
 */
import { bounceMeaning, statusIn, type BounceMeaning } from './bounce-class.ts';
import { cleanText } from './header.ts';
import {
  decoded,
  firstOf,
  inCharset,
  partsOf,
  readFields,
  textOf,
  withLf,
  type Fields,
  type Message,
  type ParsedRecipient,
  type Part,
  type Report,
  type ReportedRecipient,
} from './report-parts.ts';
import { readJsonReport } from './report-json.ts';
import { groupsOf, isFromSystem, isOriginal, isTelling, noticeOf, recipientsInText } from './report-text.ts';

/** How much of a message is read: what a report says stands before the message that it is about. */
export const MAX_REPORT_BYTES = 256 * 1024;

const MAX_RECIPIENTS = 100;
const MAX_TEXT_LENGTH = 500;
/** How a message begins within a text. */
const MBOX_LINE = /^From \S+ /m;
const AUTOMATIC_SUBJECT =
  /^(?:auto(?:matic)?[ -]?(?:reply|response|answer)|automatische antwort|out of (?:the )?office)/i;

/** Reads the beginning of a message: at most MAX_REPORT_BYTES of it. */
export function readReport(bytes: Uint8Array): Report {
  const { buffer, byteOffset, length } = bytes;
  const text = Buffer.from(buffer, byteOffset, Math.min(length, MAX_REPORT_BYTES)).toString('latin1');
  const message = partsOf(withLf(text));
  const { whole, leaves } = message;
  const complaint = readComplaint(whole, leaves);
  if (complaint !== undefined) return complaint;
  const [first] = leaves;
  const json = first === undefined ? undefined : readJsonReport(textOf(first));
  if (json !== undefined) {
    return json.kind === 'bounce'
      ? { ...json, recipients: json.recipients.slice(0, MAX_RECIPIENTS).map((one) => clean(one)) }
      : json;
  }
  const recipients = recipientsOf(message);
  if (recipients.length > 0) return { kind: 'bounce', recipients };
  const isReceipt = leaves.some(({ type }) => /^message\/(?:global-)?disposition-notification$/.test(type));
  return { kind: isReceipt || isAutomatic(whole.fields) ? 'automatic' : 'unknown' };
}

function recipientsOf(message: Message): readonly ReportedRecipient[] {
  const notice = noticeOf(message.leaves);
  const recipients = parseRecipients(message, notice);
  const isClear = recipients.some(({ diagnostic }) => isTelling(diagnostic));
  const inner = isClear ? undefined : innerReport(message);
  if (inner !== undefined) return parseRecipients(inner, noticeOf(inner.leaves)).map((one) => clean(one));
  return recipients.map((one) => clean(one, recipients.length === 1 ? notice : ''));
}

/** The report that a gateway passes on in a notice of its own: as the returned message, or within the text. */
function innerReport(message: Message): Message | undefined {
  const { leaves } = message;
  if (!isFromSystem(message) || leaves.some(isStatus)) return undefined;
  const original = leaves.find(isOriginal);
  const body = leaves[0]?.body ?? '';
  const start = body.search(MBOX_LINE);
  const inner = partsOf(original === undefined ? body.slice(start < 0 ? body.length : start) : decoded(original));
  return inner.leaves.some(isStatus) ? inner : undefined;
}

function isStatus({ type }: Part): boolean {
  return /^message\/(?:global-)?delivery-status$/.test(type);
}

/** What the fields for programs say, and where they are silent, the words for people. */
function parseRecipients(message: Message, notice: string): readonly ParsedRecipient[] {
  const status = message.leaves.find(isStatus);
  const isNotice = isFromSystem(message);
  // Lists and gateways take the types from the parts, and leave the fields.
  const inNotice = isNotice ? notice.replaceAll(/^[ \t]+(?=[\w-]+:)/gm, '') : '';
  const fields = status === undefined ? inNotice : decoded(status);
  const parsed = groupsOf(fields)
    .slice(0, MAX_RECIPIENTS + 1)
    .flatMap(readRecipient)
    .slice(0, MAX_RECIPIENTS);
  const inText =
    isNotice && (parsed.length === 0 || parsed.some(isVague)) ? recipientsInText(message.whole.fields, notice) : [];
  if (parsed.length === 0) return inText;
  return parsed.map((recipient) => withWords(recipient, inText, parsed.length === 1));
}

/** Exim writes `Status: 5.0.0` without a word; Postfix says only in the text what a reply was to. */
function isVague({ diagnostic, status }: ParsedRecipient): boolean {
  return diagnostic === '' || !/^[245]\.\d/.test(status) || bounceMeaning({ words: diagnostic, status }).suppress;
}

function withWords(recipient: ParsedRecipient, inText: readonly ParsedRecipient[], isOnly: boolean): ParsedRecipient {
  const named = new Set([recipient.address, recipient.original].map((address) => address.toLowerCase()));
  const said =
    inText.find(({ address }) => address !== '' && named.has(address.toLowerCase())) ??
    (isOnly ? inText[0] : undefined);
  if (said === undefined) return recipient;
  const [context] = /\(in reply to (?!rcpt)[a-z ]{1,30}\)/i.exec(said.diagnostic) ?? [];
  const isSilent = recipient.diagnostic === '' || bounceMeaning({ words: recipient.diagnostic }).class === 'unknown';
  if (isSilent) {
    const diagnostic = `${recipient.diagnostic} ${said.diagnostic}`.trim();
    return {
      ...recipient,
      diagnostic,
      status: exactStatus(recipient.status, diagnostic),
      action: recipient.action || said.action,
    };
  }
  return context === undefined ? recipient : { ...recipient, diagnostic: `${recipient.diagnostic} ${context}` };
}

/** RFC 5965; what Outlook.com sends is the message alone, with fields of its own; Apple Mail unsubscribes by a message. */
function readComplaint(whole: Part, leaves: readonly Part[]): Report | undefined {
  const feedback = leaves.find(({ type }) => type === 'message/feedback-report');
  const inner = leaves.find(isOriginal);
  const original = inner === undefined ? undefined : readFields(headOf(decoded(inner)));
  const outlook = (original?.get('x-hmxmroriginalrecipient') ?? []).map((value) => words(addressOf(value)));
  if (feedback === undefined) {
    if (outlook.length > 0) return { kind: 'complaint', feedback: 'abuse', recipients: outlook };
    return whole.fields.has('x-apple-unsubscribe')
      ? { kind: 'complaint', feedback: 'opt-out', recipients: [] }
      : undefined;
  }
  const fields = readFields(decoded(feedback));
  const named = ['original-rcpt-to', 'removal-recipient'].flatMap((name) => fields.get(name) ?? []);
  const recipients = named.length > 0 ? named.map((value) => words(addressOf(value))) : outlook;
  const type = words(firstOf(fields, 'feedback-type').toLowerCase());
  return { kind: 'complaint', feedback: type, recipients: recipients.slice(0, MAX_RECIPIENTS) };
}

function headOf(message: string): string {
  const end = message.indexOf('\n\n');
  return end < 0 ? message : message.slice(0, end);
}

function readRecipient(fields: Fields): ParsedRecipient[] {
  const address = addressOf(firstOf(fields, 'final-recipient'));
  const original = addressOf(firstOf(fields, 'original-recipient'));
  const [word = ''] = /^[a-z]+/.exec(firstOf(fields, 'action').toLowerCase()) ?? [];
  const action = word === 'failure' || word === 'error' ? 'failed' : word;
  if (address === '' && original === '' && action === '') return [];
  const diagnostic = untyped(firstOf(fields, 'diagnostic-code'));
  const status = exactStatus(firstOf(fields, 'status'), diagnostic);
  const remote = words(untyped(firstOf(fields, 'remote-mta')));
  return [
    { address: words(address), original: words(original), action, status, diagnostic: words(diagnostic), remote },
  ];
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
  return value.slice(/^[\w/-]+\s*;/.exec(value)?.[0].length ?? 0).trim();
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

/** Of a long text the part in which a server speaks. */
function clean(recipient: ParsedRecipient, notice = ''): ReportedRecipient {
  const { address, original, diagnostic, remote } = recipient;
  const start =
    diagnostic.length > MAX_TEXT_LENGTH ? Math.max(0, diagnostic.search(/(?<![\d.])[45][0-7]\d[ -]/) - 100) : 0;
  return {
    ...recipient,
    address: cleanText(address, MAX_TEXT_LENGTH),
    original: cleanText(original, MAX_TEXT_LENGTH),
    diagnostic: cleanText(diagnostic.slice(start), MAX_TEXT_LENGTH),
    remote: cleanText(remote, MAX_TEXT_LENGTH),
    meaning: meaningOf(recipient, notice),
  };
}

/** A notice that speaks of a full or disabled mailbox wins over fields that say there is none: some mix two failures. */
function meaningOf({ diagnostic, status }: ParsedRecipient, notice: string): BounceMeaning {
  const meaning = bounceMeaning({ words: diagnostic, status });
  const inNotice = meaning.suppress && notice !== '' ? bounceMeaning({ words: notice }) : meaning;
  return inNotice.class === 'mailbox_full' || inNotice.class === 'disabled' ? inNotice : meaning;
}

/** One line of text that was Latin-1 here and is UTF-8 as a rule. */
function words(text: string): string {
  return cleanText(inCharset(text.slice(0, 2 * MAX_TEXT_LENGTH)), MAX_TEXT_LENGTH);
}

// What a report says, as far as it can be read.
