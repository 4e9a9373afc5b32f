/**
 * MTA-STS (RFC 8461): a domain whose mail comes here may demand that it comes encrypted. The owner publishes a TXT record
 * and points `mta-sts.<domain>` here; the policy itself is what this server answers there over HTTPS. Policies of other
 * domains are read here, too.
 */
import { createHash } from 'node:crypto';
import { parseAddress } from '../lib/addresses.ts';
import { messageOf } from '../lib/errors.ts';
import { missing, ok, tagList, unanswered, wrong, type Finding } from './finding.ts';
import type { Answer, Resolver } from './resolver.ts';
import { placeOf } from './networks.ts';

/** A policy as it was fetched; `failed` where nothing can be said of it now. */
export type FetchedPolicy =
  | { readonly kind: 'answered'; readonly status: number; readonly type?: string; readonly text: string }
  | {
      readonly kind: 'failed';
      readonly reason: string;
      /** Because of the certificate of the server that has it. */
      readonly isUntrusted?: true;
    };

export interface PolicyWorld {
  readonly hostname: string;
  readonly fetchPolicy: (url: string) => Promise<FetchedPolicy>;
}

/** The policy of every domain whose mail comes to this host. A week, as receivers advise, for it binds senders so long. */
export function policyText(hostname: string): string {
  return ['version: STSv1', 'mode: enforce', `mx: ${hostname}`, 'max_age: 604800', ''].join('\r\n');
}

/** The TXT record that says that there is a policy, and which (§3.1). */
export function policyRecord(hostname: string): string {
  return `v=STSv1; id=${createHash('sha256').update(policyText(hostname)).digest('hex').slice(0, 16)}`;
}

/** §3.3 */
export function policyUrl(domain: string): string {
  return `https://mta-sts.${domain}/.well-known/mta-sts.txt`;
}

/** The verdict on the TXT records at `_mta-sts.<domain>`, and on the policy that senders find. */
export async function checkMtaSts(domain: string, texts: readonly string[], world: PolicyWorld): Promise<Finding> {
  const found = texts.filter((text) => /^v=STSv1\s*;/.test(text));
  const [only] = found;
  if (only === undefined) return missing('There is no MTA-STS policy.');
  if (found.length > 1)
    return { status: 'duplicate', found, problem: 'Only one MTA-STS record is allowed. Remove the others.' };
  const id = tagList(only)?.get('id') ?? '';
  if (!/^[A-Za-z0-9]{1,32}$/.test(id)) {
    return wrong('id= is missing, or is not 1 to 32 letters and digits.', found);
  }
  const url = policyUrl(domain);
  const fetched = await world.fetchPolicy(url);
  if (fetched.kind === 'failed') {
    return { status: 'unknown', found, problem: `${url} could not be read: ${fetched.reason}` };
  }
  const problem = faultIn(fetched, world.hostname);
  if (problem !== undefined) return wrong(`${url} ${problem}`, found);
  if (fetched.text !== policyText(world.hostname)) return ok(found, [SHY.get(fieldOf(fetched.text, 'mode'))]);
  // The id of our own policy: any will do for its first text; sixteen hexadecimal digits are of an earlier one.
  if (policyRecord(world.hostname).endsWith(`id=${id}`)) return ok(found);
  if (!/^[0-9a-f]{16}$/.test(id)) return ok(found, ['Whenever the policy changes, the id must change.']);
  return wrong(
    `id=${id} belongs to an earlier policy: senders that know it do not fetch a new one until it expires.`,
    found,
  );
}

/** The modes in which a policy binds nobody. */
const SHY: ReadonlyMap<string, string> = new Map([
  ['testing', 'Its mode is testing: senders report failures, and enforce nothing.'],
  ['none', 'Its mode is none: senders enforce nothing.'],
]);
/** Of `max_age` (§3.2), s. */
const OLDEST = 31_557_600;

/** Why senders find no policy there (§3.2), or one by which no mail would come here. */
function faultIn({ status, text }: { status: number; text: string }, hostname: string): string | undefined {
  if (status !== 200) return `answers ${status}, so senders find no policy.`;
  if (fieldOf(text, 'version') !== 'STSv1') return 'is not a policy.';
  const mode = fieldOf(text, 'mode');
  if (mode !== 'enforce' && !SHY.has(mode)) return 'is not a valid policy: mode is not enforce, testing or none.';
  const age = fieldOf(text, 'max_age');
  if (!/^\d{1,10}$/.test(age) || Number(age) > OLDEST) {
    return `is not a valid policy: max_age is not a number of seconds up to ${OLDEST}.`;
  }
  const [, ...parent] = hostname.split('.');
  const names = new Set([hostname, `*.${parent.join('.')}`]);
  const isNamed = fieldsOf(text).some(([name, value]) => name === 'mx' && names.has(value.toLowerCase()));
  return isNamed || mode === 'none' ? undefined : `does not name ${hostname}: no mail would arrive here.`;
}

/** Of what is there twice the first counts, except `mx`. */
function fieldOf(text: string, wanted: string): string {
  return fieldsOf(text).find(([name]) => name === wanted)?.[1] ?? '';
}

