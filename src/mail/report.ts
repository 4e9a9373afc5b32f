/**
 * What a mail system sends back: delivery status notifications (RFC 3464), feedback reports (RFC 5965), bounces in words
 * alone, and automatic answers, which are none of these. Everything in it is a stranger's: time is linear in the bytes
 * that are read, whatever they are, and what it means is for the caller to decide.
 */
import * as z from 'zod';
import { parseAddress } from '../lib/addresses.ts';
import { bounceMeaning, replyCodeIn, statusIn, type BounceMeaning } from './bounce-class.ts';
import { cleanText, decodeWords } from './header.ts';
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

// Bounces that are written for people alone, as far as they can be read. Their forms are many, and have one thing in common: an address, and near it
// the words of a server. Only what comes from a mail system is read this way, so that no letter about a bounce is one.

const MAX_TEXT = 64 * 1024;
const MAX_LINES = 500;
const MAX_LINE = 1000;
const MAX_WORDS = 2000;
const MAX_BLOCKS = 50;

/** Where the original message begins, in the words of qmail, Exim, sendmail, Exchange, Notes, GMX, OpenSMTPD and others. */
const ORIGINAL =
  /^[\s|-]*(?:below this line is a copy|(?:this|included|below) is a copy of|the (?:body|headers?) of|(?:original|returned|unsent|undelivered|rejected) (?:e-?mail )?(?:message|mail|text|headers?)(?: source| text| headers?)? ?(?:follows|begins|header|attached|:|-)|message (?:text|header|contents) follows?|received: ?(?:from|by) |-+ ?(?:returned|original|unsent|undelivered) message)/i;

const SYSTEM =
  /mailer-?daemon|post_?master|\bmdaemon\b|mail ?(?:delivery|administrator|system|daemon)|delivery (?:subsystem|system)/i;

const SUBJECT =
  /^(?!re:|fwd?:|aw:).*(?:undeliver|non-?deliver|not (?:be )?delivered|delivery (?:status|fail|problem|error|notif|report|incomplete)|returned (?:mail|to sender)|returning message|failure notice|mail (?:failed|failure|error|system error)|message (?:undeliver|not )|unzustellbar|could not (?:send|be delivered)|メールエラー|退信|未送達)/i;

const GIVEN_UP = /giv(?:en|ing) up|permanent (?:error|fail|fatal)|not going to try again|retry time-?out exceeded/i;
const FAILED =
  /(?:was|were|is|be|wasn.t|not) (?:not )?delivered|(?:unable to|could not|couldn.t|cannot|can.t|error) deliver|delivery.{0,60}(?:fail|abort)|did not (?:receive|reach)|failed permanently|giving up/i;
const DELAYED =
  /(?:has been|is|was|being|still) delayed|delayed mail|not yet been delivered|will (?:be retried|keep trying|continue)|still being (?:retried|attempted)|warning (?:message )?only|no action is required|still undelivered/i;

/** Whether a mail system wrote it, as far as From, Subject and what it sends back tell. */
function isFromSystem({ whole: { fields }, leaves }: Message): boolean {
  const from = firstOf(fields, 'from');
  return (
    SYSTEM.test(from) ||
    (/\bno-?reply@/i.test(from) && leaves.some(isOriginal)) ||
    SUBJECT.test(decodeWords(firstOf(fields, 'subject'))) ||
    /^multipart\/report/i.test(firstOf(fields, 'content-type')) ||
    fields.has('x-failed-recipients')
  );
}

/** Whether it is the message that a report is about. */
function isOriginal({ type }: Part): boolean {
  return type === 'message/rfc822' || type === 'text/rfc822-headers';
}

/** What comes before the original message. */
function noticeOf(leaves: readonly Part[]): string {
  const end = leaves.findIndex(isOriginal);
  const parts = leaves.slice(0, end < 0 ? undefined : end);
  const plain = parts.filter(({ type }) => type === 'text/plain');
  const shown = plain.length > 0 ? plain : parts.filter(({ type }) => type.startsWith('text/'));
  const lines: string[] = [];
  const text = (shown.length > 0 ? shown : leaves.slice(0, 1)).map(textOf).join('\n\n');
  for (const line of text.slice(0, MAX_TEXT).split('\n')) {
    if (lines.length === MAX_LINES || ORIGINAL.test(line.slice(0, 200))) break;
    lines.push(line.trimEnd().slice(0, MAX_LINE));
  }
  return lines.join('\n');
}

