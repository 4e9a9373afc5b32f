/**
 * What a domain publishes so that its mail is ours to send: two kinds of record that verification demands (ownership and
 * a DKIM key each) and two that are advised. Every value is one unquoted, unsplit string, as DNS consoles want it.
 */
export interface DomainRecord {
  readonly purpose: 'ownership' | 'dkim' | 'spf' | 'dmarc';
  readonly type: 'TXT';
  readonly name: string;
  readonly value: string;
  readonly required: boolean;
}

export interface RecordsWanted {
  /** A-labels. */
  readonly domain: string;
  /** Of the tenant and the domain: whoever can publish it owns the domain. */
  readonly token: string;
  /** Our own host name, from which the mail comes. */
  readonly hostname: string;
  readonly dkim: readonly {
    readonly selector: string;
    readonly algorithm: 'rsa' | 'ed25519';
    /** Base64, as in `p=`. */
    readonly publicKey: string;
  }[];
}

/** The records for `domain`, the required ones first. */
export function domainRecords({ domain, token, hostname, dkim }: RecordsWanted): DomainRecord[] {
  return [
    required('ownership', `_postern.${domain}`, `postern-verification=${token}`),
    ...dkim.map(({ selector, algorithm, publicKey }) =>
      required('dkim', `${selector}._domainkey.${domain}`, dkimRecordValue(algorithm, publicKey)),
    ),
    // Our envelope sender is at the host name, so SPF does not pass for the domain by itself; receivers look all the same.
    advised('spf', domain, `v=spf1 a:${hostname} ~all`),
    // RFC 5321 §4.5.1: postmaster exists wherever mail is taken.
    advised('dmarc', `_dmarc.${domain}`, `v=DMARC1; p=none; rua=mailto:postmaster@${domain}`),
  ];
}

/** The TXT record at `<selector>._domainkey.<domain>` (RFC 6376 §3.6.1, RFC 8463 §4); `publicKey` as `p=` has it. */
export function dkimRecordValue(algorithm: 'rsa' | 'ed25519', publicKey: string): string {
  return `v=DKIM1; k=${algorithm}; p=${publicKey}`;
}

function required(purpose: DomainRecord['purpose'], name: string, value: string): DomainRecord {
  return { purpose, type: 'TXT', name, value, required: true };
}

function advised(purpose: DomainRecord['purpose'], name: string, value: string): DomainRecord {
  return { purpose, type: 'TXT', name, value, required: false };
}
