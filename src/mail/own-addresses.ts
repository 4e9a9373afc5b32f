/**
 * Addresses of ours that nobody else can make: return paths, reply addresses and those of the Sender Rewriting Scheme. Some
 * servers change the case of what they send back; nothing here depends on it.
 */
import { createHmac, timingSafeEqual, type KeyObject } from 'node:crypto';
import { isDotAtom, needsSmtpUtf8, parseAddress, type Address } from '../lib/addresses.ts';

const BASE32 = 'abcdefghijklmnopqrstuvwxyz234567';
const PREFIX = 'msg_';

/** So many characters of base32, 5 bits each, that nobody else can make for this text. */
function addressMac(text: string, secret: KeyObject, characters: number): string {
  const mac = createHmac('sha256', secret).update(text).digest();
  return Array.from({ length: characters }, (_, i) =>
    BASE32.charAt((mac.readUInt16BE((i * 5) >> 3) >> (11 - ((i * 5) & 7))) & 31),
  ).join('');
}

function isMac(given: string, text: string, secret: KeyObject): boolean {
  return timingSafeEqual(Buffer.from(given), Buffer.from(addressMac(text, secret, given.length)));
}

// Return paths: the envelope sender of our own mail names its message, so that a bounce is tied to what bounced, and nobody
// can make us believe in a bounce of mail that we never sent.

/** Of its signature, an address has 16 characters: 80 bits. */
const MAC_LENGTH = 16;
/** `b+`, the 26 characters of the message id, its signature: 44 of the 64 octets that a local part may have. */
const RETURN_PATH = /^b\+([0-9a-z]{26})([a-z2-7]{16})$/;

/** The envelope sender of the message with this id (`msg_…`): `b+<token>@<hostname>`. */
export function returnPath(messageId: string, { secret, hostname }: { secret: KeyObject; hostname: string }): string {
  const id = messageId.slice(PREFIX.length);
  return `b+${id}${addressMac(`return-path:${id}`, secret, MAC_LENGTH)}@${hostname}`;
}

/** The id of the message that this address of ours is the return path of; undefined where we did not make it. */
export function openReturnPath(address: string, secret: KeyObject): string | undefined {
  const [, id, given] = RETURN_PATH.exec(parseAddress(address)?.local.toLowerCase() ?? '') ?? [];
  if (id === undefined || given === undefined) return undefined;
  return isMac(given, `return-path:${id}`, secret) ? `${PREFIX}${id}` : undefined;
}

// Conversations through addresses of ours: whoever answers a form's notification writes to an address of the form's domain,
// the visitor sees that domain and not the owner, and the visitor's answer comes back the same way. An address names the
// notification and whom mail to it is for.

/** Who talks to whom about a submission. */
export interface Conversation {
  readonly tenant: string;
  readonly domain: string;
  readonly submission: string;
  readonly environment: 'live' | 'test';
  /** The form's. */
  readonly name: string;
  readonly visitor: string;
  /** At least one. */
  readonly owners: readonly string[];
}

/** What a reply address says. */
export interface ReplyTicket {
  /** The notification (`msg_…`). */
  readonly message: string;
  /** Whom mail to it goes to. */
  readonly to: 'visitor' | 'owner';
}

/** `reply+`, a letter, the 26 characters of the message id, its signature: 49 of the 64 octets of a local part. */
const REPLY = /^reply\+([vo])([0-9a-z]{26})([a-z2-7]{16})$/;

/** `reply+<token>@<domain>` */
export function replyAddress({ message, to }: ReplyTicket, domain: string, secret: KeyObject): string {
  const token = to.charAt(0) + message.slice(PREFIX.length);
  return `reply+${token}${addressMac(`reply:${domain}:${token}`, secret, MAC_LENGTH)}@${domain}`;
}

/** What the address says; undefined where we did not make it. */
export function openReplyAddress({ local, domain }: Address, secret: KeyObject): ReplyTicket | undefined {
  const [, letter, id, given] = REPLY.exec(local.toLowerCase()) ?? [];
  if (letter === undefined || id === undefined || given === undefined) return undefined;
  if (!isMac(given, `reply:${domain}:${letter}${id}`, secret)) return undefined;
  return { message: PREFIX + id, to: letter === 'v' ? 'visitor' : 'owner' };
}

// The Sender Rewriting Scheme: what we forward has an envelope sender of ours, so that SPF passes at the next server, and a
// bounce to it leads back to who sent it.
//
// `SRS0=<hash>=TT=domain=local@<hostname>` stands for `local@domain` for 21 days. Of an address that a forwarder before us
// rewrote, `SRS1=<hash>=<first forwarder>=…@<hostname>` keeps the first one's part alone, however many hops there were.

const DAY_MS = 24 * 60 * 60e3;
const VALID_DAYS = 21;
/** How long a bounce to what was forwarded is passed on. */
export const SRS_VALID_MS = VALID_DAYS * DAY_MS;
/** TT holds 10 bits, as everybody's does. */
const DAYS = 1024;

