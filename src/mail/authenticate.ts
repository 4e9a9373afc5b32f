/**
 * Who really sent it: SPF (RFC 7208), DKIM (RFC 6376), DMARC (RFC 9989) and ARC (RFC 8617), computed by mailauth from the
 * bytes, the connection and DNS, and never taken from what the mail says of itself. The message is read once, piece by
 * piece. What DNS does not say in time is a `temperror`, which proves nothing, neither for a sender nor against one.
 */
import type { ARCResult } from 'mailauth';
import { z } from 'zod';
import { parseDomain } from '../lib/addresses.ts';
import type { Clock } from '../lib/clock.ts';
import { isSameAddress, MAX_FROM_BYTES, NOT_ONE_AUTHOR, readAuthor, type AuthorReading } from './author.ts';
import { check, createMemory, type Checked, type Memory, createLookups, type Ask, type Lookups } from './checks.ts';
import { fieldsOf, splitHeader, valueOf, type Field, type Pieces } from './header-block.ts';
import type { DkimResult, AuthResults } from './auth-results.ts';

export interface Circumstances {
  /** The client's. */
  readonly ip: string;
  readonly helo: string;
  /** Envelope sender; empty for the null sender. */
  readonly sender: string;
  /** Our own name, which the results are from (the authserv-id of RFC 8601 §2.5). */
  readonly mta: string;
  readonly ask: Ask;
  readonly clock: Clock;
  /** When to stop asking DNS; it ends not long after. */
  readonly timeoutMs: number;
  /** Domains whose ARC seals are believed. */
  readonly trusted: readonly string[];
  /** Whether we sent it ourselves: SPF says nothing of it, and its envelope sender is no forgery. Default: false. */
  readonly isOwn?: boolean;
  /** Shared between messages. Default: none. */
  readonly memory?: Memory;
}

export interface Authenticated {
  readonly verdicts: AuthResults;
  readonly author: AuthorReading;
  /** `Received-SPF` and `Authentication-Results`, each line with its CRLF. */
  readonly headers: string;
}

/** Further signatures are left alone, and those of a length that no signer comes near. */
const MAX_SIGNATURES = 10;
const MAX_SIGNATURE_LENGTH = 8192;

/** Rejects only where the pieces cannot be read. */
export async function authenticate(message: Pieces, circumstances: Circumstances): Promise<Authenticated> {
  const { ip, helo, sender, mta, ask, clock, timeoutMs, isOwn = false, memory = createMemory() } = circumstances;
  const lookups = createLookups(ask, clock, timeoutMs);
  const { header, body } = await splitHeader(message);
  const all = fieldsOf(header);
  const fields = judged(all);
  lookups.ahead(keyNames(fields));
  try {
    const judgedHeader = fields.map(({ text }) => text).join('');
    const connection = { ip, helo, sender, mta, ask: lookups.ask, isOwn, memory };
    const checked = await check({ header: judgedHeader, body }, connection);
    const verdicts = verdictsOf(checked, lookups, circumstances);
    const found = agreed(readAuthor(all), checked.authors);
    const dmarc = found.kind === 'unclear' ? { ...verdicts.dmarc, result: 'permerror' } : verdicts.dmarc;
    const from = found.kind === 'one' ? found.address : '';
    // Names that a client or a signature gave itself may be anything; a message of ASCII stays one.
    const headers = checked.headers.replaceAll(/[^\r\n\t -~]/g, '?');
    return { verdicts: { ...verdicts, dmarc, from }, headers, author: found };
  } finally {
    lookups.end();
  }
}

/** Without what would only cost time. */
function judged(fields: readonly Field[]): Field[] {
  let signatures = 0;
  return fields.filter(({ name, text }) => {
    if (name === 'from') return text.length <= MAX_FROM_BYTES;
    if (name === 'arc-message-signature' || name === 'arc-seal') return text.length <= MAX_SIGNATURE_LENGTH;
    if (name !== 'dkim-signature') return true;
    return text.length <= MAX_SIGNATURE_LENGTH && ++signatures <= MAX_SIGNATURES;
  });
}

/** Whose policy counts (RFC 9989 §5.3.1): the author that mailauth, which looks it up, reads as well. */
function agreed(author: AuthorReading, authors: readonly string[]): AuthorReading {
  const [theirs, ...others] = authors;
  if (author.kind !== 'one') return author;
  if (theirs !== undefined && others.length === 0 && isSameAddress(author.address, theirs)) return author;
  return { kind: 'unclear', fault: NOT_ONE_AUTHOR };
}

