/**
 * Who really sent it: SPF (RFC 7208), DKIM (RFC 6376), DMARC (RFC 9989) and ARC (RFC 8617), computed by mailauth from the
 * bytes, the connection and DNS, and never taken from what the mail says of itself. The message is read once, piece by
 * piece. What DNS does not say in time is a `temperror`, which proves nothing, neither for a sender nor against one.
 *
 * The parts of mailauth are called one by one, not its `authenticate`: that loads its BIMI validator, three times as much
 * code as the rest, goes through the header byte by byte, and reads the body of a message that nobody has signed. They are
 * loaded with the first message: 6 MB of memory.
 */
import { isIP } from 'node:net';
import type { ARCResult, DKIMResult, DMARCResult, SPFResult } from 'mailauth';
import type { DkimVerifier } from 'mailauth/lib/dkim/dkim-verifier.js';
import type { evaluateDmarc } from 'mailauth/lib/dmarc/verify.js';
import { z } from 'zod';
import { parseDomain } from '../lib/addresses.ts';
import type { Clock } from '../lib/clock.ts';
import { codeOf } from '../lib/errors.ts';
import { LruMap } from '../lib/lru.ts';
import type { AuthResults, DkimResult } from './auth-results.ts';
import {
  fieldsOf,
  isSameAddress,
  MAX_FROM_BYTES,
  NOT_ONE_AUTHOR,
  readAuthor,
  splitHeader,
  tagsOf,
  type AuthorReading,
  type Field,
  type Pieces,
} from './header.ts';

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

/** Further signatures are left alone, and those of a length that no signer comes near, or with as many blanks in a row. */
const MAX_SIGNATURES = 10;
const MAX_SIGNATURE_LENGTH = 8192;
const MANY_BLANKS = /\s{200}/;
/** Of the lines that tell of the checks, as far as what they tell has blanks. */
const MAX_LINE_LENGTH = 120;

/** Rejects only where the pieces cannot be read. */
export async function authenticate(message: Pieces, circumstances: Circumstances): Promise<Authenticated> {
  const { sender, mta, ask, clock, timeoutMs, trusted, isOwn = false, memory = createMemory() } = circumstances;
  const lookups = createLookups(ask, clock, timeoutMs);
  const resolver = lookups.ask;
  const { header, body } = await splitHeader(message);
  const all = fieldsOf(header);
  const fields = judged(all);
  lookups.ahead(keyNames(fields));
  try {
    const { headerFrom, fromFields, results, arc: chain } = await readSignatures(fields, body, resolver);
    const spf = isOwn ? undefined : await checkClient(circumstances, resolver, memory);
    const { arc: checkArc } = await import('mailauth/lib/arc/index.js');
    const { evaluateDmarc } = await import('mailauth/lib/dmarc/verify.js');
    const arc = await checkArc(chain, { resolver });
    const passed = results.filter(({ status }) => status.result === 'pass');
    const dkimDomains = passed.map(({ signingDomain: domain, status }) => ({ domain, ...status }));
    const spfDomains = spf?.status.result === 'pass' ? [spf.domain] : [];
    // All that DMARC looks at; the rest of a signature is another one in each message.
    const signers = dkimDomains.map(({ domain, underSized }) => [domain, underSized]);
    const { response: dmarc, dkimAligned } = await memory.dmarc.of(
      JSON.stringify([headerFrom, fromFields, spfDomains, signers, arc.status.result]),
      resolver,
      (resolver) => evaluateDmarc({ headerFrom, fromFields, spfDomains, dkimDomains, arcResult: arc, resolver }),
    );
    const author = agreed(readAuthor(all), headerFrom);
    const domain = (dmarc === false ? undefined : parseDomain(dmarc.status.header?.from ?? '')) ?? '';
    const signatures = results.flatMap((result) => signatureOf(result, dmarc, dkimAligned) ?? []);
    const client = { result: spf?.status.result ?? 'none', domain: spf?.domain ?? '' };
    const { result, policy } = dmarcResult(dmarc, { spf: client, signatures, lookups });
    const verdicts = {
      spf: client,
      dkim: signatures,
      dmarc: { result: author.kind === 'unclear' ? 'permerror' : result, policy, domain },
      arc: arcResult(arc, { lookups, trusted, domain }),
      from: author.kind === 'one' ? author.address : '',
      vouched: isOwn || isVouched(sender, client.result, signatures),
    };
    const infos = [...results, spf, arc, dmarc].flatMap((found) => (found ? (found.info ?? []) : []));
    // RFC 8601 §2.7.4
    const told = [mta, ...(isOwn ? ['auth=pass'] : []), ...infos.map(folded)].join(';\r\n ');
    const headers = `${spf === undefined ? '' : `${spf.header}\r\n`}Authentication-Results: ${told}\r\n`;
    // Names that a client or a signature gave itself may be anything; a message of ASCII stays one.
    return { verdicts, author, headers: headers.replaceAll(/[^\r\n\t -~]/g, '?') };
  } finally {
    lookups.end();
  }
}