const REWRITTEN_ONCE = /^srs0([=+-].+)$/i;
const REWRITTEN_AGAIN = /^srs1[=+-][^=]+=([^=]+)=([=+-].+)$/i;
const OURS_ONCE = /^srs0[=+-]([a-z2-7]{8})=([a-z2-7]{2})=([^=]+)=(.+)$/i;
const OURS_AGAIN = /^srs1[=+-]([a-z2-7]{8})=([^=]+)=([=+-].+)$/i;

export interface Srs {
  /** The first one signs, each of them opens: two while one takes over from the other. */
  readonly secrets: readonly [KeyObject, ...KeyObject[]];
  readonly hostname: string;
  /** Milliseconds. */
  readonly now: number;
}

/**
 * The envelope sender of what is forwarded for `sender`; a null sender stays null. Where no SRS address can stand for it,
 * most often since its local part would pass 64 octets (RFC 5321 §4.5.3.1.1), or would ask the next server for SMTPUTF8 or
 * for dots that are not everywhere allowed, it is `returnPath`: that of the message in which it is forwarded, which knows its
 * sender.
 */
export function forwardSender(sender: string, srs: Srs, returnPath: () => string): string {
  if (sender === '') return '';
  const parsed = parseAddress(sender);
  if (parsed === undefined) return returnPath();
  const { local, domain, address } = parsed;
  // It comes back here as it is.
  if (domain === srs.hostname) return address;
  const rewritten = `${rewrite(local, domain, srs)}@${srs.hostname}`;
  const isUsual = isDotAtom(parsed) && !needsSmtpUtf8(rewritten) && parseAddress(rewritten) !== undefined;
  return isUsual ? rewritten : returnPath();
}

/** The sender that an SRS address of ours stands for; undefined where we did not make it, or more than 21 days ago. */
export function openSrs(address: string, srs: Srs): string | undefined {
  const { local = '', domain } = parseAddress(address) ?? {};
  if (domain !== srs.hostname) return undefined;
  const opened = openOnce(local, srs) ?? openAgain(local, srs);
  const sender = opened === undefined ? undefined : parseAddress(opened);
  if (sender?.domain !== srs.hostname) return sender?.address;
  // Mail that came round to us again: we are the first forwarder too.
  return parseAddress(openOnce(sender.local, srs) ?? '')?.address;
}

function rewrite(local: string, domain: string, srs: Srs): string {
  const [, once] = REWRITTEN_ONCE.exec(local) ?? [];
  if (once !== undefined) return again(domain, once, srs);
  const [, first, rest] = REWRITTEN_AGAIN.exec(local) ?? [];
  if (first !== undefined && rest !== undefined) return again(first, rest, srs);
  const day = Math.floor(srs.now / DAY_MS);
  return `SRS0=${hashOf(onceText(day, domain, local), srs.secrets[0])}=${stamp(day)}=${domain}=${local}`;
}

function again(first: string, rest: string, { secrets }: Srs): string {
  return `SRS1=${hashOf(againText(first, rest), secrets[0])}=${first}=${rest}`;
}

function openOnce(text: string, srs: Srs): string | undefined {
  const [, hash, stamped, domain, local] = OURS_ONCE.exec(text) ?? [];
  if (hash === undefined || stamped === undefined || domain === undefined || local === undefined) return undefined;
  const today = Math.floor(srs.now / DAY_MS);
  // Tomorrow's is of a daemon beside this one, whose clock is a little ahead.
  const age = ((today + 1 - dayOf(stamped) + DAYS) % DAYS) - 1;
  if (age > VALID_DAYS) return undefined;
  return isOurs(hash, onceText(today - age, domain, local), srs) ? `${local}@${domain}` : undefined;
}

function openAgain(text: string, srs: Srs): string | undefined {
  const [, hash, first, rest] = OURS_AGAIN.exec(text) ?? [];
  if (hash === undefined || first === undefined || rest === undefined) return undefined;
  return isOurs(hash, againText(first, rest), srs) ? `SRS0${rest}@${first}` : undefined;
}

/** The whole day and not TT is signed: an address does not come to life again after 1024 days. */
function onceText(day: number, domain: string, local: string): string {
  return `srs0:${day}:${domain}:${local}`;
}

function againText(first: string, rest: string): string {
  return `srs1:${first}:${rest}`;
}

/** Of every secret, so that the time does not tell which one it was. */
function isOurs(given: string, text: string, { secrets }: Srs): boolean {
  return secrets.map((secret) => isMac(given.toLowerCase(), text.toLowerCase(), secret)).includes(true);
}

/** 40 bits, each guess at which is a refused RCPT; more of them would leave less room for the address. */
function hashOf(text: string, secret: KeyObject): string {
  return addressMac(text.toLowerCase(), secret, 8);
}

function stamp(day: number): string {
  return BASE32.charAt((day >> 5) & 31) + BASE32.charAt(day & 31);
}

function dayOf(stamped: string): number {
  const [high = '', low = ''] = stamped.toLowerCase();
  return (BASE32.indexOf(high) << 5) | BASE32.indexOf(low);
}
