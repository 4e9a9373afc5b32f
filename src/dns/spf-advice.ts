/**
 * The one SPF record that lets our mail pass: what stands there is kept and ours is added in front, so that it is found
 * first and costs receivers least. A record by which we pass already, whichever of its includes says so, is left alone.
 */
import { recordsOf, silenceOf, type Answer } from './answers.ts';
import { unanswered, type Finding } from './finding.ts';
import { excessOf, judgeSpf, tenable, type SpfPlace } from './spf-judge.ts';
import { isAll, spfRecords, termsOf, type SpfResolver } from './spf.ts';

/** Bytes: a longer record may not fit into an answer over UDP (RFC 7208 §3.4). */
const LONGEST = 450;

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
    return { status: 'unknown', found, problem: `${hostname} has no address, so where mail comes from is not known.` };
  }
  const byAddress = ips.map((ip) => `${ip.includes(':') ? 'ip6' : 'ip4'}:${ip}`);
  const byName = ips.every((ip) => addresses.includes(ip)) ? [`a:${hostname}`] : byAddress;
  const [only] = found;
  const place = { domain, hostname, resolver: askedOnce(world.resolver) };
  if (only === undefined) return missing(texts, byName, place);
  // §4.5: two records are a permanent error for every receiver.
  const isOne = found.length === 1;
  const verdict = isOne ? await judgeSpf(only, ips, place) : severalFound(found.length);
  if (verdict.kind === 'right') return { status: 'ok', found };
  if (verdict.kind === 'unsure') return { ...unanswered({ kind: 'failed', reason: verdict.reason }), found };
  const kept = await tenable(found.flatMap(meantTerms), place);
  const others = kept.terms.filter((term) => ![...byName, ...byAddress].includes(bare(term)));
  const named = merged(byName, others);
  // Addresses cost no look-up, where the name would be one too many.
  const value = (await excessOf(named, place)).length === 0 ? named : merged(byAddress, others);
  const length = Buffer.byteLength(value);
  const long =
    length > LONGEST ? [`It would have ${length} bytes, and no more than ${LONGEST} surely fit into an answer.`] : [];
  const isTooMuch = long.length > 0 || (await excessOf(value, place)).length > 0;
  const rest = isTooMuch ? ['Take out what no longer sends as this domain.'] : [];
  const problem = [...verdict.faults, ...kept.faults, ...long, ...rest].join(' ');
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

function severalFound(count: number) {
  return {
    kind: 'wrong',
    faults: [`There are ${count} SPF records where one may stand; this is all of them in one.`],
  } as const;
}

/** The terms of a record as they count: a dash is the hyphen that was meant, and a redirect beside `all` nothing (§6.1). */
function meantTerms(record: string): string[] {
  const terms = termsOf(record).map((term) => term.replace(/^(-|\p{Pd}|[\u2212\ufffd])+all$/iu, '-all'));
  return terms.some(isAll) ? terms.filter((term) => !isRedirect(term)) : terms;
}

function isRedirect(term: string): boolean {
  return /^redirect=/i.test(term);
}

/**
 * One record of our terms and those of others, each once; it ends as the first of several did. A redirect that cannot be
 * the end is an include: what it lets pass still does. Of modifiers that explain, one may stand there (§6).
 */
function merged(ours: readonly string[], others: readonly string[]): string {
  const end = others.find(isAll) ?? others.find(isRedirect);
  const explanation = others.find(isExplanation);
  const middle = others
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
