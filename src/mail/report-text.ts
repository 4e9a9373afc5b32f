/**
 * Bounces that are written for people alone. Their forms are many, and have one thing in common: an address, and near it
 * the words of a server. Only what comes from a mail system is read this way, so that no letter about a bounce is one.
 */
import { parseAddress } from '../lib/addresses.ts';
import { bounceMeaning, replyCodeIn, statusIn } from './bounce-class.ts';
import { decodeWords } from './header.ts';
import {
  firstOf,
  readFields,
  textOf,
  type Fields,
  type Message,
  type Part,
  type ParsedRecipient,
} from './report-parts.ts';

const MAX_TEXT = 64 * 1024;
const MAX_LINES = 500;
const MAX_LINE = 1000;
const MAX_WORDS = 2000;
const MAX_BLOCKS = 50;
const MAX_RECIPIENTS = 100;

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
export function isFromSystem({ whole: { fields }, leaves }: Message): boolean {
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
export function isOriginal({ type }: Part): boolean {
  return type === 'message/rfc822' || type === 'text/rfc822-headers';
}

/** What comes before the original message. */
export function noticeOf(leaves: readonly Part[]): string {
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
export function recipientsInText(fields: Fields, notice: string): ParsedRecipient[] {
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
export function isTelling(words: string): boolean {
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
export function groupsOf(text: string): Fields[] {
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
