/**
 * DANE for SMTP (RFC 7672): which mail hosts of a domain say by DNSSEC what they prove themselves with under TLS. Nothing of it
 * counts where any step from the domain to the record is not proven; what cannot be told is never read as "there is none".
 */
import { X509Certificate, createPublicKey } from 'node:crypto';
import type { Answer as ResourceRecord, TlsaData } from 'dns-packet';
import type { CheckedAnswer, Dnssec } from './dnssec.ts';
import { hostName, type MxRecord } from './resolver.ts';

/** One that can be used (RFC 7672 §3.1). */
export interface TlsaRecord {
  /** 2: an authority of the host's (DANE-TA). 3: the host's own certificate (DANE-EE). */
  readonly usage: 2 | 3;
  /** 0: the certificate. 1: its public key. */
  readonly selector: 0 | 1;
  /** 0: as it is. 1: SHA-256. 2: SHA-512. */
  readonly matching: 0 | 1 | 2;
  readonly data: Buffer;
}

/** What a host proves itself with. */
export interface HostTlsa {
  /** Where the records are: the host, or the name that it is an alias of. */
  readonly base: string;
  /** Where there is none that can be used, TLS is demanded and its certificate is not looked at (RFC 7672 §2.2). */
  readonly records: readonly TlsaRecord[];
  /** All of them, as zone files have them. */
  readonly published: readonly string[];
}

export type TlsaAnswer =
  | { readonly kind: 'found'; readonly tlsa: HostTlsa }
  | { readonly kind: 'none' }
  /** The host must not get mail now. */
  | { readonly kind: 'failed'; readonly reason: string };

export type DaneHosts =
  /** DANE does not apply. */
  | { readonly kind: 'insecure' }
  | { readonly kind: 'failed'; readonly reason: string }
  | {
      readonly kind: 'secure';
      /** Empty: the domain itself is its mail host. */
      readonly mx: readonly MxRecord[];
      /** By name; a host that is not among them must not get mail. */
      readonly hosts: ReadonlyMap<string, TlsaAnswer>;
    };

const MAX_HOSTS = 30;
const MAX_RECORDS = 50;
const MAX_CNAMES = 8;

/** The mail hosts of a domain (A-labels), for the port that mail is delivered to. Never rejects. */
export async function findDaneHosts(domain: string, port: number, dnssec: Dnssec): Promise<DaneHosts> {
  if (!(await dnssec.isValidating())) return { kind: 'insecure' };
  const answer = await dnssec.ask('MX', domain);
  if (answer.kind === 'failed') return answer;
  if (!answer.isSecure) return { kind: 'insecure' };
  const mx = answer.records.flatMap((record): MxRecord[] => {
    if (record.type !== 'MX') return [];
    return [{ preference: record.data.preference ?? 0, exchange: hostName(record.data.exchange) }];
  });
  const nearest = mx.toSorted((a, b) => a.preference - b.preference).map(({ exchange }) => exchange);
  const names = new Set(mx.length === 0 ? [domain] : nearest.filter((name) => name !== '').slice(0, MAX_HOSTS));
  const found = [...names].map(async (host) => [host, await findTlsa(host, port, dnssec)] as const);
  return { kind: 'secure', mx, hosts: new Map(await Promise.all(found)) };
}

/** RFC 7672 §2.2.2: only where the host's addresses are proven, for there are name servers that choke on the question. */
async function findTlsa(host: string, port: number, dnssec: Dnssec): Promise<TlsaAnswer> {
  const answers = await Promise.all([dnssec.ask('A', host), dnssec.ask('AAAA', host)]);
  const bases = await basesOf(host, answers, dnssec);
  if ('kind' in bases) return bases;
  for (const base of bases) {
    const answer = await dnssec.ask('TLSA', `_${port}._tcp.${base}`);
    if (answer.kind === 'failed') return answer;
    if (!answer.isSecure) continue;
    const all = answer.records.flatMap((record) => (record.type === 'TLSA' ? [record.data] : []));
    const some = all.slice(0, MAX_RECORDS);
    if (some.length > 0)
      return { kind: 'found', tlsa: { base, records: usable(some), published: some.map(recordText).sort() } };
  }
  return { kind: 'none' };
}

/** The names at which the host's records may be, the likeliest first. */
async function basesOf(
  host: string,
  answers: readonly CheckedAnswer[],
  dnssec: Dnssec,
): Promise<readonly string[] | Exclude<TlsaAnswer, { kind: 'found' }>> {
  const answered = answers.filter((answer) => answer.kind === 'answered');
  const secure = answered.find(({ isSecure }) => isSecure);
  if (secure !== undefined) return [...new Set([endOf(host, secure.records), host])];
  const failed = answers.find((answer) => answer.kind === 'failed');
  if (answered.length === 0 && failed !== undefined) return failed;
  // An alias that is proven, of a name that is not.
  if (!answered.some(({ records }) => records.some(({ type }) => type === 'CNAME'))) return { kind: 'none' };
  const alias = await dnssec.ask('CNAME', host);
  if (alias.kind === 'failed') return alias;
  return alias.isSecure ? [host] : { kind: 'none' };
}

function endOf(host: string, records: readonly ResourceRecord[]): string {
  let name = host;
  for (let step = 0; step < MAX_CNAMES; step++) {
    const alias = records.find((record) => record.type === 'CNAME' && hostName(record.name) === name);
    if (alias?.type !== 'CNAME') break;
    name = hostName(alias.data);
  }
  return name;
}

/** Of several digests of the same, only the strongest counts (RFC 7671 §9). */
function usable(all: readonly TlsaData[]): TlsaRecord[] {
  const records = all.flatMap((data) => readRecord(data) ?? []);
  return records.filter(
    ({ usage, selector, matching }) =>
      matching !== 1 ||
      !records.some((other) => other.matching === 2 && other.usage === usage && other.selector === selector),
  );
}

/** Usages 0 and 1 mean authorities that both sides trust, and between mail servers there are none (RFC 7672 §3.1.3). */
function readRecord({ usage, selector, matchingType: matching, certificate }: TlsaData): TlsaRecord | undefined {
  if (usage !== 2 && usage !== 3) return undefined;
  if (selector !== 0 && selector !== 1) return undefined;
  if (matching !== 0 && matching !== 1 && matching !== 2) return undefined;
  const data = Buffer.from(certificate);
  const isWhole = matching === 0 ? isReadable(data, selector) : data.length === 32 * matching;
  return isWhole ? { usage, selector, matching, data } : undefined;
}

function isReadable(data: Buffer, selector: 0 | 1): boolean {
  try {
    if (selector === 0) void new X509Certificate(data);
    else createPublicKey({ key: data, format: 'der', type: 'spki' });
    return true;
  } catch {
    return false;
  }
}

/** `3 1 1 0123…`, as zone files have it. */
function recordText({ usage, selector, matchingType, certificate }: TlsaData): string {
  return `${usage} ${selector} ${matchingType} ${certificate.toString('hex')}`;
}
