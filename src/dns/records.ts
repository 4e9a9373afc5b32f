/**
 * What a domain publishes so that its mail is ours to send: two kinds of record that verification demands (ownership and
 * a DKIM key each), two that are advised, and, where its mail comes here, those that bring it and those that are offered.
 * Every value is one unquoted, unsplit string, as DNS consoles want it.
 */
import { policyRecord } from './mta-sts.ts';

export const PURPOSES = ['ownership', 'dkim', 'spf', 'dmarc', 'inbound', 'mta_sts', 'tlsrpt'] as const;
export const RECORD_TYPES = ['TXT', 'MX', 'CNAME'] as const;

/** Local part of the address at the host name to which receivers send their reports on DMARC and TLS. */
export const REPORTS = 'reports';

/** `reports@mail.example.net` */
export function reportAddress(hostname: string): string {
  return `${REPORTS}@${hostname}`;
}

/** By which the host name agrees to get reports about other domains (RFC 7489 §7.1, RFC 9990 §4): published once for all. */
export function reportConsent(hostname: string): Pick<DomainRecord, 'type' | 'name' | 'value'> {
  return { type: 'TXT', name: `*._report._dmarc.${hostname}`, value: 'v=DMARC1;' };
}

export interface DomainRecord {
  readonly purpose: (typeof PURPOSES)[number];
  readonly type: (typeof RECORD_TYPES)[number];
  readonly name: string;
  /** Of an MX `10 host.`, of a CNAME `host.`, with the dot at the end. */
  readonly value: string;
  readonly required: boolean;
  /** What it is good for, where that is not plain. */
  readonly note?: string;
}

export interface DkimKey {
  readonly selector: string;
  readonly algorithm: 'rsa' | 'ed25519';
  /** Base64, as in `p=`. */
  readonly publicKey: string;
  /** Default: true, it signs. */
  readonly required?: boolean;
  readonly note?: string;
}

export interface RecordsWanted {
  /** A-labels. */
  readonly domain: string;
  /** Of the tenant and the domain: whoever can publish it owns the domain. */
  readonly token: string;
  /** Our own host name, from which the mail comes. */
  readonly hostname: string;
  readonly dkim: readonly DkimKey[];
  /** How mail of the domain comes here; undefined where it does not. */
  readonly inbound?: 'clear' | 'encrypted' | undefined;
}

/** The records for `domain`, the required ones first. */
export function domainRecords({ domain, token, hostname, dkim, inbound }: RecordsWanted): DomainRecord[] {
  return [
    required('ownership', `_postern.${domain}`, `postern-verification=${token}`),
    ...dkim.map((key) => dkimRecord(domain, key)),
    // Our envelope sender is at the host name, so SPF does not pass for the domain by itself; receivers look all the same.
    advised('spf', domain, `v=spf1 a:${hostname} ~all`),
    advised('dmarc', `_dmarc.${domain}`, `v=DMARC1; p=none; rua=mailto:${reportAddress(hostname)}`),
    ...(inbound === undefined ? [] : inboundRecords(domain, hostname, inbound === 'encrypted')),
  ];
}

/** A policy that demands encryption is offered where there is some. */
function inboundRecords(domain: string, hostname: string, isEncrypted: boolean): DomainRecord[] {
  const mx = { purpose: 'inbound', type: 'MX', name: domain, value: `10 ${hostname}.`, required: false } as const;
  if (!isEncrypted) return [mx];
  const host = { type: 'CNAME', name: `mta-sts.${domain}`, value: `${hostname}.`, required: false } as const;
  return [
    mx,
    { purpose: 'mta_sts', ...host },
    advised('mta_sts', `_mta-sts.${domain}`, policyRecord(hostname)),
    advised('tlsrpt', `_smtp._tls.${domain}`, `v=TLSRPTv1; rua=mailto:${reportAddress(hostname)}`),
  ];
}

/** Its text (RFC 6376 §3.6.1, RFC 8463 §4); `publicKey` as `p=` has it. */
export function dkimRecordValue(algorithm: DkimKey['algorithm'], publicKey: string): string {
  return `v=DKIM1; k=${algorithm}; p=${publicKey}`;
}

/** The TXT record of a key. */
export function dkimRecord(
  domain: string,
  { selector, algorithm, publicKey, required = true, note }: DkimKey,
): DomainRecord & { readonly type: 'TXT' } {
  return {
    purpose: 'dkim',
    type: 'TXT',
    name: `${selector}._domainkey.${domain}`,
    value: dkimRecordValue(algorithm, publicKey),
    required,
    ...(note === undefined ? {} : { note }),
  };
}

function required(purpose: DomainRecord['purpose'], name: string, value: string): DomainRecord {
  return { purpose, type: 'TXT', name, value, required: true };
}

function advised(purpose: DomainRecord['purpose'], name: string, value: string): DomainRecord {
  return { purpose, type: 'TXT', name, value, required: false };
}
