/**
 * What a domain does publish, record by record, compared by meaning and not by spelling. "DNS did not answer" is a state
 * of its own: it proves nothing, so it never turns a verified domain into a broken one.
 */
import type { Answer, Resolver } from './answers.ts';
import type { DomainRecord } from './records.ts';

export type RecordStatus = 'ok' | 'missing' | 'wrong' | 'duplicate' | 'unknown';

export interface CheckedRecord extends DomainRecord {
  readonly status: RecordStatus;
  /** What stands there today and bears on this record. */
  readonly found: readonly string[];
  /** What is the matter, in words for the owner of the domain; absent where nothing is. */
  readonly problem?: string;
}

export interface DomainCheck {
  readonly records: readonly CheckedRecord[];
  /** Over the required records: broken if one surely is, else unknown if DNS left one open, else ok. */
  readonly verdict: 'ok' | 'broken' | 'unknown';
}

type Txt = Pick<Resolver, 'txt'>;
type Finding = Pick<CheckedRecord, 'status' | 'found' | 'problem'> & { readonly value?: string };

/** Looks all of `records` up. Give it a `fresh()` resolver where somebody waits for an edit to show. */
export async function checkDomain(records: readonly DomainRecord[], resolver: Txt): Promise<DomainCheck> {
  const checked = await Promise.all(
    records.map(async (record): Promise<CheckedRecord> => ({ ...record, ...(await find(record, resolver)) })),
  );
  const required = checked.filter((record) => record.required);
  if (required.some(({ status }) => status !== 'ok' && status !== 'unknown'))
    return { records: checked, verdict: 'broken' };
  const unknown = required.some(({ status }) => status === 'unknown');
  return { records: checked, verdict: unknown ? 'unknown' : 'ok' };
}

async function find(record: DomainRecord, resolver: Txt): Promise<Finding> {
  const answer = await resolver.txt(record.name);
  if (answer.kind === 'failed') return unknown(answer);
  const found = answer.kind === 'found' ? answer.records : [];
  switch (record.purpose) {
    case 'ownership':
      return ownership(record.value, found);
    case 'dkim':
      return dkim(record.value, found);
    case 'spf':
      return spf(record.value, found);
    case 'dmarc':
      return dmarc(record.name, found, resolver);
  }
}

function unknown({ reason }: Extract<Answer<string>, { kind: 'failed' }>): Finding {
  return { status: 'unknown', found: [], problem: `DNS did not answer: ${reason}` };
}

/** Several tokens may stand there: more than one tenant may claim a name while it moves. */
function ownership(wanted: string, texts: readonly string[]): Finding {
  const tokens = texts.map((text) => text.trim()).filter((text) => text.startsWith('postern-verification='));
  if (tokens.includes(wanted)) return { status: 'ok', found: [wanted] };
  if (tokens.length === 0) return { status: 'missing', found: texts, problem: 'There is no such record yet.' };
  return { status: 'wrong', found: tokens, problem: 'The token is another one.' };
}

/** RFC 6376 §3.6.2.2: two records under one selector are undefined; verifiers take either, or none. */
function dkim(wanted: string, found: readonly string[]): Finding {
  const [only] = found;
  if (only === undefined) return { status: 'missing', found, problem: 'There is no such record yet.' };
  if (found.length > 1) {
    return { status: 'duplicate', found, problem: 'Only one TXT record may stand under a selector.' };
  }
  const problem = dkimProblem(tagList(wanted), tagList(only));
  return problem === undefined ? { status: 'ok', found } : { status: 'wrong', found, problem };
}

type Tags = ReadonlyMap<string, string>;