function fieldsOf(text: string): [string, string][] {
  return text.split(/\r?\n/).map((line) => {
    const [name = '', value = ''] = line.split(/:\s*/, 2);
    return [name, value.trim()];
  });
}

/** The verdict on the name where senders look for the policy: it has to lead to this server. */
export async function checkPolicyHost(
  name: string,
  own: Answer<string>,
  resolver: Pick<Resolver, 'addresses'>,
): Promise<Finding> {
  const answer = await resolver.addresses(name);
  if (answer.kind === 'failed') return unanswered(answer);
  if (answer.kind !== 'found') return missing('There is no such name.');
  const found = answer.records;
  const place = placeOf(answer, own);
  if (place === 'here') return ok(found);
  if (place === 'elsewhere') return wrong('It points to another server.', found);
  return { ...unanswered(place), found };
}

/** The verdict on the TXT records at `_smtp._tls.<domain>` (RFC 8460 §3): any address for reports is the owner's choice. */
export function checkTlsReporting(texts: readonly string[]): Finding {
  const found = texts.filter((text) => /^v=TLSRPTv1\s*;/.test(text));
  const [only] = found;
  if (only === undefined) return missing('Nobody is notified when mail cannot be delivered encrypted.');
  if (found.length > 1) {
    return { status: 'duplicate', found, value: '', problem: 'Only one such record is allowed. Remove the others.' };
  }
  const targets = (tagList(only)?.get('rua') ?? '').split(',').map((target) => target.trim());
  const areTargets = targets.every((target) => /^(mailto:[^\s@]+@[^\s@]+|https:\/\/\S+)$/i.test(target));
  return areTargets
    ? ok(found)
    : wrong('rua= names no address for reports, such as mailto:postmaster@example.com.', found);
}

/** Who gets reports, as the TXT records at `_smtp._tls.<domain>` say (RFC 8460 §3); nobody where there is not exactly one. */
export function tlsReportTargets(texts: readonly string[]): {
  readonly mails: readonly string[];
  readonly urls: readonly string[];
} {
  const [only, ...more] = texts.filter((text) => /^v=TLSRPTv1\s*;/.test(text));
  const rua = only === undefined || more.length > 0 ? '' : (tagList(only)?.get('rua') ?? '');
  const targets = rua.split(',', MAX_TARGETS).map((target) => target.trim());
  return {
    mails: targets.flatMap((target) => mailtoAddress(target) ?? []),
    urls: targets.filter((target) => /^https:\/\//i.test(target) && URL.canParse(target)),
  };
}

const MAX_TARGETS = 5;

function mailtoAddress(target: string): string | undefined {
  const [, encoded] = /^mailto:([^?\s]+)/i.exec(target) ?? [];
  if (encoded === undefined) return undefined;
  try {
    return parseAddress(decodeURIComponent(encoded))?.address;
  } catch {
    return undefined; // not percent-encoded as it should be
  }
}

// Policies of domains to which mail is sent.

/** What a domain demands of those who send to it (§3.2). */
export interface MtaStsPolicy {
  readonly mode: 'enforce' | 'testing' | 'none';
  /** Names and patterns (`*.example.com`) of mail hosts. */
  readonly mx: readonly string[];
  /** Seconds. */
  readonly maxAge: number;
}

const MAX_HOSTS = 100;

/** The id that the TXT records at `_mta-sts.<domain>` announce; undefined where there is no policy (§3.1). */
export function announcedId(texts: readonly string[]): string | undefined {
  const [only, ...more] = texts.filter((text) => /^v=STSv1[ \t]*;/.test(text));
  if (only === undefined || more.length > 0) return undefined;
  const id = tagList(only)?.get('id') ?? '';
  return /^[A-Za-z0-9]{1,32}$/.test(id) ? id : undefined;
}

/** The policy in an answer, or why it is none for senders (§3.2, §3.3). */
export async function readPolicy(fetched: FetchedPolicy): Promise<MtaStsPolicy | string> {
  if (fetched.kind === 'failed') return fetched.reason;
  const { status, type, text } = fetched;
  if (status !== 200) return `it answers ${status}`;
  // A site where visitors may leave files of other types must not announce a policy.
  if (type !== 'text/plain') return `its type is ${type || 'not given'}, not text/plain`;
  // Only where there is a policy: 5 MB of memory.
  const { parsePolicy } = await import('mailauth/lib/mta-sts.js');
  try {
    const { mode, mx = [], maxAge = 0 } = parsePolicy(text, { strict: true });
    return mx.length > MAX_HOSTS ? `it names more than ${MAX_HOSTS} MX hosts` : { mode, mx, maxAge };
  } catch (error) {
    return messageOf(error);
  }
}

/** Whether the policy names this mail host (§4.1); a `*` stands for one label. */
export function namesHost(policy: Pick<MtaStsPolicy, 'mode' | 'mx'>, host: string): boolean {
  if (policy.mode === 'none') return true;
  const name = host.toLowerCase().replace(/\.$/, '');
  const wildcard = name.replace(/^[^.]+/, '*');
  return policy.mx.some((pattern) => [name, wildcard].includes(pattern.toLowerCase().replace(/\.$/, '')));
}
