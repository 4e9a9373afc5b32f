/** The last step of all mail of our own: signed by its domain's keys, with an envelope sender that bounces come back to. */
import type { KeyObject } from 'node:crypto';
import { needsSmtpUtf8 } from '../lib/addresses.ts';
import { returnPath } from './return-path.ts';
import type { Mail } from './compose.ts';
import { signDkim, type SigningKey } from './dkim.ts';

/** What does not change from mail to mail. */
export interface SigningContext {
  /** The keys of a domain that sign a tenant's mail, all of them; none where it has none. */
  readonly keysOf: (domain: string, tenant: string) => Promise<readonly SigningKey[]>;
  /** Of the return paths. */
  readonly secret: KeyObject;
  readonly hostname: () => string;
  /** Milliseconds. */
  readonly now: () => number;
}

export interface UnsignedMail {
  /** `msg_…` */
  readonly id: string;
  /** Whose keys sign. */
  readonly domain: string;
  readonly tenant: string;
  readonly mail: Mail;
  /** What `mail` was composed to. */
  readonly bytes: Buffer;
}

export interface SignedMail {
  readonly kind: 'ready';
  /** The envelope sender. */
  readonly sender: string;
  /** The whole message when joined. */
  readonly content: readonly Uint8Array[];
  readonly size: number;
  readonly smtpUtf8: boolean;
}

/** Signs. Rejects where the domain has no key: unsigned mail would be refused or, worse, believed less for ever. */
export async function signMail(
  { id, domain, tenant, mail, bytes }: UnsignedMail,
  signing: SigningContext,
): Promise<SignedMail> {
  const keys = await requiredKeys({ domain, tenant }, signing);
  const signature = await signDkim([bytes], keys, signing.now());
  const shown = [mail.from, ...mail.to, ...(mail.cc ?? []), ...(mail.replyTo ?? [])];
  return {
    kind: 'ready',
    sender: returnPath(id, { secret: signing.secret, hostname: signing.hostname() }),
    content: [signature, bytes],
    size: signature.length + bytes.length,
    smtpUtf8: shown.some(({ address }) => needsSmtpUtf8(address)),
  };
}

/** The keys of the domain. Rejects where it has none. */
export async function requiredKeys(
  { domain, tenant }: Pick<UnsignedMail, 'domain' | 'tenant'>,
  signing: SigningContext,
): Promise<readonly SigningKey[]> {
  const keys = await signing.keysOf(domain, tenant);
  if (keys.length === 0) throw new Error(`there is no DKIM key for ${domain}`);
  return keys;
}

/** The Message-ID of a message (`msg_…`) of ours: the same for every try, and after a restart. */
export function messageIdOf({ id, domain }: Pick<UnsignedMail, 'id' | 'domain'>): string {
  return `<${id.slice(id.indexOf('_') + 1)}@${domain}>`;
}
