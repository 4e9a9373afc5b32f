/**
 * SPF by evaluation (RFC 7208): what a receiver would make of mail from an address. mailauth evaluates, in the mode that
 * keeps to the RFC; the suite of openspf.org holds it (test/peers/spf.test.ts).
 */
import { type Resolver, recordsOf, silenceOf, type Answer, type Failed, mailauthResolver } from './resolver.ts';
import { ok, unanswered, type Finding } from './finding.ts';

export type SpfResolver = Pick<Resolver, 'txt' | 'mx' | 'lookup'>;

export interface SpfQuestion {
  /** Envelope sender. */
  readonly sender: string;
  /** Of the client that sends. */
  readonly ip: string;
  readonly helo: string;
  readonly resolver: SpfResolver;
  /** Look-ups, and look-ups that find nothing, after which it is an error; default: those of the RFC. */
  readonly most?: number;
}

const RESULTS = ['none', 'neutral', 'pass', 'fail', 'softfail', 'temperror', 'permerror'] as const;

export interface SpfOutcome {
  readonly result: (typeof RESULTS)[number];
  /** Of an error, in words. */
  readonly reason: string | undefined;
  /** Look-ups that counted. */
  readonly lookups: number;
  /** How many of them found nothing. */
  readonly voids: number;
}

/** §4.6.4 */
const MAX_LOOKUPS = 10;
const MAX_VOIDS = 2;

/** §4.6.4 asks for at least 20 s. */
const MAX_MS = 20_000;

/** Never rejects: what DNS does not say is a `temperror`. */
export async function evaluateSpf({ sender, ip, helo, resolver, most }: SpfQuestion): Promise<SpfOutcome> {
  // Only for a check of DNS: 10 MB of memory.
  const { spf } = await import('mailauth/lib/spf/index.js');
  const found = await spf({
    sender,
    ip,
    helo,
    mta: helo,
    resolver: mailauthResolver(resolver),
    strict: true,
    maxResolveCount: most ?? MAX_LOOKUPS,
    maxVoidCount: most ?? MAX_VOIDS,
    maxElapsedTime: MAX_MS,
  });
  const { result, comment = '' } = found.status;
  const reason = comment.split(`processing during lookup of ${sender}: `)[1];
  const { count: lookups, void: voids } = found.lookups ?? { count: 0, void: 0 };
  return { result: isResult(result) ? result : 'temperror', reason, lookups, voids };
}

function isResult(word: string): word is SpfOutcome['result'] {
  return RESULTS.some((result) => result === word);
}

/** What follows the version, term by term. */
function termsOf(record: string): string[] {
  return record.split(/ +/).filter((term, i) => i > 0 && term !== '');
}

/** Whether the term matches everybody (§5.1). */
function isAll(term: string): boolean {
  return /^[-+~?]?all$/i.test(term);
}

/** The texts among these that are SPF records (§4.5). */
function spfRecords(texts: readonly string[]): string[] {
  return texts.filter((text) => /^v=spf1( |$)/i.test(text));
}

// * The one SPF record that lets our mail pass: what is there is kept and ours is added in front, so that it is found
// first and costs receivers least. A record by which we pass already, whichever of its includes says so, is left alone.

/** Bytes: a longer record may not fit into an answer over UDP (RFC 7208 §3.4). */
const MAX_LENGTH = 450;

export interface SpfWorld {
  readonly resolver: SpfResolver;
  readonly hostname: string;
  /** Of the host name. */
  readonly hostAddresses: Answer<string>;
  /** Where mail leaves from, as it is configured; empty: from the addresses of the host name. */
  readonly publicIps: readonly string[];
}

/** The verdict on the TXT records `texts` of `domain`. */
export async function adviseSpf(domain: string, texts: readonly string[], world: SpfWorld): Promise<Finding> {
  const { hostname, hostAddresses, publicIps } = world;
  const found = spfRecords(texts);
  const silence = publicIps.length === 0 ? silenceOf(hostAddresses) : undefined;
  if (silence !== undefined) return { ...unanswered({ kind: 'failed', reason: silence }), found };
  const addresses = recordsOf(hostAddresses);
  const ips = publicIps.length === 0 ? addresses : publicIps;
  if (ips.length === 0) {
    return {
      status: 'unknown',
      found,
      problem: `${hostname} has no address, so the IP addresses that send mail are not known.`,
    };
  }
  const byAddress = ips.map((ip) => `${ip.includes(':') ? 'ip6' : 'ip4'}:${ip}`);
  const byName = ips.every((ip) => addresses.includes(ip)) ? [`a:${hostname}`] : byAddress;
  const [only] = found;
  const place = { domain, hostname, resolver: askedOnce(world.resolver) };
  if (only === undefined) return missing(texts, byName, place);
  // §4.5: two records are a permanent error for every receiver.
  const isOne = found.length === 1;
  const several = `There are ${found.length} SPF records, but only one is allowed. This record combines them.`;
  const faults = isOne ? await faultsOf(only, ips, place) : [several];
  if ('kind' in faults) return { ...unanswered(faults), found };
  if (faults.length === 0) return ok(found);
  const kept = await tenable(found.flatMap(meantTerms), place);
  const otherTerms = kept.terms.filter((term) => ![...byName, ...byAddress].includes(bare(term)));
  const named = merged(byName, otherTerms);
  // Addresses cost no look-up, where the name would be one too many.
  const value = (await excessOf(named, place)).length === 0 ? named : merged(byAddress, otherTerms);
  const length = Buffer.byteLength(value);
  const long =
    length > MAX_LENGTH
      ? [`It would have ${length} bytes, and only ${MAX_LENGTH} are certain to fit into a DNS response.`]
      : [];
  const isTooMuch = long.length > 0 || (await excessOf(value, place)).length > 0;
  const rest = isTooMuch ? ['Remove services that no longer send as this domain.'] : [];
  const problem = [...faults, ...kept.faults, ...long, ...rest].join(' ');
  return { status: isOne ? 'wrong' : 'duplicate', found, value, problem };
}

