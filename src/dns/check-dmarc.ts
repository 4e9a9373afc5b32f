/**
 * The DMARC policy of a domain (RFC 9989). Any policy is the owner's decision, as long as receivers can read it. A
 * subdomain has that of a domain above: a record of its own would weaken it.
 */
import type { Resolver } from './answers.ts';
import { missing, unanswered, type Finding } from './finding.ts';
import { tagList } from './tags.ts';

/** The verdict on the TXT records `texts` at `name` (`_dmarc.…`), or else on those of the domains above. */
export async function checkDmarc(
  name: string,
  texts: readonly string[],
  resolver: Pick<Resolver, 'txt'>,
): Promise<Finding> {
  const found = texts.filter((text) => /^v\s*=\s*DMARC1\s*(;|$)/.test(text));
  const [only] = found;
  // §4.7: with two of them there is no policy.
  if (found.length > 1) return { status: 'duplicate', found, problem: 'Only one DMARC record may stand there.' };
  if (only !== undefined) {
    const { problem, value } = judge(only);
    if (problem === undefined) return { status: 'ok', found };
    return { status: 'wrong', found, problem, ...(value === undefined ? {} : { value }) };
  }
  const near = texts.find((text) => /dmarc/i.test(text));
  if (near !== undefined) return missing(`A policy begins with "v=DMARC1;", which this does not: ${near}`);
  // §4.10: of a long name no more than the last seven labels are asked.
  const above = name.split('.').slice(2).slice(-7);
  if (above.length < 2) return missing('There is no DMARC policy.');
  return inherited(`_dmarc.${above.join('.')}`, resolver);
}

async function inherited(name: string, resolver: Pick<Resolver, 'txt'>): Promise<Finding> {
  const answer = await resolver.txt(name);
  if (answer.kind === 'failed') return unanswered(answer);
  const finding = await checkDmarc(name, answer.kind === 'found' ? answer.records : [], resolver);
  return finding.status === 'ok'
    ? { ...finding, note: finding.note ?? `The policy at ${name} is valid here.` }
    : finding;
}

/** What may stand in the tags whose values receivers must understand (§4.7). */
const VALUES: Readonly<Record<string, RegExp>> = {
  p: /^(none|quarantine|reject)$/i,
  sp: /^(none|quarantine|reject)$/i,
  np: /^(none|quarantine|reject)$/i,
  adkim: /^[rs]$/i,
  aspf: /^[rs]$/i,
  pct: /^(\d\d?|100)$/,
  t: /^[yn]$/i,
  psd: /^[ynu]$/i,
  fo: /^[01ds](\s*:\s*[01ds])*$/i,
  rua: /^\s*mailto:[^\s,]+@[^\s,]+(\s*,\s*mailto:[^\s,]+@[^\s,]+)*\s*$/i,
  ruf: /^\s*mailto:[^\s,]+@[^\s,]+(\s*,\s*mailto:[^\s,]+@[^\s,]+)*\s*$/i,
};

/** What is the matter with a policy, and what it is without that. */
function judge(text: string): { readonly problem?: string; readonly value?: string } {
  const tags = tagList(text);
  if (tags === undefined) {
    return { problem: 'This is not a list of tags such as "v=DMARC1; p=none": look for a missing ; or =.' };
  }
  const faulty = [...tags].filter(([name, value]) => VALUES[name]?.test(value) === false);
  const problems = faulty.map(([name, value]) => `${name}=${value} is not understood.`);
  if (!tags.has('p')) problems.push('It has no policy: p=none, p=quarantine or p=reject is missing.');
  if (problems.length === 0) return {};
  const kept = [...tags].filter(([name, value]) => name !== 'v' && name !== 'p' && VALUES[name]?.test(value) !== false);
  const policy = faulty.some(([name]) => name === 'p') ? 'none' : (tags.get('p') ?? 'none');
  const value = ['v=DMARC1', `p=${policy}`, ...kept.map((tag) => tag.join('='))].join('; ');
  return { problem: problems.join(' '), value };
}