interface Block {
  readonly address: string;
  readonly original: string;
  readonly words: string;
}

/** Whom the notice of a mail system names, and what it says of each; nobody where it reports no failure. */
function recipientsInText(fields: Fields, notice: string): ParsedRecipient[] {
  const named = (fields.get('x-failed-recipients') ?? []).flatMap(addressesIn);
  const own = new Set(['from', 'to'].flatMap((name) => addressesIn(firstOf(fields, name))).map(lower));
  const blocks = blocksOf(
    notice,
    (address) => own.has(lower(address)) && !named.some((one) => lower(one) === lower(address)),
  );
  const explained = blocks.filter(({ address, words }) => address !== '' && isTelling(words));
  const all = notice.replaceAll(/\s+/g, ' ').trim().slice(0, MAX_WORDS);
  const subject = decodeWords(firstOf(fields, 'subject'));
  const isOver = GIVEN_UP.test(all);
  const isDelayed = !isOver && DELAYED.test(all);
  const isFailed = isOver || FAILED.test(all) || SUBJECT.test(subject);
  function report({ address, original, words }: Block): ParsedRecipient {
    const status = statusIn(words) || statusOfReply(words);
    const action = isDelayed || (status.startsWith('4') && !isFailed) ? 'delayed' : 'failed';
    return {
      address,
      original,
      action,
      status: status || (isDelayed ? '4.0.0' : '5.0.0'),
      diagnostic: words,
      remote: '',
    };
  }
  if (named.length > 0) {
    return named.slice(0, MAX_RECIPIENTS).map((address) => {
      const known = explained.find((block) => [block.address, block.original].map(lower).includes(lower(address)));
      return report({ original: '', words: named.length > 1 && explained.length > 1 ? '' : all, ...known, address });
    });
  }
  if (explained.length > 0) return explained.map(report);
  if (!isTelling(all) && !isDelayed && !isFailed) return [];
  const only = blocks.filter(({ address }) => address !== '').slice(0, 1);
  return [report({ address: '', original: '', ...only[0], words: all })];
}

/** Whether the words say why; those of a footer (`contact postmaster@…`) do not. */
function isTelling(words: string): boolean {
  return statusIn(words) !== '' || replyCodeIn(words) !== '' || bounceMeaning({ words }).class !== 'unknown';
}

function statusOfReply(words: string): string {
  const code = replyCodeIn(words);
  return code === '' ? '' : `${code.charAt(0)}.0.0`;
}

