/** Which policy of the domains above counts for a domain that has none of its own: the DNS tree walk (RFC 9989 §4.10). */
import type { Answer, Resolver } from './answers.ts';
import { policiesIn, psdOf } from './dmarc-record.ts';

/** One policy stands there; several are none. */
export interface StandingPolicy {
  readonly domain: string;
  readonly texts: readonly string[];
}

/** Of a longer name no more than these are asked. */
const MOST_LABELS = 7;

/** The policy that counts, or several at one name where none does. */
export async function policyAbove(
  domain: string,
  resolver: Pick<Resolver, 'txt'>,
): Promise<StandingPolicy | Extract<Answer<never>, { kind: 'failed' }> | undefined> {
  const above = domain.split('.').slice(1).slice(-MOST_LABELS);
  const found: StandingPolicy[] = [];
  for (const [i] of above.entries()) {
    const name = above.slice(i).join('.');
    const answer = await resolver.txt(`_dmarc.${name}`);
    // A policy of a whole top-level domain is rare, and a resolver of a closed network does not answer for it.
    if (answer.kind === 'failed' && name.includes('.')) return answer;
    const texts = policiesIn(answer.kind === 'found' ? answer.records : []);
    if (texts.length > 0) found.push({ domain: name, texts });
    if (isOne({ texts }) && /^[yn]$/.test(psdOf(texts[0] ?? '') ?? '')) break;
  }
  const standing = found.filter(isOne);
  const last = standing.at(-1);
  if (last === undefined) return found.at(-1);
  // §4.10.2: of the organization, which is the one with the fewest labels, or the one below a public suffix.
  if (psdOf(last.texts[0] ?? '') !== 'y') return last;
  const organization = domain.split('.').slice(-last.domain.split('.').length - 1);
  return standing.find((policy) => policy.domain === organization.join('.')) ?? last;
}

function isOne({ texts }: Pick<StandingPolicy, 'texts'>): boolean {
  return texts.length === 1;
}
