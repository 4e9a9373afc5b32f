/**
 * What a route answers, as a value: it can be stored, replayed and tested, and one place writes it. JSON, pages, CSV, files
 * to be saved, refusals in both shapes; and which of them a client wants.
 */
import type { IncomingHttpHeaders } from 'node:http';
import { z } from 'zod';
import type { Page } from './pages/layout.ts';
import { errorEntry, type ErrorCode } from '../contract/errors.ts';
import type { FieldError } from '../forms/fields.ts';
import { isMessageName, type Localized, localized, type Translation, translationOf } from '../languages/languages.ts';
import type { Html } from '../lib/html.ts';
import { BusyError } from '../lib/errors.ts';
import { StoreError, UnknownOutcomeError } from '../store/store.ts';

const storedAnswer = z.strictObject({
  status: z.int(),
  /** The Content-Type. */
  type: z.string(),
  body: z.string(),
  headers: z.record(z.string(), z.string()).readonly().optional(),
});

/** What a route answers. */
export interface Answer extends Readonly<z.output<typeof storedAnswer>> {
  /** In place of the body, piece by piece as the client takes them; such an answer cannot be stored. */
  readonly stream?: AsyncIterable<string | Uint8Array> | undefined;
}

/** A JSON answer. */
export function json(body: unknown, status = 200, headers?: Answer['headers']): Answer {
  return { status, type: 'application/json', body: JSON.stringify(body), headers };
}

/** A page. */
export function page({ html, policy, language }: Page, status = 200, headers?: Answer['headers']): Answer {
  return {
    status,
    type: 'text/html; charset=utf-8',
    body: html,
    headers: {
      ...headers,
      ...(language === undefined ? {} : languageHeaders({ language })),
      'Content-Security-Policy': policy,
      'X-Robots-Tag': 'noindex',
    },
  };
}

/** A part of somebody else's page. */
export function fragment({ text }: Html, status = 200, headers?: Answer['headers']): Answer {
  return { status, type: 'text/html; charset=utf-8', body: text, headers: { ...headers, ...FRAGMENT_HEADERS } };
}

/** Of who opens it by itself. */
const FRAGMENT_HEADERS = {
  'Content-Security-Policy': "default-src 'none'; frame-ancestors 'none'",
  'X-Robots-Tag': 'noindex',
};

/** Of an answer that is in the language of whoever asked (RFC 9110 §8.5, §12.5.5). */
export function languageHeaders({ language }: Pick<Translation, 'language'>): Record<string, string> {
  return { 'Content-Language': language, Vary: 'Accept-Language' };
}

/** A refusal of an authenticated or administrative route. */
export function refusedA(refusal: Refusal, requestId: string): Answer {
  return json(shapeA(refusal, requestId), statusOf(refusal), refusal.headers);
}

/** Where a browser goes on with a GET (RFC 9110 §15.4.4). */
export function seeOther(location: string): Answer {
  return { status: 303, type: 'text/html; charset=utf-8', body: '', headers: { Location: location } };
}

/** An answer that was stored as JSON. */
export function parseAnswer(text: string): Answer {
  return storedAnswer.parse(JSON.parse(text));
}

/**
 * Whether a client wants a page rather than JSON. Fetch Metadata decides first, because a bare `fetch()` accepts anything, as a
 * navigation by an old browser does. `json`: whether the body was JSON.
 */
export function wantsPage(headers: IncomingHttpHeaders, json: boolean): boolean {
  const mode = headers['sec-fetch-mode'];
  if (mode !== undefined) return mode === 'navigate';
  if (json || headers['x-requested-with'] !== undefined) return false;
  return !prefers(headers.accept, JSON_TYPE, HTML_TYPE);
}

/** Whether the header names CSV and ranks it before JSON. */
export function prefersCsv(accept: string | undefined): boolean {
  return prefers(accept, /^text\/csv$/, JSON_TYPE);
}

/** Whether the header names JSON lines and ranks them before JSON. */
export function prefersLines(accept: string | undefined): boolean {
  return prefers(accept, /^application\/x-ndjson$/, JSON_TYPE);
}

const JSON_TYPE = /^application\/json$|\+json$/;
const HTML_TYPE = /^(text\/html|application\/xhtml\+xml)$/;

