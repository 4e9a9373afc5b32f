/**
 * The DMARC policy of a domain (RFC 9989). Any policy is the owner's decision, as long as receivers can read it, and what is
 * advised is never weaker. A subdomain has that of a domain above, where alone it is mended: a record of its own would
 * stand against it.
 */
import type { Resolver } from './answers.ts';
import { faultIn, mended, policiesIn, policyBelow } from './dmarc-record.ts';
import { policyAbove, type StandingPolicy } from './dmarc-walk.ts';
import { missing, unanswered, type Finding } from './finding.ts';

/** The verdict on the TXT records `texts` at `name` (`_dmarc.…`), or else on those of the domains above. */
export async function checkDmarc(
  name: string,
  texts: readonly string[],
  resolver: Pick<Resolver, 'txt' | 'lookup'>,
): Promise<Finding> {
  const found = policiesIn(texts);
  const [only] = found;
  // §4.10: with two of them there is no policy.
  if (found.length > 1) {
    const problem = 'Only one DMARC record may stand there, and receivers take no notice of several: leave one.';
    return { status: 'duplicate', found, value: '', problem };
  }
  if (only !== undefined) {
    const problem = faultIn(only);
    return problem === undefined
      ? { status: 'ok', found }
      : { status: 'wrong', found, problem, value: mended(only) ?? '' };
  }
  const near = texts.find((text) => /dmarc/i.test(text));
  const above = await policyAbove(name.slice('_dmarc.'.length), resolver);
  if (above === undefined) return none(name, near, resolver);
  return 'kind' in above ? { ...unanswered(above), found: near === undefined ? [] : [near] } : inherited(above, near);
}

/** Neither the domain nor one above has a policy. */
async function none(name: string, near: string | undefined, resolver: Pick<Resolver, 'lookup'>): Promise<Finding> {
  if (near !== undefined) {
    const problem = `A policy begins with "v=DMARC1;", which this does not: ${near}`;
    const isMeantAsPolicy = /quarantine|reject|\bp\s*[=:]/i.test(near);
    return isMeantAsPolicy ? { ...missing(problem, [near]), value: mended(near) ?? '' } : missing(problem);
  }
  const alias = await resolver.lookup(name, 'CNAME');
  const [target] = alias.kind === 'found' ? alias.records : [];
  return target === undefined
    ? missing('There is no DMARC policy.')
    : missing(`The name is a CNAME to ${target}, and there is no DMARC policy there.`, [`CNAME ${target}`]);
}

function inherited({ domain, texts }: StandingPolicy, near: string | undefined): Finding {
  const at = `_dmarc.${domain}`;
  const [only, ...others] = texts;
  if (only === undefined || others.length > 0) {
    const problem = `Several DMARC records stand at ${at}, so that none is valid here: leave one there.`;
    return { status: 'wrong', found: texts, value: '', problem };
  }
  const problem = faultIn(only);
  if (problem !== undefined) {
    return {
      status: 'wrong',
      found: texts,
      value: '',
      problem: `The policy at ${at} is meant for here too: ${problem} Mend it there.`,
    };
  }
  const rest = near === undefined ? '' : ` What stands at the name itself is no policy: ${near}`;
  return { status: 'ok', found: texts, note: `The policy at ${at} is valid here: ${policyBelow(only)}.${rest}` };
}
