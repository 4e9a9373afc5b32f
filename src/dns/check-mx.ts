/**
 * Where the mail of a domain goes (RFC 5321 §5.1) that is meant to come here. An MX record moves all of the domain's mail,
 * whoever reads it today, so what stands there is named.
 */
import { isIP } from 'node:net';
import type { Answer, Failed, MxRecord, Resolver } from './resolver.ts';
import { missing, unanswered, type Finding } from './finding.ts';
import { ownAddresses, placeOf } from './networks.ts';

export interface MailServer {
  readonly hostname: string;
  /** Of the host name. */
  readonly hostAddresses: Answer<string>;
  /** Where mail leaves from, as it is configured. */
  readonly publicIps: readonly string[];
  readonly resolver: Pick<Resolver, 'mx' | 'addresses' | 'lookup'>;
}

interface Exchange extends MxRecord {
  readonly target: Target;
}

/** An `alias` leads here, but senders need not follow it (RFC 2181 §10.3); what failed may be any of the others. */
type Target = 'us' | 'alias' | 'elsewhere' | 'nowhere' | 'literal' | Failed;

/** Of a domain with more, those that senders try first are looked at: its owner decides how many there are. */
const MAX_RECORDS = 20;

/** Of a domain; at our own host name nobody reads mail. */
const MOVES = ' To change it moves all mail of the domain here, and only the addresses in its forwarding exist here.';

/** The verdict on the MX records of `domain`. */
export async function checkMx(domain: string, server: MailServer): Promise<Finding> {
  const answer = await server.resolver.mx(domain);
  if (answer.kind === 'failed') return unanswered(answer);
  if (answer.kind !== 'found') return missing('There is no MX record: nobody’s mail comes here.');
  const records = answer.records.toSorted((a, b) => a.preference - b.preference).slice(0, MAX_RECORDS);
  const found = records.map(({ preference, exchange }) => `${preference} ${exchange}.`);
  // RFC 7505 §3
  const nulls = records.filter(({ exchange }) => exchange === '');
  if (nulls.length === records.length) {
    return { status: 'wrong', found, problem: 'A null MX stands there: it says that the domain takes no mail.' };
  }
  if (nulls.length > 0) {
    const problem = 'A null MX, which says that the domain takes no mail, stands beside others: take it out.';
    return { status: 'wrong', found, problem };
  }
  const exchanges = await Promise.all(
    records.map(async (record) => ({ ...record, target: await targetOf(record.exchange, server) })),
  );
  return { found, ...(faultOfNames(exchanges) ?? checkOrder(exchanges, domain === server.hostname ? '' : MOVES)) };
}

type MxCheck = Omit<Finding, 'found'>;

/** An MX names a host (RFC 1035 §3.3.9), by its own name. */
function faultOfNames(exchanges: readonly Exchange[]): MxCheck | undefined {
  const literals = exchanges.filter(({ target }) => target === 'literal');
  if (literals.length > 0) {
    return { status: 'wrong', problem: `An MX must name a host, not an IP address: ${names(literals)}.` };
  }
  const aliases = exchanges.filter(({ target }) => target === 'alias');
  if (aliases.length === 0) return undefined;
  return { status: 'wrong', problem: `${names(aliases)} is a CNAME, and an MX must name the host itself.` };
}

/** `exchanges` in the order in which senders try them; `moves` is what to say of mail that goes elsewhere today. */
function checkOrder(exchanges: readonly Exchange[], moves: string): MxCheck {
  const ours = exchanges.find(({ target }) => target === 'us');
  const others = exchanges.filter(({ target }) => target === 'elsewhere');
  const silent = exchanges.flatMap(({ target, preference }) =>
    typeof target === 'object' ? [{ ...target, preference }] : [],
  );
  // What did not answer may be this server too.
  const first = Math.min(...[ours, ...silent].map((each) => each?.preference ?? Infinity));
  const taking = others.filter(({ preference }) => preference <= first);
  if (taking.length > 0) {
    const problem =
      ours === undefined
        ? `Mail of the domain goes to ${names(taking)}.${moves}`
        : `Mail goes to ${names(taking)} too, first or by turns: take that out, or give it a higher number.`;
    return { status: 'wrong', problem };
  }
  const [unknown] = silent;
  if (unknown !== undefined && unknown.preference <= (ours?.preference ?? Infinity)) {
    return { status: 'unknown', problem: `DNS did not answer: ${unknown.reason}` };
  }
  const dead = exchanges.filter(({ target }) => target === 'nowhere');
  const noAddress = `There is no address of ${names(dead)}`;
  if (ours === undefined) return { status: 'wrong', problem: `${noAddress}: mail of the domain arrives nowhere.` };
  if (dead.some(({ preference }) => preference <= ours.preference)) {
    const problem = `${noAddress}: senders who try it first bring their mail late, or give up. Take it out.`;
    return { status: 'wrong', problem };
  }
  const notes = [
    ...(others.length === 0 ? [] : [`While this server cannot be reached, mail goes to ${names(others)}.`]),
    ...(dead.length === 0 ? [] : [`${noAddress}: take it out.`]),
  ];
  return { status: 'ok', ...(notes.length === 0 ? {} : { note: notes.join(' ') }) };
}

function names(exchanges: readonly Exchange[]): string {
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
