/**
 * The DMARC policy of a domain (RFC 9989). Any policy is the owner's decision, as long as receivers can read it, and what is
 * advised is never weaker. A subdomain has that of a domain above, where alone it is corrected: a record of its own would
 * stand against it.
 */
import { recordsOf, type Answer, type Resolver } from './resolver.ts';
import { missing, ok, tagList, unanswered, wrong, type Finding } from './finding.ts';

/**
 * The verdict on the TXT records `texts` at `name` (`_dmarc.…`), or else on those of the domains above. A note says how
 * reports would come to this server too, at `reportsTo`.
 */
export async function checkDmarc(
  name: string,
  texts: readonly string[],
  { resolver, reportsTo }: { readonly resolver: Pick<Resolver, 'txt' | 'lookup'>; readonly reportsTo: string },
): Promise<Finding> {
  const found = policiesIn(texts);
  const [only] = found;
  // §4.10: with two of them there is no policy.
  if (found.length > 1) {
    const problem = 'There must be only one DMARC record, and receivers ignore several: keep one.';
    return { status: 'duplicate', found, value: '', problem };
  }
  if (only !== undefined) {
    const problem = faultIn(only);
    return problem === undefined
      ? ok(found, [reportsHint(only, reportsTo)])
      : { ...wrong(problem, found), value: corrected(only) ?? '' };
  }
  const near = texts.find((text) => /dmarc/i.test(text));
  const above = await policyAbove(name.slice('_dmarc.'.length), resolver);
  if (above === undefined) return none(name, near, resolver);
  return 'kind' in above ? { ...unanswered(above), found: near === undefined ? [] : [near] } : inherited(above, near);
}

/** Whom the reports go to is the owner's choice. */
function reportsHint(policy: string, reportsTo: string): string | undefined {
  if ((tagList(policy)?.get('rua') ?? '').toLowerCase().includes(`mailto:${reportsTo}`)) return undefined;
  return `To see its reports with \`postern domains reports\` as well, add mailto:${reportsTo} to rua=.`;
}

/** Neither the domain nor one above has a policy. */
async function none(name: string, near: string | undefined, resolver: Pick<Resolver, 'lookup'>): Promise<Finding> {
  if (near !== undefined) {
    const problem = `This is not a DMARC policy, because it does not begin with "v=DMARC1;": ${near}`;
    const isMeantAsPolicy = /quarantine|reject|\bp\s*[=:]/i.test(near);
    return isMeantAsPolicy ? { ...missing(problem, [near]), value: corrected(near) ?? '' } : missing(problem);
  }
  const [target] = recordsOf(await resolver.lookup(name, 'CNAME'));
  return target === undefined
    ? missing('There is no DMARC policy.')
    : missing(`The name is a CNAME to ${target}, and there is no DMARC policy there.`, [`CNAME ${target}`]);
}

function inherited({ domain, texts }: StandingPolicy, near: string | undefined): Finding {
  const at = `_dmarc.${domain}`;
  const [only, ...others] = texts;
  if (only === undefined || others.length > 0) {
    const problem = `There are several DMARC records at ${at}, so that none is valid here: keep one there.`;
    return { ...wrong(problem, texts), value: '' };
  }
  const problem = faultIn(only);
  if (problem !== undefined) {
    return { ...wrong(`The policy at ${at} applies here too: ${problem} Correct it there.`, texts), value: '' };
  }
  const tags = tagList(only);
  // Of an active policy, the tag that decides on mail of an existing domain below (§4.10.1).
  const policy = tags?.has('sp') ? `sp=${tags.get('sp')}` : `p=${tags?.get('p')}`;
  const rest = near === undefined ? undefined : `The record at the name itself is not a policy: ${near}`;
  return ok(texts, [`The policy at ${at} is valid here: ${policy}.`, rest]);
}

// The text of a DMARC policy (RFC 9989 §4.7): what receivers make of it, and what its owner meant.

/** The texts among these that are policies. */
function policiesIn(texts: readonly string[]): string[] {
  return texts.filter((text) => /^[vV]\s*=\s*DMARC1\s*(;|$)/.test(text));
}

const POLICY = /^(none|quarantine|reject)$/i;
const REPORTS = /^\s*([a-z][a-z\d+.-]*:[^\s,]+\s*,\s*)*mailto:[^\s,]+@[^\s,]+(\s*,\s*[a-z][a-z\d+.-]*:[^\s,]+)*\s*$/i;

/** What may be in the tags whose values receivers must understand. */
const VALUES: Readonly<Record<string, RegExp>> = {
  p: POLICY,
  sp: POLICY,
  np: POLICY,
  adkim: /^[rs]$/i,
  aspf: /^[rs]$/i,
  pct: /^(\d\d?|100)$/,
  t: /^[yn]$/i,
  psd: /^[ynu]$/i,
  fo: /^[01ds](\s*:\s*[01ds])*$/i,
  rua: REPORTS,
  ruf: REPORTS,
};

