/**
 * What the store thread and its clients say to each other. Everything of one turn of the event loop crosses as one flat
 * array: cloning many small objects between threads costs more than running the statements that they hold. SQL text
 * crosses once per client and statement, then its number.
 */
import type { MessagePort } from 'node:worker_threads';
import type { Value } from './statement.ts';

export interface Request {
  readonly define: readonly (readonly [number, string])[];
  /** Unit after unit, as `packUnit` lays them out. */
  readonly units: readonly Value[];
}

export type FromClient = Request | { readonly client: MessagePort } | { readonly close: true };

/** The rows of a statement that returns some, else how many it changed. */
export type Outcome = readonly unknown[] | number;

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

/** `id, calls`, then for each call `statement, expect, parameters` and the parameters. */
export function packUnit({ id, calls }: UnitCall, into: Value[]): void {
  into.push(id, calls.length);
  for (const { statement, expect = ANY, parameters } of calls) {
    into.push(statement, expect, parameters.length);
    for (const parameter of parameters) into.push(parameter);
  }
}

/** The units that were packed one after another. */
export function unpackUnits(packed: readonly Value[]): UnitCall[] {
  const units: UnitCall[] = [];
  for (let at = 0; at < packed.length;) {
    const id = Number(packed[at++]);
    const calls: Call[] = [];
    for (let left = Number(packed[at++]); left > 0; left--) {
      const [statement, expect, count] = [Number(packed[at]), Number(packed[at + 1]), Number(packed[at + 2])];
      at += 3;
      calls.push({ statement, expect: expect === ANY ? undefined : expect, parameters: packed.slice(at, at + count) });
      at += count;
    }
    units.push({ id, calls });
  }
  return units;
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