function dkimProblem(wanted: Tags | undefined, tags: Tags | undefined): string | undefined {
  if (tags === undefined) return 'This is not a list of tags such as "v=DKIM1; k=rsa; p=…".';
  const [first] = tags.keys();
  if (tags.has('v') && (first !== 'v' || tags.get('v') !== 'DKIM1')) return 'It does not begin with v=DKIM1.';
  const algorithm = wanted?.get('k') ?? 'rsa';
  if ((tags.get('k') ?? 'rsa') !== algorithm) return `The key type k= is not ${algorithm}.`;
  const key = bare(tags.get('p'));
  if (key === undefined) return 'There is no key: p= is missing.';
  if (key === '') return 'The key is revoked: p= is empty.';
  if (key !== bare(wanted?.get('p'))) return 'The key p= is another one.';
  if (tags.has('h') && !list(tags.get('h')).includes('sha256')) return 'h= does not allow sha256.';
  if (tags.has('s') && !list(tags.get('s')).some((service) => service === '*' || service === 'email')) {
    return 's= does not allow email.';
  }
  return undefined;
}

/** The tags of RFC 6376 §3.2 in order, or nothing where that grammar does not hold or a tag stands there twice. */
function tagList(text: string): Tags | undefined {
  const tags = new Map<string, string>();
  const parts = text.trim().replace(/;$/, '').split(';');
  for (const part of parts) {
    const equals = part.indexOf('=');
    const name = part.slice(0, equals).trim();
    if (equals < 1 || !/^[A-Za-z]\w*$/.test(name) || tags.has(name)) return undefined;
    tags.set(name, part.slice(equals + 1).trim());
  }
  return tags;
}

function bare(base64: string | undefined): string | undefined {
  return base64?.replaceAll(/\s+/g, '');
}

function list(value: string | undefined): string[] {
  return (value ?? '').split(':').map((item) => item.trim());
}

/** By simple meaning: does the record name our host? What stands there is kept; the advice is to add to it. */
function spf(wanted: string, texts: readonly string[]): Finding {
  const found = texts.filter((text) => /^v=spf1( |$)/i.test(text.trim()));
  const [only] = found;
  if (only === undefined) return { status: 'missing', found, problem: 'There is no SPF record.' };
  // RFC 7208 §4.5: two records are a permanent error for every receiver.
  if (found.length > 1) return { status: 'duplicate', found, problem: 'Only one SPF record may stand there.' };
  const mechanism = wanted.split(' ').find((term) => term.startsWith('a:')) ?? '';
  const terms = only.trim().split(/ +/);
  if (terms.some((term) => isMechanism(term, mechanism, /^\+/))) return { status: 'ok', found };
  const others = terms.filter((term) => !isMechanism(term, mechanism, /^[-~?]/));
  const end = others.findIndex((term) => /^([-+~?]?all|redirect=.*)$/i.test(term));
  const value = others.toSpliced(end === -1 ? others.length : end, 0, mechanism).join(' ');
  return { status: 'wrong', found, value, problem: `Add ${mechanism} to the record that stands there.` };
}

/** Whether `term` is the mechanism, whatever its case and CIDR length, with or without a qualifier that matches `sign`. */
function isMechanism(term: string, mechanism: string, sign: RegExp): boolean {
  return term.toLowerCase().replace(sign, '').split('/')[0] === mechanism;
}

/** Any policy is the owner's decision. A subdomain inherits its parent's (RFC 7489 §6.6.3): a new record would weaken it. */
async function dmarc(name: string, texts: readonly string[], resolver: Txt): Promise<Finding> {
  const found = policies(texts);
  if (found.length === 1) return { status: 'ok', found };
  if (found.length > 1) return { status: 'duplicate', found, problem: 'Only one DMARC record may stand there.' };
  const parent = name.split('.').slice(2);
  if (parent.length < 2) return { status: 'missing', found, problem: 'There is no DMARC policy.' };
  const above = `_dmarc.${parent.join('.')}`;
  const answer = await resolver.txt(above);
  if (answer.kind === 'failed') return unknown(answer);
  return dmarc(above, answer.kind === 'found' ? answer.records : [], resolver);
}

function policies(texts: readonly string[]): string[] {
  return texts.filter((text) => /^v\s*=\s*DMARC1\s*(;|$)/.test(text.trim()));
}
