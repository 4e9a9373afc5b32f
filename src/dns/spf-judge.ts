/** Whether an SPF record lets our mail pass and is whole for everybody else, found by evaluating it (RFC 7208). */
import { evaluateSpf, isAll, MOST_LOOKUPS, MOST_VOIDS, type SpfOutcome, type SpfResolver } from './spf.ts';

export interface SpfPlace {
  readonly domain: string;
  /** Of this server: the EHLO name. */
  readonly hostname: string;
  readonly resolver: SpfResolver;
}

export type SpfVerdict =
  | { readonly kind: 'right' }
  | { readonly kind: 'unsure'; readonly reason: string }
  | { readonly kind: 'wrong'; readonly faults: readonly string[] };

/** Reserved for ever (RFC 1112 §4): what passes from here passes from everywhere. */
const STRANGER = '240.0.0.1';
/** So far is counted, to say how many there are. */
const COUNTED = 30;
/** Of a record with more, no term is looked at by itself. */
const MOST_TERMS = 50;

/** What receivers make of `text` at this place, for mail from our addresses and for any other. */
export async function judgeSpf(text: string, ips: readonly string[], place: SpfPlace): Promise<SpfVerdict> {
  const ours = await Promise.all(ips.map(async (ip) => ({ ip, ...(await evaluate(text, ip, place)) })));
  const silent = ours.find(({ result }) => result === 'temperror');
  if (silent !== undefined) return { kind: 'unsure', reason: silent.reason ?? 'no answer' };
  const other = await evaluate(text, STRANGER, { ...place, most: COUNTED });
  const outside = limitFaults(other);
  const errors = [...ours, other].flatMap(({ result, reason }) => (result === 'permerror' && reason ? [reason] : []));
  const faults = [
    ...outside,
    // Where a limit is passed, that is the error.
    ...(outside.length > 0 ? [] : [...new Set(errors)].map((reason) => `Receivers take it as an error: ${reason}.`)),
    ...ours.flatMap(({ ip, result }) =>
      result === 'pass' || result === 'permerror' ? [] : [`Mail from ${ip} does not pass (${result}).`],
    ),
    ...(other.result === 'pass' ? ['It lets every host of the world send as this domain.'] : []),
  ];
  return faults.length === 0 ? { kind: 'right' } : { kind: 'wrong', faults };
}

/** How far `text` goes beyond what receivers look up (§4.6.4); empty where it stays within. */
export async function excessOf(text: string, place: SpfPlace): Promise<readonly string[]> {
  return limitFaults(await evaluate(text, STRANGER, { ...place, most: COUNTED }));
}

/** The terms that can stay, and what is the matter with each of the others. */
export async function tenable(
  terms: readonly string[],
  place: SpfPlace,
): Promise<{ readonly terms: string[]; readonly faults: string[] }> {
  if (terms.length > MOST_TERMS) return { terms: [...terms], faults: [`It has ${terms.length} terms.`] };
  const judged = await Promise.all(
    terms.map(async (term) => {
      const { result, reason = 'error' } = await evaluate(`v=spf1 ${term}`, STRANGER, { ...place, most: COUNTED });
      if (result === 'pass' && !isAll(term)) return { term, reason: 'every host of the world passes by it' };
      return { term, reason: result === 'permerror' ? reason : undefined };
    }),
  );
  return {
    terms: judged.flatMap(({ term, reason }) => (reason === undefined ? [term] : [])),
    faults: judged.flatMap(({ term, reason }) => (reason === undefined ? [] : [`${term} cannot stay: ${reason}.`])),
  };
}

function limitFaults({ lookups, voids }: SpfOutcome): string[] {
  return [
    ...(lookups > MOST_LOOKUPS ? [`It takes ${lookups} look-ups, and receivers stop at ${MOST_LOOKUPS}.`] : []),
    ...(voids > MOST_VOIDS ? [`${voids} of its look-ups find nothing, and receivers stop at ${MOST_VOIDS}.`] : []),
  ];
}

/** As if `text` stood there, and no other record of the kind. */
function evaluate(text: string, ip: string, { domain, hostname, resolver, most }: SpfPlace & { most?: number }) {
  const stands: SpfResolver = {
    mx: resolver.mx,
    lookup: resolver.lookup,
    txt: (name) => (name === domain ? Promise.resolve({ kind: 'found', records: [text] }) : resolver.txt(name)),
  };
  const sender = `postmaster@${domain}`;
  return evaluateSpf({ sender, ip, helo: hostname, resolver: stands, ...(most === undefined ? {} : { most }) });
}
