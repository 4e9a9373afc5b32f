/**
 * Signed return paths: the envelope sender of our own mail names its message, so that a bounce is tied to what bounced,
 * and nobody can make us believe in a bounce of mail that we never sent. Some servers change the case of what they send
 * back; nothing here depends on it.
 */
import { createHmac, timingSafeEqual, type KeyObject } from 'node:crypto';
import { parseAddress } from '../lib/addresses.ts';

const PREFIX = 'msg_';
/** `b+`, the 26 characters of the message id, 16 of its signature: 80 bits, and 44 of the 64 octets that a local part may have. */
const LOCAL = /^b\+([0-9a-z]{26})([a-z2-7]{16})$/;

/** The envelope sender of the message with this id (`msg_…`): `b+<token>@<hostname>`. */
export function returnPath(messageId: string, { secret, hostname }: { secret: KeyObject; hostname: string }): string {
  const id = messageId.slice(PREFIX.length);
  return `b+${id}${signature(id, secret)}@${hostname}`;
}

/** The id of the message that this address of ours is the return path of; undefined where we did not make it. */
export function openReturnPath(address: string, secret: KeyObject): string | undefined {
  const [, id, given] = LOCAL.exec(parseAddress(address)?.local.toLowerCase() ?? '') ?? [];
  if (id === undefined || given === undefined) return undefined;
  return timingSafeEqual(Buffer.from(given), Buffer.from(signature(id, secret))) ? `${PREFIX}${id}` : undefined;
}

function signature(id: string, secret: KeyObject): string {
  return addressMac(`return-path:${id}`, secret, 16);
}

const BASE32 = 'abcdefghijklmnopqrstuvwxyz234567';

/** So many characters of base32, 5 bits each, that nobody else can make for this text. */
export function addressMac(text: string, secret: KeyObject, characters: number): string {
  const mac = createHmac('sha256', secret).update(text).digest();
  return Array.from({ length: characters }, (_, i) =>
    BASE32.charAt((mac.readUInt16BE((i * 5) >> 3) >> (11 - ((i * 5) & 7))) & 31),
  ).join('');
}
