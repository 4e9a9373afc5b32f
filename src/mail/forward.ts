/**
 * What forwarding does to the header of a message: lines of ours before it, and nothing else, so that its signatures still
 * verify. Two things alone are edited: results that somebody else claims in our name are taken out, and a From that
 * DMARC would refuse at the next server is rewritten. Text is Latin-1, one character is one byte.
 */
import { asciiAddress, parseAddress, type Mailbox } from '../lib/addresses.ts';
import { cleanText, dateHeader, decodeWords, mailboxHeader, fieldsOf, valueOf, type Field } from './header.ts';

/** `Delivered-To` and, where it goes to one address alone, `X-Forwarded-To`: of several, each would learn of the others. In ASCII: they ask nothing of the next server. */
export function forwardHeaders({
  original,
  targets,
}: {
  readonly original: string;
  readonly targets: readonly string[];
}): string {
  const [target, ...rest] = targets;
  const forwarded = target === undefined || rest.length > 0 ? '' : `X-Forwarded-To: ${asciiAddress(target)}\r\n`;
  return `${forwarded}Delivered-To: ${asciiAddress(original)}\r\n`;
}

/** Without `Authentication-Results` that claim to be of `hostname` (RFC 8601 §5): whoever comes after us believes those. */
export function withoutForgedResults(header: string, hostname: string): string {
  const fields = fieldsOf(header);
  const kept = fields.filter((field) => field.name !== 'authentication-results' || claimant(field) !== hostname);
  return kept.length === fields.length ? header : kept.map(({ text }) => text).join('');
}

/** Its authserv-id (RFC 8601 §2.2), in lower case. */
function claimant(field: Field): string {
  const value = withoutComments(valueOf(field)).trimStart();
  const [, quoted, token = ''] = /^(?:"([^"]*)"|([^\s;"]*))/.exec(value) ?? [];
  return (quoted ?? token).replaceAll('\\', '').toLowerCase();
}

/** Comments (RFC 5322 §3.2.2), which may be nested, are a blank each; quoted strings stay as they are. */
function withoutComments(text: string): string {
  let kept = '';
  let depth = 0;
  let quoted = false;
  for (let i = 0; i < text.length; i++) {
    const letter = text.charAt(i);
    const escaped = letter === '\\' ? letter + text.charAt(++i) : undefined;
    if (depth > 0) {
      if (letter === '(') depth++;
      else if (letter === ')') depth--;
    } else if (!quoted && letter === '(') {
      depth = 1;
      kept += ' ';
    } else {
      if (letter === '"') quoted = !quoted;
      kept += escaped ?? letter;
    }
  }
  return kept;
}

/** Whether anything says who wrote it, in one field and in words that can be read. */
export function authorOf(header: string): { readonly name: string; readonly address: string } | undefined {
  const [from, ...rest] = fieldsOf(header).filter(({ name }) => name === 'from');
  return from === undefined || rest.length > 0 ? undefined : firstMailbox(valueOf(from));
}

/**
 * With `"Name via example.com" <forwarded@example.com>` as the From; answers go where they went before, to Reply-To if
 * there was one, else to the author. `X-Original-From` keeps what stood there. The same header where it names no author.
 */
export function rewriteFrom(header: string, domain: string): string {
  const author = authorOf(header);
  if (author === undefined) return header;
  const fields = fieldsOf(header);
  const repliesElsewhere = fields.some(({ name }) => name === 'reply-to');
  const name = `${cleanText(author.name, 100)} via ${domain}`;
  return fields
    .map((field) => {
      if (field.name !== 'from') return field.text;
      const original = renamed(field, 'X-Original-From') + (repliesElsewhere ? '' : renamed(field, 'Reply-To'));
      return mailboxHeader('From', [{ name, address: forwardedFrom(domain) }]) + original;
    })
    .join('');
}

/** Whose name a From is in that was rewritten. */
export function forwardedFrom(domain: string): string {
  return `forwarded@${domain}`;
}

/** The same value under another name; a line that this made too long is broken after the name (RFC 5322 §2.1.1). */
function renamed(field: Field, name: string): string {
  const value = valueOf(field);
  const [first = ''] = value.split('\r\n', 1);
  const isLong = name.length + 1 + first.length > 998 && /^[ \t]/.test(first);
  return `${name}:${isLong ? '\r\n' : ''}${value}\r\n`;
}

/** The first author, in whatever way it is written (RFC 5322 §3.4); its name is its address where it has none. */
function firstMailbox(value: string): { name: string; address: string } | undefined {
  const text = withoutComments(value.replaceAll('\r\n', ''));
  let phrase = '';
  let quoted = false;
  for (let i = 0; i < text.length; i++) {
    const letter = text.charAt(i);
    if (quoted && letter === '\\') phrase += text.charAt(++i);
    else if (letter === '"') quoted = !quoted;
    else if (quoted) phrase += letter;
    else if (letter === '<') return mailboxOf(phrase, text.slice(i + 1, endOf(text, i + 1)));
    else if (letter === ',' || letter === ';') {
      if (phrase.trim() !== '') break;
    } else if (letter === ':') phrase = '';
    else phrase += letter;
  }
  return mailboxOf('', phrase);
}

function endOf(text: string, from: number): number {
  const end = text.indexOf('>', from);
  return end === -1 ? text.length : end;
}

/** Of an address that is none by our grammar, such as one with a quoted local part, the text is shown all the same. */
function mailboxOf(phrase: string, inner: string): { name: string; address: string } | undefined {
  const written = decodeWords(inner.trim());
  const address = parseAddress(written)?.address ?? written;
  const name = decodeWords(phrase).trim();
  return address === '' && name === '' ? undefined : { name: name === '' ? address : name, address };
}

// Answers to reply addresses, which are passed on in the name of the form.

/** What a message is about, what it answers and how it is to be read. All else may tell who wrote it, and from where. */
const KEPT = new Set(['subject', 'date', 'in-reply-to', 'references', 'mime-version']);

export interface Relayed {
  readonly from: Mailbox;
  readonly to: readonly Mailbox[];
  /** With its angle brackets: the one that it came with names a host of the writer's. */
  readonly messageId: string;
  /** Where it has none, ms. */
  readonly date: number;
}

/** The header of a message as it is passed on; Latin-1, one character a byte. */
export function relayHeader(header: string, { from, to, messageId, date }: Relayed): string {
  const kept = fieldsOf(header).filter(({ name }) => KEPT.has(name) || name.startsWith('content-'));
  const ours = mailboxHeader('From', [from]) + mailboxHeader('To', to) + `Message-ID: ${messageId}\r\n`;
  const at = kept.some(({ name }) => name === 'date') ? '' : dateHeader(date);
  return Buffer.from(ours).toString('latin1') + at + kept.map(({ text }) => text).join('');
}
