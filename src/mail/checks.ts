/**
 * The checks of one message by mailauth, and the two header lines that tell of them. Its parts are called one by one,
 * not its `authenticate`: that loads its BIMI validator, three times as much code as the rest, goes through the header
 * byte by byte, and reads the body of a message that nobody has signed.
 */
import { isIP } from 'node:net';
import type { ARCResult, DKIMResult, DMARCResult, SPFResult } from 'mailauth';
import { arc as checkArc } from 'mailauth/lib/arc/index.js';
import { DkimVerifier } from 'mailauth/lib/dkim/dkim-verifier.js';
import { evaluateDmarc } from 'mailauth/lib/dmarc/verify.js';
import { spf as checkSpf } from 'mailauth/lib/spf/index.js';
import { parseDomain } from '../lib/addresses.ts';
import type { DkimResult } from './auth-results.ts';
import { codeOf } from '../lib/errors.ts';
import type { Clock } from '../lib/clock.ts';

export interface Message {
  /** Its header lines, one character a byte, without the empty line. */
  readonly header: string;
  /** Read where it makes a difference. */
  readonly body: AsyncIterable<Uint8Array>;
}

/** Where it came from, as in authenticate.ts. */
export interface Connection {
  readonly ip: string;
  readonly helo: string;
  readonly sender: string;
  readonly mta: string;
  readonly ask: Ask;
  readonly isOwn: boolean;
  readonly memory: Memory;
}

/** What was found of senders and of authors, for messages to come. */
export interface Memory {
  readonly spf: Outcomes<SPFResult>;
  readonly dmarc: Outcomes<DmarcOutcome>;
}

type DmarcOutcome = Awaited<ReturnType<typeof evaluateDmarc>>;

export interface Checked {
  /** Undefined for our own mail: there is no client. */
  readonly spf: SPFResult | undefined;
  /** One for each signature that could be read. */
  readonly dkim: readonly DkimResult[];
  /** False where the author cannot be told. */
  readonly dmarc: DMARCResult | false;
  readonly arc: ARCResult;
  /** The authors' addresses. */
  readonly authors: readonly string[];
  /** `Received-SPF` (but for our own mail) and `Authentication-Results`, each line with its CRLF. */
  readonly headers: string;
}

export function createMemory(): Memory {
  return { spf: new Outcomes(), dmarc: new Outcomes() };
}

/** Of the lines that tell of the checks, as far as what they tell has blanks. */
const LINE = 120;

/** Rejects only where the body cannot be read. */
export async function check(message: Message, connection: Connection): Promise<Checked> {
  const { mta, ask: resolver, isOwn, memory } = connection;
  const { headerFrom: authors, fromFields, results, arc: chain } = await readSignatures(message, resolver);
  const spf = isOwn ? undefined : await checkClient(connection);
  const arc = await checkArc(chain, { resolver });
  const author = { headerFrom: authors, fromFields, spfDomains: spf?.status.result === 'pass' ? [spf.domain] : [] };
  const passed = results.filter(({ status }) => status.result === 'pass');
  const dkimDomains = passed.map(({ signingDomain: domain, status }) => ({ domain, ...status }));
  // All that DMARC looks at; the rest of a signature is another one in each message.
  const signers = dkimDomains.map(({ domain, underSized }) => [domain, underSized]);
  const { response: dmarc, dkimAligned: aligned } = await memory.dmarc.of(
    JSON.stringify([author, signers, arc.status.result]),
    resolver,
    (resolver) => evaluateDmarc({ ...author, dkimDomains, arcResult: arc, resolver }),
  );
  const infos = [...results, spf, arc, dmarc].flatMap((found) => (found ? (found.info ?? []) : []));
  const dkim = results.flatMap((result) => verdictOf(result, dmarc, aligned) ?? []);
  // RFC 8601 §2.7.4
  const told = [mta, ...(isOwn ? ['auth=pass'] : []), ...infos.map(folded)].join(';\r\n ');
  const lines = [...(spf === undefined ? [] : [spf.header]), `Authentication-Results: ${told}`];
  return { spf, dkim, dmarc, arc, authors, headers: lines.map((line) => `${line}\r\n`).join('') };
}

