/**
 * The one grammar of mail addresses: `local@domain` with a dot-atom (RFC 5322 §3.2.3, RFC 6531 for characters beyond
 * ASCII) and a domain name. Dots may also follow each other and end the local part: Japanese carriers gave out such
 * addresses, and mail systems send them as they are, without quotes. No quoted locals, literals, comments, lists or control
 * characters: whatever this accepts can be in an envelope or a header as it is.
 */
import { createHash } from 'node:crypto';
import { domainToASCII, domainToUnicode } from 'node:url';

export interface Address {
  /** As written; its case is the receiver's business (RFC 5321 §2.4). */
  readonly local: string;
  /** Lower case, A-labels. */
  readonly domain: string;
  /** `local@domain`. */
  readonly address: string;
}

const ATOM = "[A-Za-z0-9!#$%&'*+/=?^_`{|}~\\-\\u0080-\\u{10ffff}]+";
const LOCAL = new RegExp(`^${ATOM}(?:\\.+${ATOM})*\\.*$`, 'u');
const INVISIBLE = /[\u0080-\u00a0\u2028\u2029\p{Cs}\p{Zs}]/u;
const LABEL = /^[a-z0-9_](?:[a-z0-9_-]*[a-z0-9_])?$/;

/** The address that `text` is, or undefined. Length limits are those of RFC 5321 §4.5.3.1. */
export function parseAddress(text: string): Address | undefined {
  if (text.length > 320) return undefined;
  const at = text.lastIndexOf('@');
  if (at < 1) return undefined;
  const local = text.slice(0, at);
  if (!LOCAL.test(local) || INVISIBLE.test(local) || Buffer.byteLength(local) > 64) return undefined;
  const domain = parseDomain(text.slice(at + 1));
  return domain === undefined ? undefined : { local, domain, address: `${local}@${domain}` };
}

/** An address, with the name of whom it belongs to where that is known. */
export interface Mailbox {
  readonly name?: string | undefined;
  readonly address: string;
}

/** Outside of quotes a name is plain words: whatever might divide a list or hide an address is not in it. */
const NAMED = /^(?:"((?:[^"\\\p{Cc}]|\\["\\]){0,300})"|([^<>,;:"@()[\]\\\p{Cc}]{0,300}?))\s*<([^<>]*)>$/u;

/** The one mailbox that `text` is, or undefined: `ana@example.com`, `Ana García <ana@…>` or `"García, Ana" <ana@…>`. */
export function parseMailbox(text: string): Mailbox | undefined {
  if (text.length > 700) return undefined;
  const [whole, quoted, plain, inner] = NAMED.exec(text.trim()) ?? [];
  const parsed = parseAddress(whole === undefined ? text.trim() : (inner ?? ''));
  if (parsed === undefined) return undefined;
  const name = (quoted?.replaceAll(/\\(.)/g, '$1') ?? plain ?? '').trim();
  return { address: parsed.address, ...(name === '' ? {} : { name }) };
}

/** `Ana <ana@example.com>`, as `parseMailbox` reads it. */
export function formatMailbox({ name, address }: Mailbox): string {
  if (name === undefined) return address;
  const plain = /^[^<>,;:"@()[\]\\]*$/.test(name);
  return `${plain ? name : `"${name.replaceAll(/["\\]/g, '\\$&')}"`} <${address}>`;
}

/** A host or domain name with at least two labels as lower-case A-labels without a trailing dot, or undefined. */
export function parseDomain(text: string): string | undefined {
  if (text.length === 0 || text.length > 253 || /[\s%@:/?#[\]\\“”„‘’‚«»]/.test(text)) return undefined;
  const domain = /^[\x21-\x7e]+$/.test(text) ? text.toLowerCase() : domainToASCII(text);
  const labels = domain.split('.');
  if (domain.length > 253 || labels.length < 2 || /^\d+$/.test(labels.at(-1) ?? '')) return undefined;
  return labels.every((label) => label.length <= 63 && LABEL.test(label)) ? domain : undefined;
}

/** Whether the local part is a dot-atom (RFC 5322 §3.2.3), which every mail system takes without quotes. */
export function isDotAtom({ local }: Pick<Address, 'local'>): boolean {
  return !local.includes('..') && !local.endsWith('.');
}

/** The address in ASCII for a line that programs read; one beyond ASCII as in reports (RFC 6533 §3, utf-8-addr-xtext). */
export function asciiAddress(address: string): string {
  if (!needsSmtpUtf8(address)) return address;
  return address.replaceAll(
    /[^!-~]|[+=\\]/gu,
    (char) => `\\x{${(char.codePointAt(0) ?? 0).toString(16).toUpperCase()}}`,
  );
}

/** Whether the address can be used only where SMTPUTF8 is offered (RFC 6531). */
export function needsSmtpUtf8(address: string): boolean {
  // oxlint-disable-next-line no-control-regex -- ASCII or not is the question
  return !/^[\x00-\x7f]*$/.test(address);
}

/** Names of one mail service: a mailbox at one of them is the same at the other. */
const SAME_DOMAIN: ReadonlyMap<string, string> = new Map([['googlemail.com', 'gmail.com']]);
/** Domains that deliver mail to the same mailbox wherever the dots of the local part are. */
const IGNORES_DOTS: ReadonlySet<string> = new Set(['gmail.com']);

/**
 * The mailbox that an address leads to, for caps and refusals that belong to a person: without case, without the tag after
 * a plus sign, and without the dots that Gmail ignores. Never an address to mail to.
 */
export function canonicalMailbox(address: string): string {
  const { local, domain: written } = parseAddress(address) ?? { local: address, domain: '' };
  const domain = SAME_DOMAIN.get(written) ?? written;
  const name = local.toLowerCase().replace(/(?<=.)\+.*$/u, '');
  return `${IGNORES_DOTS.has(domain) ? name.replaceAll('.', '') : name}@${domain}`;
}

const HASH = 'sha256:';

/** What stays of an address that was erased and must not be mailed again: the address in lower case is recognised by it. */
export function hashedAddress(address: string): string {
  const lower = address.toLowerCase();
  return lower.startsWith(HASH) ? lower : HASH + createHash('sha256').update(lower).digest('hex');
}

/** The domains that the same mailbox may be written with. */
export function domainsOf({ domain }: Pick<Address, 'domain'>): string[] {
  const sameDomains = [...SAME_DOMAIN].flatMap(([one, other]) =>
    one === domain ? [other] : other === domain ? [one] : [],
  );
  return [...new Set([domain, ...sameDomains, domainToUnicode(domain)])];
}