/** What is the matter with a policy; nothing: receivers can read all of it. */
function faultIn(text: string): string | undefined {
  const tags = tagList(text);
  if (tags === undefined) {
    return 'Syntax error. Check for missing or extra ; and =, and for duplicate tags. Example: v=DMARC1; p=none';
  }
  const faulty = [...tags].filter(([name, value]) => !isUnderstood(name, value));
  const problems = faulty.map(([name, value]) => {
    const choice = VALUES[name] === POLICY ? ': it may be none, quarantine or reject' : '';
    return `${name}=${value} is not understood${choice}.`;
  });
  if (!tags.has('p')) problems.push('It has no policy: p=none, p=quarantine or p=reject is missing.');
  if (!tags.has('p') || faulty.some(([name]) => VALUES[name] === POLICY)) {
    // §4.10.1
    const hasAddress = REPORTS.test(tags.get('rua') ?? '');
    problems.push(hasAddress ? 'Receivers treat it as p=none.' : 'Receivers ignore the record.');
  }
  return problems.length === 0 ? undefined : problems.join(' ');
}

/** The policy without its faults, never a weaker one; undefined where only its owner can say what was meant. */
function corrected(text: string): string | undefined {
  const tags = roughTags(text);
  const isCertain = ['p', 'sp', 'np'].every((name) => {
    const meant = new Set(tags.flatMap((tag) => (tag.name === name ? [tag.value.toLowerCase()] : [])));
    return meant.size <= 1 && [...meant].every((value) => POLICY.test(value));
  });
  const policy = tags.find(({ name }) => name === 'p')?.value;
  if (!isCertain || (policy === undefined && /quarantine|reject/i.test(text))) return undefined;
  const kept = new Map(tags.map(({ name, value }) => [name, VALUES[name] === REPORTS ? targets(value) : value]));
  const rest = [...kept].filter(([name, value]) => name !== 'v' && name !== 'p' && isUnderstood(name, value));
  return ['v=DMARC1', `p=${policy ?? 'none'}`, ...rest.map((tag) => tag.join('='))].join('; ');
}

/** Whose the domain is (§4.7): `y` of a public suffix, `n` of an organization. */
function psdOf(text = ''): string {
  return (roughTags(text).find(({ name }) => name === 'psd')?.value ?? '').toLowerCase();
}

function isUnderstood(name: string, value: string): boolean {
  return VALUES[name]?.test(value) !== false;
}

/** Whatever can be taken for a tag, as it stands there, where a `;` is missing or a quotation mark is too much as well. */
function roughTags(text: string): { readonly name: string; readonly value: string }[] {
  return text
    .replaceAll(/["“”]/g, '')
    .split(/;|\s+(?=[a-z]+\s*=)/i)
    .flatMap((part) => {
      const [, name, value = ''] = /^\s*([a-z]\w*)\s*=\s*(.*?)[\s,]*$/i.exec(part) ?? [];
      return name === undefined ? [] : [{ name: name.toLowerCase(), value }];
    });
}

/** The addresses for reports among these, each as the URI that it has to be. */
function targets(list: string): string {
  return list
    .split(',')
    .map((target) => target.trim())
    .flatMap((target) => (/^[^\s@:]+@[^\s@:]+$/.test(target) ? [`mailto:${target}`] : [target]))
    .filter((target) => /^[a-z][a-z\d+.-]*:[^\s,]+$/i.test(target) && !/^mailto:[^@]*$/i.test(target))
    .join(',');
}

// Which policy of the domains above counts for a domain that has none of its own: the DNS tree walk (RFC 9989 §4.10).

/** There is one policy; several are none. */
export interface StandingPolicy {
  readonly domain: string;
  readonly texts: readonly string[];
}

/** Of a longer name no more than these are asked. */
const MAX_LABELS = 7;

/** The policy that counts, or several at one name where none does. */
async function policyAbove(
  domain: string,
  resolver: Pick<Resolver, 'txt'>,
): Promise<StandingPolicy | Extract<Answer<never>, { kind: 'failed' }> | undefined> {
  const above = domain.split('.').slice(1).slice(-MAX_LABELS);
  const found: StandingPolicy[] = [];
  for (const [i] of above.entries()) {
    const name = above.slice(i).join('.');
    const answer = await resolver.txt(`_dmarc.${name}`);
    // A policy of a whole top-level domain is rare, and a resolver of a closed network does not answer for it.
    if (answer.kind === 'failed' && name.includes('.')) return answer;
    const texts = policiesIn(recordsOf(answer));
    if (texts.length > 0) found.push({ domain: name, texts });
    if (texts.length === 1 && /^[yn]$/.test(psdOf(texts[0]))) break;
  }
  const standing = found.filter(({ texts }) => texts.length === 1);
  const last = standing.at(-1);
  if (last === undefined) return found.at(-1);
  // §4.10.2: of the organization, which is the one with the fewest labels, or the one below a public suffix.
  if (psdOf(last.texts[0]) !== 'y') return last;
  const organization = domain.split('.').slice(-last.domain.split('.').length - 1);
  return standing.find((policy) => policy.domain === organization.join('.')) ?? last;
}
