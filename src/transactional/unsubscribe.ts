/**
 * Links by which a recipient ends all mail of a tenant (RFC 8058). The link itself says whose mail and to whom, under a
 * signature, so that it works for as long as the mail is kept, and nobody can make one for somebody else.
 */
import { createHmac, timingSafeEqual, type KeyObject } from 'node:crypto';

export interface Subscription {
  readonly tenant: string;
  readonly address: string;
}

const TOKEN = /^([A-Za-z0-9_-]{1,600})\.([A-Za-z0-9_-]{22})$/;

/** What stands behind `/unsubscribe/`. */
export function unsubscribeToken({ tenant, address }: Subscription, secret: KeyObject): string {
  const text = Buffer.from(`${tenant} ${address}`).toString('base64url');
  return `${text}.${signature(text, secret)}`;
}

/** What a token stands for; undefined where it is none of ours. */
export function openUnsubscribeToken(token: string, secret: KeyObject): Subscription | undefined {
  const [, text, given] = TOKEN.exec(token) ?? [];
  if (text === undefined || given === undefined) return undefined;
  if (!timingSafeEqual(Buffer.from(given), Buffer.from(signature(text, secret)))) return undefined;
  const [tenant = '', address = ''] = Buffer.from(text, 'base64url').toString().split(' ');
  return { tenant, address };
}

/**
 * The header fields: the link, and the promise that a POST to it is enough, which RFC 8058 §3.1 allows for https alone.
 * `base` is the address of this server.
 */
export function unsubscribeHeaders(token: string, base: string): [name: string, value: string][] {
  const link: [string, string] = ['List-Unsubscribe', `<${base}/unsubscribe/${token}>`];
  if (!base.startsWith('https:')) return [link];
  return [link, ['List-Unsubscribe-Post', 'List-Unsubscribe=One-Click']];
}

function signature(text: string, secret: KeyObject): string {
  return createHmac('sha256', secret).update(`unsubscribe:${text}`).digest().subarray(0, 16).toString('base64url');
}
