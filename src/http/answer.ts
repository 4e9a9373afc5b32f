/** What a route answers, as a value: it can be stored, replayed and tested, and one place writes it. */
import { z } from 'zod';
import type { Page } from './pages/layout.ts';
import { shapeA, statusOf, type Refusal } from './errors.ts';

/** `Body` is what the answer holds, for the compiler. */
export interface Answer<Body = unknown> {
  readonly status: number;
  readonly type: (typeof TYPES)[number];
  readonly body: string;
  /** In place of the body, piece by piece as the client takes them; such an answer cannot be stored. */
  readonly stream?: AsyncIterable<string | Uint8Array> | undefined;
  readonly headers?: Readonly<Record<string, string>> | undefined;
  /** Never present: it ties the text to its type. */
  readonly shape?: Body;
}

const TYPES = [
  'application/json',
  'text/html; charset=utf-8',
  'text/csv; charset=utf-8',
  'text/plain; charset=utf-8',
  'text/javascript; charset=utf-8',
  'application/octet-stream',
] as const;

const storedAnswer = z.strictObject({
  status: z.int(),
  type: z.enum(TYPES),
  body: z.string(),
  headers: z.record(z.string(), z.string()).optional(),
});

/** A JSON answer. */
export function json<Body extends object>(
  body: Body,
  status = 200,
  headers?: Readonly<Record<string, string>>,
): Answer<Body> {
  return { status, type: 'application/json', body: JSON.stringify(body), headers };
}

/** A page. */
export function page({ html, policy }: Page, status = 200, headers?: Readonly<Record<string, string>>): Answer {
  return {
    status,
    type: 'text/html; charset=utf-8',
    body: html,
    headers: { ...headers, 'Content-Security-Policy': policy, 'X-Robots-Tag': 'noindex' },
  };
}

/** A refusal of an authenticated or administrative route. */
export function refusedA(refusal: Refusal, requestId: string): Answer {
  return json(shapeA(refusal, requestId), statusOf(refusal), refusal.headers);
}

/** Where a browser goes on with a GET (RFC 9110 §15.4.4). */
export function seeOther(location: string): Answer {
  return { status: 303, type: 'text/html; charset=utf-8', body: '', headers: { Location: location } };
}

/** Settles what is answered; it is written once everything about the exchange is known. */
export function send({ state }: { readonly state: { answer?: Answer } }, answer: Answer): void {
  state.answer = answer;
}

/** The answer as text that `parseAnswer` reads. */
export function formatAnswer(answer: Answer): string {
  return JSON.stringify(answer);
}

/** An answer that was stored. */
export function parseAnswer(text: string): Answer {
  return storedAnswer.parse(JSON.parse(text));
}
