/**
 * What a check found, remembered for as long as DNS says what it said then: a check of the same things makes the same of
 * the same answers. It is asked all that the check asked, in the same order, up to the first answer that differs; so
 * nothing is believed for longer than the resolver believes it, and nothing is asked that the check would not ask.
 */
import { codeOf } from '../lib/errors.ts';
import { isUnanswered, type Ask } from './lookups.ts';

interface Question {
  readonly name: string;
  readonly type: string;
}

interface Outcome<T> {
  readonly found: T;
  readonly answers: readonly (Question & { readonly answer: string })[];
}

const MOST = 500;
/** Of the answers to one check, with what it is of; longer ones are not worth the memory. */
const MOST_CHARACTERS = 4096;

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
    if (size > MOST_CHARACTERS) return;
    const oldest = this.#kept.size < MOST ? undefined : this.#kept.keys().next().value;
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
