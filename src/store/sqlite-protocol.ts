/** What the store thread and its clients say to each other. SQL text crosses once per client and statement, then its number. */
import type { MessagePort } from 'node:worker_threads';
import type { Value } from './statement.ts';

/** A statement's number (or its text, when it is not to be kept), its parameters, and the rows it must touch. */
export type Call = readonly [statement: number | string, parameters: readonly Value[], expect: number | undefined];

export interface UnitCall {
  readonly id: number;
  readonly calls: readonly Call[];
}

export interface Request {
  readonly define: readonly (readonly [number, string])[];
  readonly units: readonly UnitCall[];
}

export type FromClient = Request | { readonly client: MessagePort } | { readonly close: true };

/** The rows of a statement that returns some, else how many it changed: a bare number crosses between threads for less. */
export type Outcome = readonly unknown[] | number;

export type Answer =
  | { readonly id: number; readonly results: readonly Outcome[] }
  | { readonly id: number; readonly failure: { readonly message: string; readonly code: string } };

export type ToClient = { readonly answers: readonly Answer[] } | { readonly ready: true } | { readonly closed: true };