async function checkClient({ ip, helo, sender, mta }: Circumstances, ask: Ask, memory: Memory): Promise<SPFResult> {
  const { spf: checkSpf } = await import('mailauth/lib/spf/index.js');
  const client = { ip, helo: isIP(helo || ip) === 0 ? helo : `[${helo || ip}]`, sender, mta };
  return memory.spf.of(JSON.stringify(client), ask, (resolver) => checkSpf({ ...client, resolver }));
}

/** DKIM, and what there is of ARC; the body is read where it makes a difference. */
async function readSignatures(
  fields: readonly Field[],
  body: AsyncIterable<Uint8Array>,
  resolver: Ask,
): Promise<DkimVerifier> {
  const { DkimVerifier } = await import('mailauth/lib/dkim/dkim-verifier.js');
  const verifier = new DkimVerifier({ resolver, rejectRsaSha1: true });
  await verifier.emitHeaders(Buffer.from(fields.map(({ text }) => text).join(''), 'latin1'));
  if (verifier.bodyHashes.size > 0) {
    for await (const { buffer, byteOffset, byteLength } of body)
      await verifier.nextChunk(Buffer.from(buffer, byteOffset, byteLength));
  }
  await verifier.finalChunk();
  return verifier;
}

/** Without what would only cost time. */
function judged(fields: readonly Field[]): Field[] {
  let signatures = 0;
  return fields.filter(({ name, text }) => {
    if (name === 'from') return text.length <= MAX_FROM_BYTES;
    if (name !== 'dkim-signature' && name !== 'arc-message-signature' && name !== 'arc-seal') return true;
    if (text.length > MAX_SIGNATURE_LENGTH || MANY_BLANKS.test(text)) return false;
    return name !== 'dkim-signature' || ++signatures <= MAX_SIGNATURES;
  });
}

/** Whose policy counts (RFC 9989 §5.3.1): the author that mailauth, which looks it up, reads as well. */
function agreed(author: AuthorReading, authors: readonly string[]): AuthorReading {
  const [theirs, ...rest] = authors;
  if (author.kind !== 'one') return author;
  if (theirs !== undefined && rest.length === 0 && isSameAddress(author.address, theirs)) return author;
  return { kind: 'unclear', fault: NOT_ONE_AUTHOR };
}

/** The names of the signatures' keys. */
function keyNames(fields: readonly Field[]): string[] {
  return fields
    .filter(({ name }) => name === 'dkim-signature')
    .flatMap((field) => {
      const tags = tagsOf(field);
      const [domain = '', selector = ''] = [tags.get('d'), tags.get('s')];
      return domain === '' || selector === '' ? [] : [keyName({ domain, selector })];
    });
}

function keyName({ domain, selector }: { readonly domain: string; readonly selector: string }): string {
  return `${selector}._domainkey.${domain}`;
}

/** Whether a signature that passes is the author's is for DMARC to say; of one that fails, what would have been. */
function signatureOf(
  { signingDomain, selector = '', status }: DKIMResult,
  dmarc: DMARCResult | false,
  passing: ReadonlySet<string> | undefined,
): DkimResult | undefined {
  if (signingDomain === undefined) return undefined;
  const { result } = status;
  const name = parseDomain(signingDomain) ?? '';
  let aligned = typeof status.aligned === 'string' && status.aligned !== '';
  if (dmarc !== false && passing !== undefined) {
    if (result === 'pass') aligned = passing.has(name);
    else if (dmarc.alignment.dkim.strict) aligned &&= name === parseDomain(dmarc.status.header?.from ?? '');
  }
  return { domain: signingDomain.toLowerCase(), selector, result, aligned };
}

/** Broken at blanks, never so that a line is blank. */
function folded(text: string): string {
  let line = 0;
  return text.replaceAll(/(?<![ \t])[ \t]*[^ \t]+/g, (word) => {
    const breaks = line > 0 && line + word.length > MAX_LINE_LENGTH && /^[ \t]/.test(word);
    line = (breaks ? 0 : line) + word.length;
    return breaks ? `\r\n${word}` : word;
  });
}

