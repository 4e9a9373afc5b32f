/** The text of a DMARC policy (RFC 9989 §4.7): what receivers make of it, and what its owner meant. */
import { tagList } from './tags.ts';

/** The texts among these that are policies. */
export function policiesIn(texts: readonly string[]): string[] {
  return texts.filter((text) => /^[vV]\s*=\s*DMARC1\s*(;|$)/.test(text));
}

const POLICY = /^(none|quarantine|reject)$/i;
const REPORTS = /^\s*([a-z][a-z\d+.-]*:[^\s,]+\s*,\s*)*mailto:[^\s,]+@[^\s,]+(\s*,\s*[a-z][a-z\d+.-]*:[^\s,]+)*\s*$/i;

/** What may stand in the tags whose values receivers must understand. */
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
export function faultIn(text: string): string | undefined {
  const tags = tagList(text);
  if (tags === undefined) {
    return 'This is not a list of tags such as "v=DMARC1; p=none": look for a missing ; or =, for one too many, and for a tag that stands there twice.';
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
    problems.push(hasAddress ? 'Receivers act as with p=none.' : 'Receivers take no notice of the record.');
  }
  return problems.length === 0 ? undefined : problems.join(' ');
}

/** The policy without its faults, never a weaker one; undefined where only its owner can say what was meant. */
export function mended(text: string): string | undefined {
  const tags = roughTags(text);
  const isCertain = ['p', 'sp', 'np'].every((name) => {
    const meant = new Set(tags.flatMap((tag) => (tag.name === name ? [tag.value.toLowerCase()] : [])));
    return meant.size <= 1 && [...meant].every((value) => POLICY.test(value));
  });
  const policy = tags.find(({ name }) => name === 'p')?.value;
  if (!isCertain || (policy === undefined && /quarantine|reject/i.test(text))) return undefined;
  const kept = new Map(tags.map(({ name, value }) => [name, isReports(name) ? targets(value) : value]));
  const rest = [...kept].filter(([name, value]) => name !== 'v' && name !== 'p' && isUnderstood(name, value));
  return ['v=DMARC1', `p=${policy ?? 'none'}`, ...rest.map((tag) => tag.join('='))].join('; ');
}

/** Of a policy in force, the tag that decides on mail of an existing domain below (§4.10.1). */
export function policyBelow(text: string): string {
  const tags = tagList(text);
  return tags?.has('sp') ? `sp=${tags.get('sp')}` : `p=${tags?.get('p')}`;
}

/** Whose the domain is (§4.7): `y` of a public suffix, `n` of an organization. */
export function psdOf(text: string): string | undefined {
  return roughTags(text)
    .find(({ name }) => name === 'psd')
    ?.value.toLowerCase();
}

function isUnderstood(name: string, value: string): boolean {
  return VALUES[name]?.test(value) !== false;
}

function isReports(name: string): boolean {
  return VALUES[name] === REPORTS;
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
