/**
 * What the store thread and its clients say to each other. Everything of one turn of the event loop crosses together, and
 * each unit as one flat array: cloning many small objects between threads costs more than running the statements that they
 * hold. SQL text crosses once per client and statement, then its number.
 */
import type { MessagePort } from 'node:worker_threads';
import type { CompiledStatement, Value } from './statement.ts';

export interface Request {
  readonly define: readonly (readonly [number, string])[];
  readonly units: readonly PackedUnit[];
}

export type FromClient = Request | { readonly client: MessagePort } | { readonly close: true };

/** The rows of a statement that returns some, else how many it changed. */
export type Outcome = readonly unknown[] | number;

/** Its id, then each call as `packCall` lays it out. */
export type PackedUnit = readonly Value[];

export interface UnitCall {
  readonly id: number;
  readonly calls: readonly Call[];
}

export interface Call {
  readonly statement: number;
  /** Rows that it must touch. */
  readonly expect: number | undefined;
  readonly parameters: readonly Value[];
}

export type Answer =
  | { readonly id: number; readonly outcomes: readonly Outcome[] }
  | { readonly id: number; readonly failure: { readonly message: string; readonly code: string } };

/** Answer after answer, as `packAnswer` lays them out. */
export type Answers = readonly (Outcome | string)[];

export type ToClient = { readonly answers: Answers } | { readonly ready: true } | { readonly closed: true };

const ANY = -1;
const FAILED = -1;

export interface CallToPack {
  readonly statement: number;
  readonly compiled: CompiledStatement;
  readonly values: object;
  readonly expect?: number | undefined;
}

/** Puts `statement, expect, parameters` and the parameters behind what is in the unit. */
export function packCall({ statement, compiled, values, expect = ANY }: CallToPack, unit: Value[]): void {
  unit.push(statement, expect, compiled.count);
  compiled.bind(values, unit);
}

/** The unit that was packed. */
export function unpackUnit(packed: PackedUnit): UnitCall {
  const calls: Call[] = [];
  for (let at = 1; at < packed.length;) {
    const [statement, expect, count] = [Number(packed[at]), Number(packed[at + 1]), Number(packed[at + 2])];
    at += 3;
    calls.push({ statement, expect: expect === ANY ? undefined : expect, parameters: packed.slice(at, at + count) });
    at += count;
  }
  return { id: Number(packed[0]), calls };
}

/** `id, outcomes` and the outcomes, or `id, -1, message, code`. */
export function packAnswer(answer: Answer, into: (Outcome | string)[]): void {
  if ('failure' in answer) into.push(answer.id, FAILED, answer.failure.message, answer.failure.code);
  else into.push(answer.id, answer.outcomes.length, ...answer.outcomes);
}

/** The answers that were packed one after another. */
export function unpackAnswers(packed: Answers): Answer[] {
  const answers: Answer[] = [];
  for (let at = 0; at < packed.length;) {
    const id = Number(packed[at]);
    const count = Number(packed[at + 1]);
    at += 2;
    if (count === FAILED) {
      answers.push({ id, failure: { message: String(packed[at]), code: String(packed[at + 1]) } });
      at += 2;
    } else {
      answers.push({ id, outcomes: packed.slice(at, at + count).filter((outcome) => typeof outcome !== 'string') });
      at += count;
    }
  }
  return answers;
}
