/**
 * Where the mail of a domain goes (RFC 5321 §5.1) that is meant to come here. An MX record moves all of the domain's mail,
 * the reader today, so what is there is named.
 */
import { isIP } from 'node:net';
import type { Answer, Failed, MxRecord, Resolver } from './resolver.ts';
import { missing, ok, unanswered, wrong, type Finding } from './finding.ts';
import { ownAddresses, placeOf } from './networks.ts';

export interface MailServer {
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
  ' Changing it moves all mail of the domain to this server, which accepts only the addresses in its forwarding.';

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
    return wrong('There is a null MX record: it says that the domain accepts no mail.', found);
  }
  if (nulls.length > 0) {
    return wrong(
      'There is a null MX record, which says that the domain accepts no mail, beside other MX records: remove it.',
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
    return wrong(`Mail of the domain goes to ${names(taking)}.${domain === server.hostname ? '' : MOVES}`, found);
  }
  if (taking.length > 0) {
    return wrong(
      `Mail goes to ${names(taking)} too, first or in turn: remove that record, or give it a higher number.`,
      found,
    );
  }
  const [unknown] = silent;
  if (unknown !== undefined && unknown.preference <= (ours?.preference ?? Infinity)) {
    return { ...unanswered(unknown), found };
  }
  const noAddress = `There is no address of ${names(dead)}`;
  if (ours === undefined) return wrong(`${noAddress}: mail of the domain cannot be delivered.`, found);
  if (dead.some(({ preference }) => preference <= ours.preference)) {
    return wrong(`${noAddress}: mail from senders who try it first is late or lost. Remove it.`, found);
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