/** What is nearly a record says who sends as well. */
async function missing(texts: readonly string[], ours: readonly string[], place: SpfPlace): Promise<Finding> {
  const near = texts.find((text) => /^\W*(v\W*spf(?!2)|spf1)/i.test(text));
  if (near === undefined) {
    return { status: 'missing', found: [], value: merged(ours, ['~all']), problem: 'There is no SPF record.' };
  }
  const { terms } = await tenable(meantTerms(near.replaceAll(/["“”;,]/g, ' ').trim()), place);
  const isEnded = terms.some((term) => isAll(term) || isRedirect(term));
  const value = merged(ours, isEnded ? terms : [...terms, '~all']);
  return { status: 'missing', found: [near], value, problem: `This does not count as an SPF record: ${near}` };
}

/** The terms of a record as they count: a dash is the hyphen that was meant, and a redirect beside `all` nothing (§6.1). */
function meantTerms(record: string): string[] {
  const terms = termsOf(record).map((term) => term.replace(/^[\p{Pd}\u2212\ufffd]+all$/iu, '-all'));
  return terms.some(isAll) ? terms.filter((term) => !isRedirect(term)) : terms;
}

function isRedirect(term: string): boolean {
  return /^redirect=/i.test(term);
}

/**
 * One record of our terms and those of others, each once; it ends as the first of several did. A redirect that cannot be
 * the end is an include: what it lets pass still does. Of modifiers that explain, one may be there (§6).
 */
function merged(ours: readonly string[], otherTerms: readonly string[]): string {
  const end = otherTerms.find(isAll) ?? otherTerms.find(isRedirect);
  const explanation = otherTerms.find(isExplanation);
  const middle = otherTerms
    .filter((term) => !isAll(term) && term !== end && (!isExplanation(term) || term === explanation))
    .map((term) => term.replace(/^redirect=/i, 'include:'));
  const ending = end === undefined ? [] : [end.replace(/^\+?all$/i, '~all')];
  return ['v=spf1', ...new Set([...ours, ...middle]), ...ending].join(' ');
}

function isExplanation(term: string): boolean {
  return /^exp=/i.test(term);
}

/** Without qualifier and CIDR lengths that leave one address, in lower case. */
function bare(term: string): string {
  return term
    .toLowerCase()
    .replace(/^[-+~?]/, '')
    .replace(/(\/32)?(\/\/?128)?$/, '');
}

/** One record is evaluated many times. */
function askedOnce(resolver: SpfResolver): SpfResolver {
  function once<T>(ask: (name: string) => Promise<T>): (name: string) => Promise<T> {
    const asked = new Map<string, Promise<T>>();
    return (name) => {
      const answer = asked.get(name) ?? ask(name);
      asked.set(name, answer);
      return answer;
    };
  }
  const types = {
    A: once((name) => resolver.lookup(name, 'A')),
    AAAA: once((name) => resolver.lookup(name, 'AAAA')),
    CNAME: once((name) => resolver.lookup(name, 'CNAME')),
    PTR: once((name) => resolver.lookup(name, 'PTR')),
  };
  return { txt: once(resolver.txt), mx: once(resolver.mx), lookup: (name, type) => types[type](name) };
}

// Whether an SPF record lets our mail pass and is whole for everybody else, found by evaluating it (RFC 7208).

interface SpfPlace {
  readonly domain: string;
  /** Of this server: the EHLO name. */
  readonly hostname: string;
  readonly resolver: SpfResolver;
}

/** Reserved for ever (RFC 1112 §4): what passes from here passes from everywhere. */
const STRANGER = '240.0.0.1';
/** The same (RFC 9637); it is within 2000::/3, which is all of IPv6 that is in use. */
const STRANGER6 = '3fff::1';
/** So far is counted, to say how many there are. */
const COUNTED = 30;
/** Of a record with more, no term is looked at by itself. */
const MAX_TERMS = 50;

/** What receivers find wrong with `text` at this place, for mail from our addresses and for any other. */
async function faultsOf(text: string, ips: readonly string[], place: SpfPlace): Promise<readonly string[] | Failed> {
  const ours = await Promise.all(ips.map(async (ip) => ({ ip, ...(await evaluate(text, ip, place)) })));
  const silent = ours.find(({ result }) => result === 'temperror');
  if (silent !== undefined) return { kind: 'failed', reason: silent.reason ?? 'no answer' };
  const other = await evaluate(text, STRANGER, { ...place, most: COUNTED });
  const open = await openness(text, place);
  const outside = limitFaults(other);
  const errors = [...ours, other].flatMap(({ result, reason }) => (result === 'permerror' && reason ? [reason] : []));
  return [
    ...outside,
    // Where a limit is passed, that is the error.
    ...(outside.length > 0 ? [] : [...new Set(errors)].map((reason) => `Receivers treat it as an error: ${reason}.`)),
    ...ours.flatMap(({ ip, result }) =>
      result === 'pass' || result === 'permerror' ? [] : [`Mail from ${ip} does not pass (${result}).`],
    ),
    ...(open === undefined ? [] : [`It allows any host to send as this domain${open}.`]),
  ];
}

/** How far `text` goes beyond what receivers look up (§4.6.4); empty where it stays within. */
async function excessOf(text: string, place: SpfPlace): Promise<readonly string[]> {
  return limitFaults(await evaluate(text, STRANGER, { ...place, most: COUNTED }));
}

/** The terms that can stay, and what is the matter with each of the others. */
async function tenable(
  terms: readonly string[],
  place: SpfPlace,
): Promise<{ readonly terms: string[]; readonly faults: string[] }> {
  if (terms.length > MAX_TERMS) return { terms: [...terms], faults: [`It has ${terms.length} terms.`] };
  const judged = await Promise.all(
    terms.map(async (term) => {
      const { result, reason = 'error' } = await evaluate(`v=spf1 ${term}`, STRANGER, { ...place, most: COUNTED });
      const open = isAll(term) ? undefined : await openness(`v=spf1 ${term}`, place);
      if (open !== undefined) return { term, reason: `it allows any host${open}` };
      return { term, reason: result === 'permerror' ? reason : undefined };
    }),
  );
  return {
    terms: judged.flatMap(({ term, reason }) => (reason === undefined ? [term] : [])),
    faults: judged.flatMap(({ term, reason }) => (reason === undefined ? [] : [`${term} must be removed: ${reason}.`])),
  };
}

/** Over what everybody passes, in words; undefined where a stranger does not. */
async function openness(text: string, place: SpfPlace): Promise<string | undefined> {
  if ((await evaluate(text, STRANGER, { ...place, most: COUNTED })).result === 'pass') return '';
  return (await evaluate(text, STRANGER6, { ...place, most: COUNTED })).result === 'pass' ? ' over IPv6' : undefined;
}

function limitFaults({ lookups, voids, crowds }: Evaluated): string[] {
  return [
    ...(lookups > MAX_LOOKUPS ? [`It needs ${lookups} DNS lookups, but receivers stop at ${MAX_LOOKUPS}.`] : []),
    ...(voids > MAX_VOIDS ? [`${voids} of its DNS lookups find nothing, but receivers stop at ${MAX_VOIDS}.`] : []),
    ...Array.from(
      crowds,
      ([name, count]) => `It needs ${count} MX records of ${name}, but receivers stop at ${MAX_LOOKUPS}.`,
    ),
  ];
}

interface Evaluated extends SpfOutcome {
  /** Of a term `mx`, the names with more records than are looked up (§4.6.4), and how many they have. */
  readonly crowds: ReadonlyMap<string, number>;
}

/** As if `text` stood there, and no other record of the kind. */
async function evaluate(
  text: string,
  ip: string,
  { domain, hostname, resolver, most }: SpfPlace & { most?: number },
): Promise<Evaluated> {
  const crowds = new Map<string, number>();
  const replaced: SpfResolver = {
    async mx(name) {
      const answer = await resolver.mx(name);
      if (answer.kind === 'found' && answer.records.length > MAX_LOOKUPS) crowds.set(name, answer.records.length);
      return answer;
    },
    lookup: resolver.lookup,
    txt: (name) => (name === domain ? Promise.resolve({ kind: 'found', records: [text] }) : resolver.txt(name)),
  };
  const sender = `postmaster@${domain}`;
  const question = { sender, ip, helo: hostname, resolver: replaced };
  return { ...(await evaluateSpf(most === undefined ? question : { ...question, most })), crowds };
}