/** A line that begins with an address begins what is said of it; one in the middle only where nothing was said before. */
function blocksOf(notice: string, isOwn: (address: string) => boolean): Block[] {
  const blocks = new Map<string, { address: string; original: string; words: string }>();
  let current = { address: '', original: '', words: '' };
  for (const line of withAnswers(notice.split('\n'))) {
    const [first] = line.includes('@') && !isAboutSender(line) ? addressesIn(line).filter((one) => !isOwn(one)) : [];
    if (first !== undefined && /^\(?(?:(?:ultimately )?generated|expanded) (?:from|by)/i.test(line)) {
      current.original ||= first;
    } else if (first !== undefined && lower(first) !== lower(current.address) && begins(line, first, current)) {
      const known = blocks.get(lower(first));
      current = known ?? { address: first, original: '', words: '' };
      if (known === undefined && blocks.size < MAX_BLOCKS) blocks.set(lower(first), current);
    }
    // In a transcript of sendmail a new code without an address is about another recipient.
    const [code] = /^[45]\d\d(?= )/.exec(line) ?? [];
    if (code !== undefined && first === undefined && !['', code].includes(replyCodeIn(current.words))) {
      current = { address: '', original: '', words: '' };
    }
    if (line !== '' && current.words.length < MAX_WORDS) current.words = `${current.words} ${line}`.trimStart();
  }
  return [...blocks.values()];
}

/**
 * The lines without blanks around them. In a transcript of sendmail the line about a recipient follows the server's words
 * (`<<< 550 no relay`), and may itself say no more than `554 <ana@example.org>... Remote protocol error`.
 */
function withAnswers(lines: readonly string[]): string[] {
  let command = '';
  let answer = '';
  return lines.map((raw) => {
    const line = raw.trim();
    const sent = /^>>> ([a-z]+(?: from| to)?)/i.exec(line)?.[1];
    if (line.startsWith('<<< ')) answer = `${answer} ${line.slice(4)}`.slice(0, MAX_LINE);
    else if (sent !== undefined || !/^[45]\d\d /.test(line)) answer = '';
    command = sent ?? command;
    const isVague = answer !== '' && !line.startsWith('<<< ') && bounceMeaning({ words: line }).class === 'unknown';
    return isVague ? `${line}${answer} (in reply to ${command})` : line;
  });
}

function begins(line: string, address: string, current: Block): boolean {
  if (current.address === '') return true;
  const before = line.slice(0, line.indexOf(address));
  const isFirst =
    /^[^\p{L}\d]*(?:[45]\d\d )?(?:(?:rcpt )?to|recipient|address|recipient address|user)?[^\p{L}\d]*$/iu.test(before);
  return isFirst || (replyCodeIn(line) === '' && isTelling(line) && !isTelling(current.words));
}

function isAboutSender(line: string): boolean {
  return /^(?:from|reply-to|sender|return-path)\b|(?<!in reply to )mail from|postmaster@|mailer-daemon@/i.test(line);
}

function lower(address: string): string {
  return address.toLowerCase();
}

function addressesIn(text: string): string[] {
  return text
    .split(/[\s<>()[\]{};:,"'`|=]/)
    .filter((word) => word.includes('@'))
    .flatMap((word) => parseAddress(word.replace(/^[.*]+/, '').replace(/[.*]+$/, ''))?.address ?? []);
}

/** Groups of status fields (RFC 3464 §2.3); where no empty line divides them, the next recipient begins one. */
function groupsOf(text: string): Fields[] {
  const groups: string[][] = [[]];
  let names = new Set<string>();
  for (const line of text.split('\n')) {
    const [name = ''] = /^(?:final|original)-recipient(?=:)/i.exec(line) ?? [];
    if (line.trim() === '' || names.has(lower(name))) {
      groups.push([]);
      names = new Set();
    }
    if (line.trim() !== '') groups.at(-1)?.push(line);
    if (name !== '') names.add(lower(name));
  }
  return groups.filter((lines) => lines.length > 0).map((lines) => readFields(lines.join('\n')));
}

// Notices that the large senders write as JSON, where they come as mail: Amazon SES (by SNS), SendGrid, Mailgun, Postmark.

const text = z.string().catch('');

const ses = z.object({
  bounce: z
    .object({
      bounceType: text,
      bouncedRecipients: z.array(
        z.object({ emailAddress: z.string(), action: text, status: text, diagnosticCode: text }),
      ),
    })
    .optional(),
  complaint: z
    .object({
      complainedRecipients: z.array(z.object({ emailAddress: z.string() })),
      complaintFeedbackType: z.string().catch('abuse'),
    })
    .optional(),
  notificationType: text,
  eventType: text,
});

const sendGrid = z
  .array(z.object({ email: z.string(), event: z.string(), reason: text, status: text, type: text }))
  .min(1);

const mailgun = z.object({
  'event-data': z.object({
    event: z.string(),
    severity: text,
    recipient: z.string(),
    'delivery-status': z
      .object({ code: z.number().catch(0), message: text, description: text })
      .catch({ code: 0, message: '', description: '' }),
  }),
});

const postmark = z.object({ RecordType: z.string(), Type: text, Email: z.string(), Description: text, Details: text });

type JsonReport =
  { readonly kind: 'bounce'; readonly recipients: readonly ParsedRecipient[] } | Exclude<Report, { kind: 'bounce' }>;

const AUTOMATIC: JsonReport = { kind: 'automatic' };

/** The report in a text that is one JSON value; undefined where it is none, or about something else. */
function readJsonReport(body: string): JsonReport | undefined {
  const start = body.search(/\S/);
  if (start < 0 || (body[start] !== '{' && body[start] !== '[')) return undefined;
  const end = Math.max(body.lastIndexOf('}'), body.lastIndexOf(']'));
  const value = parse(body.slice(start, end + 1));
  return value === undefined ? undefined : readSns(value);
}

/** Mail servers fold long lines, and a JSON string may hold no line end: those are the folds. */
function parse(json: string): unknown {
  for (const candidate of [json, json.replaceAll(/!?\n ?/g, '')]) {
    try {
      return JSON.parse(candidate);
    } catch {
      continue;
    }
  }
  return undefined;
}

/** SNS wraps the notice of SES in a string of its own, unless it is set not to. */
function readSns(value: unknown): JsonReport | undefined {
  const wrapped = z.object({ Type: z.string(), Message: z.string() }).safeParse(value);
  const inner = wrapped.success ? parse(wrapped.data.Message) : value;
  return readSes(inner) ?? readSendGrid(inner) ?? readMailgun(inner) ?? readPostmark(inner);
}

function readSes(value: unknown): JsonReport | undefined {
  const { data } = ses.safeParse(value);
  if (data?.complaint !== undefined) {
    const { complainedRecipients, complaintFeedbackType: feedback } = data.complaint;
    return complaint(
      complainedRecipients.map((one) => one.emailAddress),
      feedback.toLowerCase(),
    );
  }
  if (data?.bounce !== undefined) {
    const { bounceType, bouncedRecipients } = data.bounce;
    const vague = bounceType === 'Transient' ? '4.0.0' : '5.0.0';
    return bounce(
      bouncedRecipients.map(({ emailAddress, action, status, diagnosticCode }) =>
        recipient(emailAddress, {
          action: action || 'failed',
          status: status || vague,
          diagnostic: diagnosticCode.replace(/^smtp;\s*/i, ''),
        }),
      ),
    );
  }
  return /^(?:delivery|send|open|click)/i.test(data?.notificationType || data?.eventType || '') ? AUTOMATIC : undefined;
}

function readSendGrid(value: unknown): JsonReport | undefined {
  const { data } = sendGrid.safeParse(value);
  if (data === undefined) return undefined;
  const complaints = data.filter(({ event }) => event === 'spamreport');
  if (complaints.length > 0) return complaint(complaints.map(({ email }) => email));
  const failed = data.filter(({ event }) => event === 'bounce' || event === 'dropped' || event === 'deferred');
  if (failed.length === 0) return AUTOMATIC;
  return bounce(
    failed.map(({ email, event, status, reason }) =>
      recipient(email, { action: event === 'deferred' ? 'delayed' : 'failed', status, diagnostic: reason }),
    ),
  );
}

function readMailgun(value: unknown): JsonReport | undefined {
  const data = mailgun.safeParse(value).data?.['event-data'];
  if (data === undefined) return undefined;
  const { event, severity, recipient: address, 'delivery-status': reply } = data;
  if (event === 'complained') return complaint([address]);
  if (event !== 'failed') return AUTOMATIC;
  const diagnostic = [reply.code === 0 ? '' : String(reply.code), reply.message || reply.description].join(' ').trim();
  return bounce([
    recipient(address, { action: severity === 'temporary' ? 'delayed' : 'failed', status: '', diagnostic }),
  ]);
}

function readPostmark(value: unknown): JsonReport | undefined {
  const { data } = postmark.safeParse(value);
  if (data === undefined) return undefined;
  const { RecordType: record, Type: type, Email: address, Description: description, Details: details } = data;
  if (record === 'SpamComplaint') return complaint([address]);
  if (record !== 'Bounce') return AUTOMATIC;
  if (/^(?:autoresponder|subscribe|challengeverification|addresschange)$/i.test(type)) return AUTOMATIC;
  const isLater = /^(?:transient|dnserror|softbounce)$/i.test(type);
  const [action, status] = isLater ? ['delayed', '4.0.0'] : ['failed', '5.0.0'];
  return bounce([recipient(address, { action, status, diagnostic: details || description })]);
}

function bounce(recipients: readonly ParsedRecipient[]): JsonReport {
  return { kind: 'bounce', recipients };
}

function complaint(recipients: readonly string[], feedback = 'abuse'): JsonReport {
  return { kind: 'complaint', feedback, recipients };
}

function recipient(address: string, given: Pick<ParsedRecipient, 'action' | 'status' | 'diagnostic'>): ParsedRecipient {
  return { ...given, address, original: '', remote: '' };
}
