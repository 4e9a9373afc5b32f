/**
 * Conversations through addresses of ours: whoever answers a form's notification writes to an address of the form's
 * domain, the visitor sees that domain and not the owner, and the visitor's answer comes back the same way. An address
 * names the notification and whom mail to it is for, under a signature, so that nobody can make one.
 */
import { timingSafeEqual, type KeyObject } from 'node:crypto';
import type { Address } from '../lib/addresses.ts';
import { fieldsOf } from './header-block.ts';
import { dateHeader, mailboxHeader, type Mailbox } from './header-text.ts';
import { addressMac } from './return-path.ts';

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

const PREFIX = 'msg_';
/** `reply+`, a letter, the 26 characters of the message id, 16 of its signature: 49 of the 64 octets of a local part. */
const LOCAL = /^reply\+([vo])([0-9a-z]{26})([a-z2-7]{16})$/;

/** `reply+<token>@<domain>` */
export function replyAddress({ message, to }: ReplyTicket, domain: string, secret: KeyObject): string {
  const token = to.charAt(0) + message.slice(PREFIX.length);
  return `reply+${token}${signature(token, domain, secret)}@${domain}`;
}

/** What the address says, in whatever case it comes back; undefined where we did not make it. */
export function openReplyAddress({ local, domain }: Address, secret: KeyObject): ReplyTicket | undefined {
  const [, letter, id, given] = LOCAL.exec(local.toLowerCase()) ?? [];
  if (letter === undefined || id === undefined || given === undefined) return undefined;
  const expected = signature(letter + id, domain, secret);
  if (!timingSafeEqual(Buffer.from(given), Buffer.from(expected))) return undefined;
  return { message: PREFIX + id, to: letter === 'v' ? 'visitor' : 'owner' };
}

function signature(token: string, domain: string, secret: KeyObject): string {
  return addressMac(`reply:${domain}:${token}`, secret, 16);
}

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