function dmarcResult(
  dmarc: DMARCResult | false,
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

// The DNS questions of one message, of which a stranger chooses the names: at most so many of them, each asked once, and
// none for ever. DMARC records, the author's own, have a number and time of their own, so that names in a stranger's hands
// cannot use up what is needed to find a forgery out.

/** Rejects with Node's codes; ESERVFAIL is a question that nobody could answer. */
export type Ask = (name: string, type: string) => Promise<string[][] | string[]>;

interface Lookups {
  readonly ask: Ask;
  /** Asks for these TXT records at once, so that a slow one keeps no other waiting. */
  ahead(names: readonly string[]): void;
  /** Whether DNS could not say, though it had the time; not where the question was one too many, or came too late. */
  failed(name: string): boolean;
  /** Whether a question about such a name had no answer, for whatever reason. */
  unanswered(names: RegExp): boolean;
  /** Nobody asks any more. */
  end(): void;
}

/** Of each kind. */
const MAX_LOOKUPS = 50;
const DMARC = /^_dmarc\./i;

/** All questions but those for DMARC records end `ms` from now, and those at one and a half times that. */
export function createLookups(ask: Ask, clock: Clock, ms: number): Lookups {
  const over = new AbortController();
  const failures = new Set<string>();
  const unanswered = new Set<string>();
  const late = after(ms);
  const budgets = {
    dmarc: { left: MAX_LOOKUPS, late: late.then(() => after(ms / 2)) },
    other: { left: MAX_LOOKUPS, late },
  };
  const early = new Set<string>();
  const asked = new Map<string, ReturnType<Ask>>();

  /** Not once it is over: nobody would hear it. */
  async function after(ms: number): Promise<void> {
    await clock.sleep(ms, over.signal);
    if (over.signal.aborted) await new Promise<never>(() => undefined);
  }

  async function question(name: string, type: string): Promise<string[][] | string[]> {
    const budget = DMARC.test(name) ? budgets.dmarc : budgets.other;
    try {
      if (budget.left-- <= 0) throw unanswerable('too many DNS queries for one message');
      return await Promise.race([answer(name, type), budget.late.then(tooLate)]);
    } catch (error) {
      if (isUnanswered(error)) unanswered.add(name.toLowerCase());
      throw error;
    }
  }

  async function answer(name: string, type: string): Promise<string[][] | string[]> {
    try {
      return await ask(name, type);
    } catch (error) {
      if (isUnanswered(error)) failures.add(name.toLowerCase());
      throw error;
    }
  }

  function once(name: string, type: string): ReturnType<Ask> {
    const key = `${type} ${name.toLowerCase()}`;
    const known = asked.get(key) ?? question(name, type);
    asked.set(key, known);
    return known;
  }

  return {
    ask: once,
    ahead(names) {
      for (const name of names) {
        early.add(name.toLowerCase());
        once(name, 'TXT').catch(() => undefined);
      }
    },
    failed(name) {
      const key = name.toLowerCase();
      return failures.has(key) || (early.has(key) && unanswered.has(key));
    },
    unanswered: (names) => [...unanswered].some((name) => names.test(name)),
    // Without a reason it would make an error for each message.
    end: () => over.abort('over'),
  };
}

function tooLate(): never {
  throw unanswerable('DNS did not answer in time');
}

function unanswerable(message: string): Error {
  return Object.assign(new Error(message), { code: 'ESERVFAIL' });
}

/** Whether DNS did not say, rather than that there is none. */
function isUnanswered(error: unknown): boolean {
  const code = codeOf(error);
  return code !== 'ENOTFOUND' && code !== 'ENODATA';
}

// What a check found, remembered for as long as DNS says what it said then: a check of the same things makes the same of
// the same answers. It is asked all that the check asked, in the same order, up to the first answer that differs; so
// nothing is believed for longer than the resolver believes it, and nothing is asked that the check would not ask.

/** What was found of senders and of authors, for messages to come. */
interface Memory {
  readonly spf: Outcomes<SPFResult>;
  readonly dmarc: Outcomes<Awaited<ReturnType<typeof evaluateDmarc>>>;
}

export function createMemory(): Memory {
  return { spf: new Outcomes(), dmarc: new Outcomes() };
}

interface Question {
  readonly name: string;
  readonly type: string;
}

interface Outcome<T> {
  readonly found: T;
  readonly answers: readonly (Question & { readonly answer: string })[];
}

const MAX_OUTCOMES = 500;
/** Of the answers to one check, with what it is of; longer ones are not worth the memory. */
const MAX_CHARACTERS = 4096;

export class Outcomes<T> {
  readonly #kept = new LruMap<Outcome<T>>(MAX_OUTCOMES);

  /** What `check` finds of what `key` names; not to be changed by whoever gets it. */
  async of(key: string, ask: Ask, check: (ask: Ask) => Promise<T>): Promise<T> {
    const known = this.#kept.get(key);
    if (known !== undefined && (await isCurrent(known, ask))) return known.found;
    this.#kept.delete(key);
    const asked = new Map<string, Question & { readonly answer: ReturnType<Ask> }>();
    const found = await check((name, type) => {
      const answer = ask(name, type);
      asked.set(`${type} ${name}`, { name, type, answer });
      return answer;
    });
    const answers: (Question & { readonly answer: string })[] = [];
    for (const question of asked.values()) {
      const answer = await said(question.answer);
      if (answer === undefined) return found;
      answers.push({ ...question, answer });
    }
    const size = answers.reduce((sum, { name, answer }) => sum + name.length + answer.length, key.length);
    if (size <= MAX_CHARACTERS) this.#kept.set(key, { found, answers });
    return found;
  }
}

async function isCurrent({ answers }: Outcome<unknown>, ask: Ask): Promise<boolean> {
  for (const { name, type, answer } of answers) {
    if ((await said(ask(name, type))) !== answer) return false;
  }
  return true;
}

/** Undefined where DNS did not say: whatever follows from that is for one message. */
async function said(answer: ReturnType<Ask>): Promise<string | undefined> {
  try {
    return JSON.stringify(await answer);
  } catch (error) {
    return isUnanswered(error) ? undefined : codeOf(error);
  }
}
