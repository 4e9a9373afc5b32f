/**
 * The DNS questions of one message, of which a stranger chooses the names: at most so many of them, each asked once, and
 * none for ever. DMARC records, the author's own, have a number and time of their own, so that names in a stranger's hands
 * cannot use up what is needed to find a forgery out.
 */
import type { SPFResult } from 'mailauth';
import type { evaluateDmarc } from 'mailauth/lib/dmarc/verify.js';
import type { Clock } from '../lib/clock.ts';
import { codeOf } from '../lib/errors.ts';
import { Recent } from '../lib/lru.ts';

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
  const code = codeOf(error);
  return code !== 'ENOTFOUND' && code !== 'ENODATA';
}

// What a check found, remembered for as long as DNS says what it said then: a check of the same things makes the same of
// the same answers. It is asked all that the check asked, in the same order, up to the first answer that differs; so
// nothing is believed for longer than the resolver believes it, and nothing is asked that the check would not ask.

/** What was found of senders and of authors, for messages to come. */
export interface Memory {
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
  readonly #kept = new Recent<Outcome<T>>(MAX_OUTCOMES);

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
    const size = answers.reduce((sum, { name, answer }) => sum + name.length + answer.length, key.length);
    if (size <= MAX_CHARACTERS) this.#kept.set(key, { found, answers });
    return found;
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
