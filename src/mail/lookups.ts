/**
 * The DNS questions of one message, of which a stranger chooses the names: at most so many of them, each asked once, and
 * none for ever. DMARC records, the author's own, have a number and time of their own, so that names in a stranger's
 * hands cannot use up what is needed to find a forgery out.
 */
import type { Clock } from '../lib/clock.ts';

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
const MAX = 50;
const DMARC = /^_dmarc\./i;

/** All questions but those for DMARC records end `ms` from now, and those at one and a half times that. */
export function createLookups(ask: Ask, clock: Clock, ms: number): Lookups {
  const over = new AbortController();
  const failures = new Set<string>();
  const unanswered = new Set<string>();
  const late = after(ms);
  const budgets = { dmarc: { left: MAX, late: late.then(() => after(ms / 2)) }, other: { left: MAX, late } };
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
export function isUnanswered(error: unknown): boolean {
  const code = error instanceof Error && 'code' in error ? error.code : undefined;
  return code !== 'ENOTFOUND' && code !== 'ENODATA';
}
