/**
 * What a domain does publish, record by record, compared by meaning and not by spelling. "DNS did not answer" is a state
 * of its own: it proves nothing, so it never turns a verified domain into a broken one.
 */
import { missing, ok, tagList, unanswered, wrong, type Finding, type Tags } from './finding.ts';
import { isIP } from 'node:net';
import { DeadlineError, withDeadline } from '../lib/clock.ts';
import { checkMtaSts, checkPolicyHost, checkTlsReporting, type PolicyWorld } from './mta-sts.ts';
import { ownAddresses, placeOf } from './networks.ts';
import { reportAddress, type DomainRecord } from './records.ts';
import { recordsOf, type Answer, type Failed, type MxRecord, type Resolver } from './resolver.ts';
import { adviseSpf } from './spf.ts';

/** Its `value` is empty where nothing is to be published before more is known. */
export type CheckedRecord = DomainRecord & Finding & { readonly value: string };

interface DomainCheck {
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
    return await withDeadline(MAX_MS, 'the lookups for the record', finding);
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
  return wrong('The record has a different token. Add this one as well.', tokens);
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

// A DKIM key in DNS (RFC 6376 §3.6.1), compared by meaning: what matters is that verifiers find our key there.

/** The verdict on what stands at the selector. */
export async function checkDkim(
  { name, value }: Pick<DomainRecord, 'name' | 'value'>,
  resolver: Pick<Resolver, 'txt' | 'lookup'>,
): Promise<Finding> {
  const answer = await resolver.txt(name);
  if (answer.kind === 'failed') return unanswered(answer);
  const found = recordsOf(answer);
  const [only] = found;
  const [target] = recordsOf(await resolver.lookup(name, 'CNAME'));
  if (only === undefined) {
    return target === undefined
      ? missing('There is no such record yet.')
      : missing(`The name is a CNAME to ${target}, and there is no key there.`, [`CNAME ${target}`]);
  }
  const wanted = tagList(value);
  if (found.length > 1) {
    // §3.6.2.2: undefined; verifiers take either, or none.
    const others = found.filter((text) => differsFrom(wanted, tagList(text)) !== undefined);
    const problem = `A selector must have only one TXT record.${surplus(found, others)}`;
    return { status: 'duplicate', found, problem };
  }
  const tags = tagList(only);
  const problem = differsFrom(wanted, tags);
  const through = target === undefined ? '' : ` (by its CNAME to ${target})`;
  if (problem !== undefined) return wrong(problem + through, found);
  return ok(found, [
    target === undefined ? undefined : `It is found through a CNAME to ${target}, which is fine.`,
    // §3.6.1
    listOf(tags, 't').includes('y')
      ? 't=y means that DKIM is only being tested. Remove it when testing is done.'
      : undefined,
  ]);
}

/** Which of the records to take out, `others` being those that are wrong. */
function surplus(found: readonly string[], others: readonly string[]): string {
  if (others.length === 0) return ' All of them contain the correct key: keep one.';
  return others.length < found.length ? ` Remove: ${others.join(' | ')}` : '';
}

/** Why verifiers would not find the wanted key in this record. */
function differsFrom(wanted: Tags | undefined, tags: Tags | undefined): string | undefined {
  if (tags === undefined) return 'This is not a list of tags such as "v=DKIM1; k=rsa; p=…".';
  const [first] = tags.keys();
  if (tags.has('v') && (first !== 'v' || tags.get('v') !== 'DKIM1')) return 'It does not begin with v=DKIM1.';
  const algorithm = wanted?.get('k') ?? 'rsa';
  if ((tags.get('k') ?? 'rsa') !== algorithm) return `The key type k= is not ${algorithm}.`;
  const key = bare(tags.get('p'));
  if (key === undefined) return 'There is no key: p= is missing.';
  if (key === '') return 'The key is revoked: p= is empty.';
  if (key !== bare(wanted?.get('p'))) return otherKey(key, bare(wanted?.get('p')) ?? '');
  if (tags.has('h') && !listOf(tags, 'h').includes('sha256')) return 'h= does not allow sha256.';
  if (tags.has('s') && !listOf(tags, 's').some((service) => service === '*' || service === 'email')) {
    return 's= does not allow email.';
  }
  return undefined;
}

/** Consoles that take 255 characters and no more cut the end off. */
function otherKey(key: string, wanted: string): string {
  return wanted.startsWith(key) ? 'The key p= is cut short.' : 'The key in p= is a different key.';
}

function bare(base64: string | undefined): string | undefined {
  return base64?.replaceAll(/\s+/g, '');
}

function listOf(tags: Tags | undefined, name: string): string[] {
  return (tags?.get(name) ?? '').split(':').map((item) => item.trim());
}

// The DMARC policy of a domain (RFC 9989). Any policy is the owner's decision, as long as receivers can read it, and what is
// advised is never weaker. A subdomain has that of a domain above, where alone it is corrected: a record of its own would
// stand against it.

/**
 * The verdict on the TXT records `texts` at `name` (`_dmarc.…`), or else on those of the domains above. A note says how
 * reports would come to this server too, at `reportsTo`.
 */
async function checkDmarc(
  name: string,
  texts: readonly string[],
  { resolver, reportsTo }: { readonly resolver: Pick<Resolver, 'txt' | 'lookup'>; readonly reportsTo: string },
): Promise<Finding> {
  const found = policiesIn(texts);
  const [only] = found;
  // §4.10: with two of them there is no policy.
  if (found.length > 1) {
    const problem = 'There must be only one DMARC record. Receivers ignore multiple records: keep one.';
    return { status: 'duplicate', found, value: '', problem };
  }
  if (only !== undefined) {
    const problem = faultIn(only);
    return problem === undefined
      ? ok(found, [reportsHint(only, reportsTo)])
      : { ...wrong(problem, found), value: corrected(only) ?? '' };
  }
  const near = texts.find((text) => /dmarc/i.test(text));
  const above = await policyAbove(name.slice('_dmarc.'.length), resolver);
  if (above === undefined) return none(name, near, resolver);
  return 'kind' in above ? { ...unanswered(above), found: near === undefined ? [] : [near] } : inherited(above, near);
}

/** Whom the reports go to is the owner's choice. */
function reportsHint(policy: string, reportsTo: string): string | undefined {
  if ((tagList(policy)?.get('rua') ?? '').toLowerCase().includes(`mailto:${reportsTo}`)) return undefined;
  return `To also see its reports with \`postern domains reports\`, add mailto:${reportsTo} to rua=.`;
}

/** Neither the domain nor one above has a policy. */
async function none(name: string, near: string | undefined, resolver: Pick<Resolver, 'lookup'>): Promise<Finding> {
  if (near !== undefined) {
    const problem = `This is not a DMARC policy, because it does not begin with "v=DMARC1;": ${near}`;
    const isMeantAsPolicy = /quarantine|reject|\bp\s*[=:]/i.test(near);
    return isMeantAsPolicy ? { ...missing(problem, [near]), value: corrected(near) ?? '' } : missing(problem);
  }
  const [target] = recordsOf(await resolver.lookup(name, 'CNAME'));
  return target === undefined
    ? missing('There is no DMARC policy.')
    : missing(`The name is a CNAME to ${target}, and there is no DMARC policy there.`, [`CNAME ${target}`]);
}

function inherited({ domain, texts }: EffectivePolicy, near: string | undefined): Finding {
  const at = `_dmarc.${domain}`;
  const [only, ...others] = texts;
  if (only === undefined || others.length > 0) {
    const problem = `There are several DMARC records at ${at}, so none is valid here: keep one there.`;
    return { ...wrong(problem, texts), value: '' };
  }
  const problem = faultIn(only);
  if (problem !== undefined) {
    return { ...wrong(`The policy at ${at} applies here too: ${problem} Correct it there.`, texts), value: '' };
  }
  const tags = tagList(only);
  // Of an active policy, the tag that decides on mail of an existing domain below (§4.10.1).
  const policy = tags?.has('sp') ? `sp=${tags.get('sp')}` : `p=${tags?.get('p')}`;
  const rest = near === undefined ? undefined : `The record at the name itself is not a policy: ${near}`;
  return ok(texts, [`The policy at ${at} applies here: ${policy}.`, rest]);
}

// The text of a DMARC policy (RFC 9989 §4.7): what receivers make of it, and what its owner meant.

/** The texts among these that are policies. */
function policiesIn(texts: readonly string[]): string[] {
  return texts.filter((text) => /^[vV]\s*=\s*DMARC1\s*(;|$)/.test(text));
}

const POLICY = /^(none|quarantine|reject)$/i;
/** URIs, of which receivers send mail to one at least. */
const REPORTS = {
  test(list: string): boolean {
    const uris = list.split(',').map((uri) => uri.trim());
    return uris.every((uri) => URI.test(uri)) && uris.some((uri) => /^mailto:[^@]+@./i.test(uri));
  },
};
const URI = /^[a-z][a-z\d+.-]*:\S+$/i;

/** What may be in the tags whose values receivers must understand. */
const VALUES: Readonly<Record<string, { test(value: string): boolean }>> = {
  p: POLICY,
  sp: POLICY,
  np: POLICY,
  adkim: /^[rs]$/i,
  aspf: /^[rs]$/i,
  pct: /^(\d\d?|100)$/,
  t: /^[yn]$/i,
  psd: /^[ynu]$/i,
  fo: /^[01ds](\s*:\s*[01ds])*$/i,
  rua: REPORTS,
  ruf: REPORTS,
};

/** What is the matter with a policy; nothing: receivers can read all of it. */
function faultIn(text: string): string | undefined {
  const tags = tagList(text);
  if (tags === undefined) {
    return 'Syntax error. Check for missing or extra ; and =, and for duplicate tags. Example: v=DMARC1; p=none';
  }
  const faulty = [...tags].filter(([name, value]) => !isUnderstood(name, value));
  const problems = faulty.map(([name, value]) => {
    const choice = VALUES[name] === POLICY ? ': it may be none, quarantine or reject' : '';
    return `${name}=${value} is not valid${choice}.`;
  });
  if (!tags.has('p')) problems.push('It has no policy: p=none, p=quarantine or p=reject is missing.');
  if (!tags.has('p') || faulty.some(([name]) => VALUES[name] === POLICY)) {
    // §4.10.1
    const hasAddress = REPORTS.test(tags.get('rua') ?? '');
    problems.push(hasAddress ? 'Receivers treat it as p=none.' : 'Receivers ignore the record.');
  }
  return problems.length === 0 ? undefined : problems.join(' ');
}

/** The policy without its faults, never a weaker one; undefined where only its owner can say what was meant. */
function corrected(text: string): string | undefined {
  const tags = roughTags(text);
  const isCertain = ['p', 'sp', 'np'].every((name) => {
    const meant = new Set(tags.flatMap((tag) => (tag.name === name ? [tag.value.toLowerCase()] : [])));
    return meant.size <= 1 && [...meant].every((value) => POLICY.test(value));
  });
  const policy = tags.find(({ name }) => name === 'p')?.value;
  if (!isCertain || (policy === undefined && /quarantine|reject/i.test(text))) return undefined;
  const kept = new Map(tags.map(({ name, value }) => [name, VALUES[name] === REPORTS ? targets(value) : value]));
  const rest = [...kept].filter(([name, value]) => name !== 'v' && name !== 'p' && isUnderstood(name, value));
  return ['v=DMARC1', `p=${policy ?? 'none'}`, ...rest.map((tag) => tag.join('='))].join('; ');
}

/** Whose the domain is (§4.7): `y` of a public suffix, `n` of an organization. */
function psdOf(text = ''): string {
  return (roughTags(text).find(({ name }) => name === 'psd')?.value ?? '').toLowerCase();
}

function isUnderstood(name: string, value: string): boolean {
  return VALUES[name]?.test(value) !== false;
}

/** Whatever can be taken for a tag, as it stands there, where a `;` is missing or a quotation mark is too much as well. */
function roughTags(text: string): { readonly name: string; readonly value: string }[] {
  return text
    .replaceAll(/["“”]/g, '')
    .replaceAll(/\s+/g, ' ')
    .split(/;| (?=[a-z]+ ?=)/i)
    .flatMap((part) => {
      const [, name, value = ''] = /^ ?([a-z]\w*) ?= ?(.*)$/i.exec(part) ?? [];
      return name === undefined ? [] : [{ name: name.toLowerCase(), value: value.replace(/(?<![ ,])[ ,]+$/, '') }];
    });
}

/** The addresses for reports among these, each as the URI that it has to be. */
function targets(list: string): string {
  return list
    .split(',')
    .map((target) => target.trim())
    .flatMap((target) => (/^[^\s@:]+@[^\s@:]+$/.test(target) ? [`mailto:${target}`] : [target]))
    .filter((target) => URI.test(target) && !/^mailto:[^@]*$/i.test(target))
    .join(',');
}

// Which policy of the domains above counts for a domain that has none of its own: the DNS tree walk (RFC 9989 §4.10).

/** There is one policy; several are none. */
interface EffectivePolicy {
  readonly domain: string;
  readonly texts: readonly string[];
}

/** Of a longer name no more than these are asked. */
const MAX_LABELS = 7;

/** The policy that counts, or several at one name where none does. */
async function policyAbove(
  domain: string,
  resolver: Pick<Resolver, 'txt'>,
): Promise<EffectivePolicy | Extract<Answer<never>, { kind: 'failed' }> | undefined> {
  const above = domain.split('.').slice(1).slice(-MAX_LABELS);
  const found: EffectivePolicy[] = [];
  for (const [i] of above.entries()) {
    const name = above.slice(i).join('.');
    const answer = await resolver.txt(`_dmarc.${name}`);
    // A policy of a whole top-level domain is rare, and a resolver of a closed network does not answer for it.
    if (answer.kind === 'failed' && name.includes('.')) return answer;
    const texts = policiesIn(recordsOf(answer));
    if (texts.length > 0) found.push({ domain: name, texts });
    if (texts.length === 1 && /^[yn]$/.test(psdOf(texts[0]))) break;
  }
  const standing = found.filter(({ texts }) => texts.length === 1);
  const last = standing.at(-1);
  if (last === undefined) return found.at(-1);
  // §4.10.2: of the organization, which is the one with the fewest labels, or the one below a public suffix.
  if (psdOf(last.texts[0]) !== 'y') return last;
  const organization = domain.split('.').slice(-last.domain.split('.').length - 1);
  return standing.find((policy) => policy.domain === organization.join('.')) ?? last;
}

// Where the mail of a domain goes (RFC 5321 §5.1) that is meant to come here. An MX record moves all of the domain's mail,
// the reader today, so what is there is named.

interface MailServer {
  readonly hostname: string;
  /** Of the host name. */
  readonly hostAddresses: Answer<string>;
  /** Where mail leaves from, as it is configured. */
  readonly publicIps: readonly string[];
  readonly resolver: Pick<Resolver, 'mx' | 'addresses' | 'lookup'>;
}

/** An `alias` leads here, but senders need not follow it (RFC 2181 §10.3); what failed may be any of the others. */
type Target = 'us' | 'alias' | 'elsewhere' | 'nowhere' | 'literal' | Failed;

/** Of a domain with more, those that senders try first are looked at: its owner decides how many there are. */
const MAX_RECORDS = 20;

/** Of a domain; at our own host name nobody reads mail. */
const MOVES =
  ' Changing it moves all mail for the domain to this server, which accepts only addresses that have a forwarding rule.';

/** The verdict on the MX records of `domain`. */
export async function checkMx(domain: string, server: MailServer): Promise<Finding> {
  const answer = await server.resolver.mx(domain);
  if (answer.kind === 'failed') return unanswered(answer);
  if (answer.kind !== 'found')
    return missing('There is no MX record, so mail for this domain does not reach this server.');
  const records = answer.records.toSorted((a, b) => a.preference - b.preference).slice(0, MAX_RECORDS);
  const found = records.map(({ preference, exchange }) => `${preference} ${exchange}.`);
  // RFC 7505 §3
  const nulls = records.filter(({ exchange }) => exchange === '');
  if (nulls.length === records.length) {
    return wrong('There is a null MX record, which means that the domain accepts no mail.', found);
  }
  if (nulls.length > 0) {
    return wrong(
      'Besides other MX records, there is a null MX record, which means that the domain accepts no mail: remove it.',
      found,
    );
  }
  const exchanges = await Promise.all(
    records.map(async (record) => ({ ...record, target: await targetOf(record.exchange, server) })),
  );
  function to(target: Target) {
    return exchanges.filter((each) => each.target === target);
  }
  // An MX names a host (RFC 1035 §3.3.9), by its own name.
  const [literals, aliases] = [to('literal'), to('alias')];
  if (literals.length > 0) return wrong(`An MX record must name a host, not an IP address: ${names(literals)}.`, found);
  if (aliases.length > 0) {
    return wrong(`${names(aliases)} is a CNAME, and an MX record must name the host itself.`, found);
  }
  const [[ours], others, dead] = [to('us'), to('elsewhere'), to('nowhere')];
  const silent = exchanges.flatMap(({ target, preference }) =>
    typeof target === 'object' ? [{ ...target, preference }] : [],
  );
  // What did not answer may be this server too.
  const first = Math.min(...[ours, ...silent].map((each) => each?.preference ?? Infinity));
  const taking = others.filter(({ preference }) => preference <= first);
  if (taking.length > 0 && ours === undefined) {
    return wrong(`Mail for the domain goes to ${names(taking)}.${domain === server.hostname ? '' : MOVES}`, found);
  }
  if (taking.length > 0) {
    return wrong(
      `Mail also goes to ${names(taking)}, either first or in rotation: remove that record, or give it a higher preference number.`,
      found,
    );
  }
  const [unknown] = silent;
  if (unknown !== undefined && unknown.preference <= (ours?.preference ?? Infinity)) {
    return { ...unanswered(unknown), found };
  }
  const noAddress = `No address was found for ${names(dead)}`;
  if (ours === undefined) return wrong(`${noAddress}: mail for the domain cannot be delivered.`, found);
  if (dead.some(({ preference }) => preference <= ours.preference)) {
    return wrong(`${noAddress}: mail from senders that try it first is delayed or lost. Remove it.`, found);
  }
  return ok(found, [
    others.length === 0 ? undefined : `While this server cannot be reached, mail goes to ${names(others)}.`,
    dead.length === 0 ? undefined : `${noAddress}: remove it.`,
  ]);
}

function names(exchanges: readonly MxRecord[]): string {
  return exchanges.map(({ exchange }) => exchange).join(', ');
}

async function targetOf(exchange: string, server: MailServer): Promise<Target> {
  const { hostname, hostAddresses, publicIps, resolver } = server;
  if (isIP(exchange) !== 0) return 'literal';
  const answer = exchange === hostname ? hostAddresses : await resolver.addresses(exchange);
  if (answer.kind === 'nxdomain' || answer.kind === 'nodata') return 'nowhere';
  if (exchange === hostname) return 'us';
  const place = placeOf(answer, ownAddresses(publicIps, hostAddresses));
  if (place !== 'here') return place;
  const alias = await resolver.lookup(exchange, 'CNAME');
  if (alias.kind === 'failed') return alias;
  return alias.kind === 'found' ? 'alias' : 'us';
}
