/**
 * Where the mail of a domain goes (RFC 5321 §5.1) that is meant to come here. An MX record moves all of the domain's mail,
 * whoever reads it today, so what stands there is named.
 */
import type { Answer, MxRecord, Resolver } from './answers.ts';
import { missing, unanswered, type Finding } from './finding.ts';

export interface MailServer {
  readonly hostname: string;
  /** Its addresses. */
  readonly addresses: readonly string[];
  readonly resolver: Pick<Resolver, 'mx' | 'addresses' | 'lookup'>;
}

interface Exchange extends MxRecord {
  readonly target: Target;
}

/** An `alias` leads here, but senders need not follow it (RFC 2181 §10.3). */
type Target = 'us' | 'alias' | 'other' | 'nowhere' | Extract<Answer<never>, { kind: 'failed' }>;

/** Of a domain with more, those that senders try first are looked at: its owner decides how many there are. */
const MOST_RECORDS = 20;

const MOVES = 'To change it moves all mail of the domain here, and only the addresses in its forwarding exist here.';

/** The verdict on the MX records of `domain`. */
export async function checkMx(domain: string, server: MailServer): Promise<Finding> {
  const answer = await server.resolver.mx(domain);
  if (answer.kind === 'failed') return unanswered(answer);
  if (answer.kind !== 'found') return missing('There is no MX record: nobody’s mail comes here.');
  const records = answer.records.toSorted((a, b) => a.preference - b.preference).slice(0, MOST_RECORDS);
  const found = records.map(({ preference, exchange }) => `${preference} ${exchange}.`);
  // RFC 7505 §3
  if (records.every(({ exchange }) => exchange === '')) {
    return { status: 'wrong', found, problem: 'A null MX stands there: it says that the domain takes no mail.' };
  }
  const exchanges = await Promise.all(
    records.map(async (record) => ({ ...record, target: await targetOf(record.exchange, server) })),
  );
  return { found, ...judge(exchanges) };
}

function judge(exchanges: readonly Exchange[]): Omit<Finding, 'found'> {
  const aliases = exchanges.filter(({ target }) => target === 'alias');
  if (aliases.length > 0) {
    return { status: 'wrong', problem: `${names(aliases)} is a CNAME, and an MX must name the host itself.` };
  }
  const ours = exchanges.find(({ target }) => target === 'us');
  const rest = exchanges.filter(({ target }) => target !== 'us');
  if (ours === undefined) {
    const [silent] = exchanges.flatMap(({ target }) => (typeof target === 'object' ? [target] : []));
    if (silent !== undefined) return { status: 'unknown', problem: `DNS did not answer: ${silent.reason}` };
    return { status: 'wrong', problem: `Mail of the domain goes to ${names(rest)}. ${MOVES}` };
  }
  if (rest.length === 0) return { status: 'ok' };
  const before = rest.filter(({ preference }) => preference <= ours.preference);
  if (before.length > 0) {
    const problem = `Mail goes to ${names(before)} too, first or by turns: take that out, or give it a higher number.`;
    return { status: 'wrong', problem };
  }
  return { status: 'ok', note: `While this server cannot be reached, mail goes to ${names(rest)}.` };
}

function names(exchanges: readonly Exchange[]): string {
  return exchanges.map(({ exchange }) => exchange).join(', ');
}

async function targetOf(exchange: string, { hostname, addresses, resolver }: MailServer): Promise<Target> {
  if (exchange === hostname) return 'us';
  const answer = await resolver.addresses(exchange);
  if (answer.kind === 'failed') return answer;
  if (answer.kind !== 'found') return 'nowhere';
  if (!answer.records.some((address) => addresses.includes(address))) return 'other';
  const alias = await resolver.lookup(exchange, 'CNAME');
  return alias.kind === 'found' ? 'alias' : 'us';
}