function checkClient({ ip, helo, sender, mta, ask, memory }: Connection): Promise<SPFResult> {
  const client = { ip, helo: isIP(helo || ip) === 0 ? helo : `[${helo || ip}]`, sender, mta };
  return memory.spf.of(JSON.stringify(client), ask, (resolver) => checkSpf({ ...client, resolver }));
}

/** DKIM, and what there is of ARC. */
async function readSignatures({ header, body }: Message, resolver: Ask): Promise<DkimVerifier> {
  const verifier = new DkimVerifier({ resolver, rejectRsaSha1: true });
  await verifier.emitHeaders(Buffer.from(header, 'latin1'));
  if (verifier.bodyHashes.size > 0) {
    for await (const { buffer, byteOffset, byteLength } of body)
      await verifier.nextChunk(Buffer.from(buffer, byteOffset, byteLength));
  }
  await verifier.finalChunk();
  return verifier;
}

/** Whether a signature that passes is the author's is for DMARC to say; of one that fails, what would have been. */
function verdictOf(
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
  return text.replaceAll(/[ \t]*[^ \t]+/g, (word) => {
    const breaks = line > 0 && line + word.length > LINE && /^[ \t]/.test(word);
    line = (breaks ? 0 : line) + word.length;
    return breaks ? `\r\n${word}` : word;
  });
}

// * What a check found, remembered for as long as DNS says what it said then: a check of the same things makes the same of
// the same answers. It is asked all that the check asked, in the same order, up to the first answer that differs; so
// nothing is believed for longer than the resolver believes it, and nothing is asked that the check would not ask.

interface Question {
  readonly name: string;
  readonly type: string;
}

interface Outcome<T> {
  readonly found: T;
  readonly answers: readonly (Question & { readonly answer: string })[];
}

const MAX = 500;
/** Of the answers to one check, with what it is of; longer ones are not worth the memory. */
const MAX_CHARACTERS = 4096;

export class Outcomes<T> {
  readonly #kept = new Map<string, Outcome<T>>();

  /** What `check` finds of what `key` names; not to be changed by whoever gets it. */
  async of(key: string, ask: Ask, check: (ask: Ask) => Promise<T>): Promise<T> {
    const known = this.#kept.get(key);
    if (known !== undefined && (await stands(known, ask))) return known.found;
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
    this.#keep(key, { found, answers });
    return found;
  }

  #keep(key: string, outcome: Outcome<T>): void {
    const size = outcome.answers.reduce((sum, { name, answer }) => sum + name.length + answer.length, key.length);
    if (size > MAX_CHARACTERS) return;
    const oldest = this.#kept.size < MAX ? undefined : this.#kept.keys().next().value;
    if (oldest !== undefined) this.#kept.delete(oldest);
    this.#kept.set(key, outcome);
  }
}

async function stands({ answers }: Outcome<unknown>, ask: Ask): Promise<boolean> {
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

// * The DNS questions of one message, of which a stranger chooses the names: at most so many of them, each asked once, and
// none for ever. DMARC records, the author's own, have a number and time of their own, so that names in a stranger's
// hands cannot use up what is needed to find a forgery out.

/** Rejects with Node's codes; ESERVFAIL is a question that nobody could answer. */
export type Ask = (name: string, type: string) => Promise<string[][] | string[]>;

export interface Lookups {
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
      if (budget.left-- <= 0) throw unanswerable('one message asks no more of DNS');
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
  throw unanswerable('no answer from DNS in time');
}

function unanswerable(message: string): Error {
  return Object.assign(new Error(message), { code: 'ESERVFAIL' });
}

/** Whether DNS did not say, rather than that there is none. */
function isUnanswered(error: unknown): boolean {
  const code = error instanceof Error && 'code' in error ? error.code : undefined;
  return code !== 'ENOTFOUND' && code !== 'ENODATA';
}
