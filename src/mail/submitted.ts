/**
 * The header of a message that a program submitted (RFC 6409): what it says, read strictly where it matters, and what is
 * missing from it. But for that its bytes stay as they came. Text is Latin-1, one character a byte.
 */
import { parseAddress, parseMailbox, type Mailbox } from '../lib/addresses.ts';
import { dateHeader, decodeWords, fieldsOf, readAuthor, valueOf, type Field } from './header.ts';

export interface Submitted {
  /** The one author. */
  readonly from: Mailbox;
  /** Who says that he has sent it (RFC 5322 §3.6.2); undefined where that is the author. */
  readonly sender: string | undefined;
  readonly subject: string;
  /** The Message-ID field as it stands; undefined where there is none. */
  readonly messageId: string | undefined;
  /** Addresses in these fields, in lower case. */
  readonly to: ReadonlySet<string>;
  readonly cc: ReadonlySet<string>;
}

/** Fields that may be in a header once (RFC 5322 §3.6): of two of them different readers believe different ones. */
const ONCE = ['from', 'sender', 'reply-to', 'to', 'cc', 'message-id', 'in-reply-to', 'references', 'subject', 'date'];
/** Whom a blind copy goes to is nobody's business, and how it came to us neither. */
const DROPPED = new Set(['bcc', 'resent-bcc', 'return-path']);
const FIELD = /^[!-9;-~]+:/;
const ADDRESS = /(?<![^\s<>,;:"()[\]\\])[^\s<>,;:"()[\]\\]+@[^\s<>,;:"()[\]\\]+/g;
const MAX_SUBJECT_LENGTH = 998;

/** What the header says, or in words why nobody could rely on it. */
export function readSubmitted(header: string): Submitted | { readonly fault: string } {
  const fields = fieldsOf(header);
  if (!fields.every(({ text }) => FIELD.test(text))) return { fault: 'a line of the header is not a header field' };
  const twice = ONCE.find((name) => fields.filter((field) => field.name === name).length > 1);
  if (twice !== undefined) return { fault: `the header has more than one field ${twice}` };
  const author = readAuthor(fields);
  if (author.kind !== 'one') return { fault: author.fault };
  const from = parseAddress(author.address);
  if (from === undefined) return { fault: 'the From header must be an address that can receive mail' };
  const sender = textOf(fields, 'sender');
  const submitter = sender === undefined ? undefined : parseMailbox(decodeWords(sender));
  if (sender !== undefined && submitter === undefined) {
    return { fault: 'the Sender header must be one address, such as Shop <shop@example.com>' };
  }
  return {
    from: { address: from.address, ...(author.name !== undefined && { name: author.name }) },
    sender: submitter?.address,
    subject: decodeWords(textOf(fields, 'subject') ?? '').slice(0, MAX_SUBJECT_LENGTH),
    messageId: textOf(fields, 'message-id'),
    to: addressesOf(textOf(fields, 'to')),
    cc: addressesOf(textOf(fields, 'cc')),
  };
}

/** The header with Date and Message-ID, and without blind copies. */
export function completeHeader(
  header: string,
  { date, messageId }: { readonly date: number; readonly messageId: string },
): string {
  const fields = fieldsOf(header).filter(({ name }) => !DROPPED.has(name));
  const names = new Set(fields.map(({ name }) => name));
  const added = names.has('date') ? '' : dateHeader(date);
  const named = names.has('message-id') ? '' : `Message-ID: ${messageId}\r\n`;
  return added + named + fields.map(({ text }) => text).join('');
}

/** Unfolded, as UTF-8 where it is. */
function textOf(fields: readonly Field[], name: string): string | undefined {
  const field = fields.find((each) => each.name === name);
  return field && Buffer.from(valueOf(field).replaceAll('\r\n', ''), 'latin1').toString().trim();
}

function addressesOf(text = ''): Set<string> {
  return new Set((text.match(ADDRESS) ?? []).map((address) => address.toLowerCase()));
}
