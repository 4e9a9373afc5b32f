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
/** The same (RFC 9637); it is within 2000::/3, which is all of IPv6 that is in use. */
const STRANGER6 = '3fff::1';
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
  const open = await openness(text, place);
  const outside = limitFaults(other);
  const errors = [...ours, other].flatMap(({ result, reason }) => (result === 'permerror' && reason ? [reason] : []));
  const faults = [
    ...outside,
    // Where a limit is passed, that is the error.
    ...(outside.length > 0 ? [] : [...new Set(errors)].map((reason) => `Receivers take it as an error: ${reason}.`)),
    ...ours.flatMap(({ ip, result }) =>
      result === 'pass' || result === 'permerror' ? [] : [`Mail from ${ip} does not pass (${result}).`],
    ),
    ...(open === undefined ? [] : [`It lets every host of the world send as this domain${open}.`]),
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
      const open = isAll(term) ? undefined : await openness(`v=spf1 ${term}`, place);
      if (open !== undefined) return { term, reason: `every host of the world passes by it${open}` };
      return { term, reason: result === 'permerror' ? reason : undefined };
    }),
  );
  return {
    terms: judged.flatMap(({ term, reason }) => (reason === undefined ? [term] : [])),
    faults: judged.flatMap(({ term, reason }) => (reason === undefined ? [] : [`${term} cannot stay: ${reason}.`])),
  };
}

/** Over what everybody passes, in words; undefined where a stranger does not. */
async function openness(text: string, place: SpfPlace): Promise<string | undefined> {
  if ((await evaluate(text, STRANGER, { ...place, most: COUNTED })).result === 'pass') return '';
  return (await evaluate(text, STRANGER6, { ...place, most: COUNTED })).result === 'pass' ? ' over IPv6' : undefined;
}

function limitFaults({ lookups, voids, crowds }: Evaluated): string[] {
  return [
    ...(lookups > MOST_LOOKUPS ? [`It takes ${lookups} look-ups, and receivers stop at ${MOST_LOOKUPS}.`] : []),
    ...(voids > MOST_VOIDS ? [`${voids} of its look-ups find nothing, and receivers stop at ${MOST_VOIDS}.`] : []),
    ...Array.from(
      crowds,
      ([name, count]) => `It takes ${count} MX records of ${name}, and receivers stop at ${MOST_LOOKUPS}.`,
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
  const stands: SpfResolver = {
    async mx(name) {
      const answer = await resolver.mx(name);
      if (answer.kind === 'found' && answer.records.length > MOST_LOOKUPS) crowds.set(name, answer.records.length);
      return answer;
    },
    lookup: resolver.lookup,
    txt: (name) => (name === domain ? Promise.resolve({ kind: 'found', records: [text] }) : resolver.txt(name)),
  };
  const sender = `postmaster@${domain}`;
  const question = { sender, ip, helo: hostname, resolver: stands };
  return { ...(await evaluateSpf(most === undefined ? question : { ...question, most })), crowds };
}
