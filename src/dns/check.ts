/**
 * What a domain does publish, record by record, compared by meaning and not by spelling. "DNS did not answer" is a state
 * of its own: it proves nothing, so it never turns a verified domain into a broken one.
 */
import { DeadlineError, withDeadline } from '../lib/clock.ts';
import { recordsOf, type Answer, type Resolver } from './resolver.ts';
import { checkDkim } from './check-dkim.ts';
import { checkDmarc } from './check-dmarc.ts';
import { checkMx } from './check-mx.ts';
import { checkMtaSts, checkPolicyHost, checkTlsReporting, type PolicyWorld } from './mta-sts.ts';
import { ownAddresses } from './networks.ts';
import { reportAddress, type DomainRecord } from './records.ts';
import { adviseSpf } from './spf.ts';
import { missing, ok, tagList, unanswered, wrong, type Finding } from './finding.ts';

/** Its `value` is empty where nothing is to be published before more is known. */
export type CheckedRecord = DomainRecord & Finding & { readonly value: string };

export interface DomainCheck {
  readonly records: readonly CheckedRecord[];
  /** Over the required records: broken if one surely is, else unknown if DNS left one open, else ok. */
  readonly verdict: 'ok' | 'broken' | 'unknown';
}

export interface CheckWorld extends PolicyWorld {
  /** A `fresh()` one where somebody waits for an edit to show. */
  readonly resolver: Pick<Resolver, 'txt' | 'mx' | 'addresses' | 'lookup'>;
  /** Of this server. */
  readonly hostname: string;
  /** Where mail leaves from, as it is configured; empty: from the addresses of the host name. */
  readonly publicIps: readonly string[];
  /** Gets each record as soon as it is looked up. */
  readonly onChecked?: ((record: CheckedRecord) => void) | undefined;
}

/** Looks all of the `records` of `domain` up. */
export async function checkDomain(
  domain: string,
  records: readonly DomainRecord[],
  world: CheckWorld,
): Promise<DomainCheck> {
  const hostAddresses = await world.resolver.addresses(world.hostname);
  const place = { domain, hostAddresses, ...world };
  const checked = await Promise.all(
    records.map(async (record) => {
      const found = withFinding(record, await find(record, place));
      world.onChecked?.(found);
      return found;
    }),
  );
  const required = checked.filter((record) => record.required);
  if (required.some(({ status }) => status !== 'ok' && status !== 'unknown'))
    return { records: checked, verdict: 'broken' };
  const unknown = required.some(({ status }) => status === 'unknown');
  return { records: checked, verdict: unknown ? 'unknown' : 'ok' };
}

/** What these publish does not depend on what is there, and may be beside it. */
const ADDED: ReadonlySet<DomainRecord['purpose']> = new Set(['ownership', 'dkim']);

/** The record as it was found. What would be in place of something unknown is not to be published: its value is empty. */
function withFinding(record: DomainRecord, finding: Finding): CheckedRecord {
  const notes = [record.note, finding.note].filter((note) => note !== undefined);
  const withheld = finding.status === 'unknown' && !ADDED.has(record.purpose) ? { value: '' } : {};
  return { ...record, ...finding, ...withheld, ...(notes.length === 0 ? {} : { note: notes.join(' ') }) };
}

interface Place extends CheckWorld {
  readonly domain: string;
  readonly hostAddresses: Answer<string>;
}

function find(record: DomainRecord, place: Place): Promise<Finding> {
  switch (record.type) {
    case 'MX':
      return checkMx(place.domain, place);
    case 'CNAME':
      return checkPolicyHost(record.name, ownAddresses(place.publicIps, place.hostAddresses), place.resolver);
    case 'TXT':
      return findText(record, place);
  }
}

async function findText(record: DomainRecord, place: Place): Promise<Finding> {
  const { domain, resolver } = place;
  if (record.purpose === 'dkim') return misplaced(await checkDkim(record, resolver), record, place);
  const answer = await resolver.txt(record.name);
  if (answer.kind === 'failed') return unanswered(answer);
  const texts = recordsOf(answer);
  switch (record.purpose) {
    case 'ownership':
      return misplaced(ownership(record.value, texts), record, place);
    case 'spf':
      return inTime(adviseSpf(domain, texts, place));
    case 'dmarc':
      return checkDmarc(record.name, texts, { resolver, reportsTo: reportAddress(place.hostname) });
    case 'mta_sts':
      return checkMtaSts(domain, texts, place);
    case 'tlsrpt':
      return checkTlsReporting(texts);
    case 'inbound':
      throw new Error('mail is brought by MX records');
  }
}

/** Of all look-ups of one record, ms: whoever owns the names may let them take long. */
const MAX_MS = 20_000;

async function inTime(finding: Promise<Finding>): Promise<Finding> {
  try {
    return await withDeadline(MAX_MS, 'the look-ups of the record', finding);
  } catch (error) {
    if (error instanceof DeadlineError) return unanswered({ kind: 'failed', reason: error.message });
    throw error;
  }
}

/** Several tokens may be there: more than one tenant may claim a name while it moves. */
function ownership(wanted: string, texts: readonly string[]): Finding {
  const tokens = texts.map((text) => text.trim()).filter((text) => text.startsWith('postern-verification='));
  if (tokens.includes(wanted)) return ok([wanted]);
  if (tokens.length === 0) return missing('There is no such record yet.', texts);
  return wrong('The record has a different token. Add this one beside it.', tokens);
}

/** Many consoles append the domain to whatever is entered as the name. A wildcard, which answers for any, proves nothing. */
async function misplaced(finding: Finding, record: DomainRecord, { domain, resolver }: Place): Promise<Finding> {
  if (finding.status !== 'missing') return finding;
  const twice = `${record.name}.${domain}`;
  const meant = recordsOf(await resolver.txt(twice)).filter((text) => isMeantFor(record, text));
  if (meant.length === 0) return finding;
  const wild = recordsOf(await resolver.txt(`_none.${twice.slice(twice.indexOf('.') + 1)}`));
  if (meant.every((text) => wild.includes(text))) return finding;
  const short = record.name.slice(0, -domain.length - 1);
  return missing(`There is a record at ${twice}: the DNS console appends the domain, so enter only ${short}.`, [
    ...finding.found,
    ...meant,
  ]);
}

/** Whether it is of the kind of the record, whatever it says. */
function isMeantFor({ purpose }: DomainRecord, text: string): boolean {
  if (purpose === 'ownership') return text.trim().startsWith('postern-verification=');
  const tags = tagList(text);
  return tags?.has('p') === true && (tags.get('v') ?? 'DKIM1') === 'DKIM1';
}