/** The names of the signatures' keys. */
function keyNames(fields: readonly Field[]): string[] {
  return fields
    .filter(({ name }) => name === 'dkim-signature')
    .flatMap((field) => {
      const tags = new Map(valueOf(field).split(';').map(tag));
      const [domain = '', selector = ''] = [tags.get('d'), tags.get('s')];
      return domain === '' || selector === '' ? [] : [keyName({ domain, selector })];
    });
}

function tag(text: string): [name: string, value: string] {
  const [name = '', ...value] = text.split('=');
  return [name.trim().toLowerCase(), value.join('=').trim()];
}

function keyName({ domain, selector }: { readonly domain: string; readonly selector: string }): string {
  return `${selector}._domainkey.${domain}`;
}

function verdictsOf(
  { spf, dkim: signatures, dmarc, arc }: Checked,
  lookups: Lookups,
  { sender, trusted, isOwn = false }: Circumstances,
): Omit<AuthResults, 'from'> {
  const domain = (dmarc === false ? undefined : parseDomain(dmarc.status.header?.from ?? '')) ?? '';
  const spfResult = { result: spf?.status.result ?? 'none', domain: spf?.domain ?? '' };
  return {
    spf: spfResult,
    dkim: [...signatures],
    dmarc: { ...dmarcResult(dmarc, { spf: spfResult, signatures, lookups }), domain },
    arc: arcResult(arc, { lookups, trusted, domain }),
    vouched: isOwn || isVouched(sender, spfResult.result, signatures),
  };
}

function dmarcResult(
  dmarc: Checked['dmarc'],
  found: { spf: AuthResults['spf']; signatures: readonly DkimResult[]; lookups: Lookups },
): Pick<AuthResults['dmarc'], 'result' | 'policy'> {
  if (dmarc === false) return { result: 'none', policy: 'none' };
  const { result } = dmarc.status;
  const policy = POLICY.safeParse(dmarc.policy).data ?? 'none';
  if (result !== 'fail') return { result, policy };
  const { spf, signatures, lookups } = found;
  // An answer that DNS owes us might have been the pass. Only the author's own domain can be at fault for that: a
  // stranger's cannot make us unsure.
  const unsure =
    (spf.result === 'temperror' && isWithin(spf.domain, dmarc.domain)) ||
    signatures.some((one) => one.aligned && one.result === 'temperror' && lookups.failed(keyName(one)));
  return { result: unsure ? 'temperror' : 'fail', policy };
}

const POLICY = z.enum(['none', 'quarantine', 'reject']);

function arcResult(
  arc: ARCResult,
  { lookups, trusted, domain }: { lookups: Lookups; trusted: readonly string[]; domain: string },
): AuthResults['arc'] {
  switch (arc.status.result) {
    case 'none':
      return { result: 'none', trusted: false };
    case 'pass':
      return { result: 'pass', trusted: believes(arc, trusted, domain) };
    default:
      // RFC 8617 knows no third answer, and sealed as failed a chain is broken for ever.
      return { result: lookups.unanswered(/\._domainkey\./i) ? 'temperror' : 'fail', trusted: false };
  }
}

/** From the last seal back, as long as its maker is believed: whether one of them saw DMARC pass for this author. */
function believes(
  { chain = [], authenticationResults }: ARCResult,
  trusted: readonly string[],
  author: string,
): boolean {
  for (const [i, link] of chain.toReversed().entries()) {
    const seal = SEAL.safeParse(link['arc-seal']?.parsed);
    if (!seal.success || !trusted.includes(seal.data.d.value.toLowerCase())) return false;
    // mailauth has taken the last one's apart.
    const results = i === 0 ? authenticationResults : link['arc-authentication-results']?.parsed;
    const dmarc = RESULTS.safeParse(results).data?.dmarc;
    const passed = (dmarc?.result ?? dmarc?.value) === 'pass';
    if (passed && author !== '' && dmarc?.header.from.toLowerCase() === author) return true;
  }
  return false;
}

const SEAL = z.object({ d: z.object({ value: z.string() }) });
const RESULTS = z.object({
  dmarc: z.object({
    result: z.string().optional(),
    value: z.string().optional(),
    header: z.object({ from: z.string() }),
  }),
});

/** A signature vouches for the envelope sender only where it is of that domain, or of one above. */
function isVouched(sender: string, spf: string, signatures: readonly DkimResult[]): boolean {
  if (sender === '') return false;
  const domain = sender.slice(sender.lastIndexOf('@') + 1).toLowerCase();
  return spf === 'pass' || signatures.some((one) => one.result === 'pass' && isWithin(domain, one.domain));
}

function isWithin(domain: string, parent: string): boolean {
  return parent !== '' && (domain === parent || domain.endsWith(`.${parent}`));
}