/** Whether the header names a wanted type and no other one ranks as high (RFC 9110 §12.5.1). */
function prefers(accept: string | undefined, wanted: RegExp, other: RegExp): boolean {
  if (accept === undefined) return false;
  const ranges = accept
    .toLowerCase()
    .split(',')
    .map((range) => range.split(';').map((part) => part.trim()));
  return best(wanted) > best(other);

  function best(types: RegExp): number {
    return Math.max(0, ...ranges.filter(([type = '']) => types.test(type)).map(qualityOf));
  }
}

function qualityOf(range: readonly string[]): number {
  const quality = Number(range.find((part) => part.startsWith('q='))?.slice(2) ?? 1);
  return quality >= 0 && quality <= 1 ? quality : 0;
}

export type Cell = string | number | null;

/**
 * What begins a formula in one spreadsheet or another; some skip white space before it. An apostrophe in front makes it
 * text, so that submitted values cannot act in the owner's spreadsheet.
 */
const FORMULA = /^[=+\-@\t\r\n＝＋－＠]/;
const NEEDS_QUOTES = /[",\r\n]/;

/** One line with its CRLF. Null is an empty cell; numbers are numbers, negative ones too. */
export function csvLine(cells: readonly Cell[]): string {
  return `${cells.map(csvCell).join(',')}\r\n`;
}

function csvCell(cell: Cell): string {
  if (typeof cell === 'number') return String(cell);
  const text = cell === null ? '' : FORMULA.test(cell) ? `'${cell}` : cell;
  return NEEDS_QUOTES.test(text) ? `"${text.replaceAll('"', '""')}"` : text;
}

/** A download: the names of the columns, then the rows. `filename` has no quotes in it. */
export function csv(columns: readonly string[], rows: readonly (readonly Cell[])[], filename: string): Answer {
  return {
    status: 200,
    type: 'text/csv; charset=utf-8',
    body: [columns, ...rows].map(csvLine).join(''),
    headers: { 'Content-Disposition': `attachment; filename="${filename}"` },
  };
}

export interface Download {
  readonly type: string;
  /** Any text. */
  readonly filename: string;
  /** Bytes, where that is known. */
  readonly size?: number;
  readonly stream: AsyncIterable<string | Uint8Array>;
}

/** The file, piece by piece: an attachment of a declared type, and in a sandbox where a browser opens it all the same. */
export function download({ type, filename, size, stream }: Download): Answer {
  return {
    status: 200,
    type,
    body: '',
    stream: size === undefined ? stream : whole(stream, size),
    headers: {
      'Content-Disposition': disposition(filename),
      'Content-Security-Policy': "default-src 'none'; sandbox",
      ...(size === undefined ? {} : { 'Content-Length': String(size) }),
    },
  };
}

/** Breaks off where less comes than was announced, so that nobody takes a part for the whole. */
async function* whole(stream: Download['stream'], size: number): AsyncGenerator<string | Uint8Array> {
  let left = size;
  for await (const piece of stream) {
    left -= Buffer.byteLength(piece);
    yield piece;
  }
  if (left !== 0) throw new Error('the file was removed while it was downloaded');
}

/** RFC 6266: the name in ASCII for old clients, and as it is (RFC 8187). */
function disposition(filename: string): string {
  const name = filename.toWellFormed() === '' ? 'file' : filename.toWellFormed();
  const plain = name.replaceAll(/[^\x20-\x7e]|["\\%]/g, '_');
  const exact = encodeURIComponent(name).replaceAll(
    /['()*]/g,
    (char) => `%${char.charCodeAt(0).toString(16).toUpperCase()}`,
  );
  return plain === name
    ? `attachment; filename="${plain}"`
    : `attachment; filename="${plain}"; filename*=UTF-8''${exact}`;
}

// Refused requests, and both shapes of their bodies. Codes, statuses and usual messages are the contract's. No answer says
// what went wrong inside the server: the request id finds the log line.

/** What is wrong with one value; of a file also where it stands, from 1. */
export interface Detail extends FieldError {
  readonly line?: number;
  readonly column?: number;
}

/** A request that is not done, and why. */
export interface Refusal {
  readonly kind: 'refused';
  readonly code: ErrorCode;
  /** In place of the usual message. What is text already is English, for whoever builds the client. */
  readonly message?: Localized | undefined;
  readonly errors?: readonly Detail[] | undefined;
  readonly headers?: Readonly<Record<string, string>> | undefined;
  /** More members of the body, of both shapes. */
  readonly members?: Readonly<Record<string, unknown>> | undefined;
}

/** The value of a refusal; `more` gives its own words, fields or headers. */
export function refuse(code: ErrorCode, more: Omit<Refusal, 'kind' | 'code'> = {}): Refusal {
  return { kind: 'refused', code, ...more };
}

/** The refusal of a key that may not, which names what it would need. */
export function lacksPermission(permission: string): Refusal {
  return refuse('AUTH_FORBIDDEN', { message: `The API key does not have the permission ${permission}.` });
}

/** What a fault is to the client: a store that cannot write, or too much at a time, is 503, all else is 500. */
export function refusalOf(error: unknown): Refusal {
  if (error instanceof BusyError) return unavailable(error.message);
  if (error instanceof UnknownOutcomeError) {
    return refuse('OUTCOME_UNKNOWN', { members: { id: error.id }, headers: { 'Retry-After': '5' } });
  }
  return error instanceof StoreError ? unavailable() : refuse('INTERNAL');
}

/** The store, or its disk, takes nothing now. */
export function unavailable(message?: string): Refusal {
  return refuse('UNAVAILABLE', { message, headers: { 'Retry-After': '5' } });
}

export function statusOf(refusal: Refusal): number {
  return errorEntry(refusal.code).status;
}

const ENGLISH = translationOf('en');

/** The words for a person, in English. */
export function wordsOf(refusal: Refusal): string {
  return localized(ownWords(refusal) ?? errorEntry(refusal.code).message, ENGLISH);
}

/** The message of this refusal, or of the one error in it. */
function ownWords({ message, errors: [first, ...rest] = [] }: Refusal): Localized | undefined {
  return message ?? (rest.length === 0 ? first?.message : undefined);
}

/** What a visitor is told, and beside it in English what only the owner of the site can use. */
export interface VisitorWords {
  readonly text: string;
  readonly detail?: string | undefined;
}

/** Why a form was not taken, in the visitor's language. */
export function visitorWords(refusal: Refusal, translation: Translation): VisitorWords {
  const own = ownWords(refusal);
  if (own !== undefined && typeof own !== 'string') return { text: own(translation) };
  const name = `error.${refusal.code}`;
  const isKnown = isMessageName(name);
  const detail = own ?? (isKnown ? undefined : errorEntry(refusal.code).message);
  if (detail !== undefined && translation.language === 'en') return { text: detail };
  const domain = refusal.members?.['domain'];
  const text = translation.say(isKnown ? name : 'error.OTHER', { domain: typeof domain === 'string' ? domain : '' });
  const wait = refusal.code === 'RATE_LIMITED' ? refusal.headers?.['Retry-After'] : undefined;
  return { text: wait === undefined ? text : `${text} ${waitWords(Number(wait), translation)}`, detail };
}

/** For a wait in seconds. */
function waitWords(seconds: number, { say }: Translation): string {
  const minutes = Math.ceil(seconds / 60);
  return minutes < 90
    ? say('form.retryMinutes', { minutes })
    : say('form.retryHours', { hours: Math.ceil(minutes / 60) });
}

/** Shape A: authenticated and administrative routes. */
export function shapeA(refusal: Refusal, requestId: string): object {
  return {
    error: wordsOf(refusal),
    code: refusal.code,
    request_id: requestId,
    details: refusal.errors?.map(({ field: path = '', message, line, column }) => ({
      path,
      message: localized(message, ENGLISH),
      line,
      column,
    })),
    ...refusal.members,
  };
}

/** Shape B: submission routes. `errors` is never empty: a fault of the whole form is one without a field. */
export function shapeB(refusal: Refusal, requestId: string, translation: Translation): object {
  const entry = errorEntry(refusal.code);
  const { text, detail } = visitorWords(refusal, translation);
  const message = detail === undefined ? text : `${text} (${detail})`;
  return {
    success: false,
    error: true,
    message,
    code: entry.status,
    request_id: requestId,
    errors: refusal.errors?.map((error) => ({ ...error, message: localized(error.message, translation) })) ?? [
      { code: entry.formCode ?? refusal.code, message },
    ],
    ...refusal.members,
  };
}
