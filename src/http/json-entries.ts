/**
 * JSON bodies (RFC 8259) within limits, and a JSON object as a form's entries. One pass over the tokens bounds the work,
 * refuses a name that is given twice, keeps order and numbers as they are written, and knows where a fault is; the values
 * themselves are JSON.parse's.
 */
import { messageOf } from '../lib/errors.ts';
import type { Refusal } from './answer.ts';
import { Entries, malformed, type FieldLimits, type Parsed } from './entries.ts';

const MAX_DEPTH = 20;
/** Values in one body; beyond it nothing that anybody takes. */
const MAX_VALUES = 30_000;
/** Within texts; each is looked at by itself. */
const MAX_ESCAPED_QUOTES = 500_000;
/** Characters of all names together. */
const MAX_NAMES_LENGTH = 1 << 20;

/** A JSON object or list as a value. A member `__proto__` is one like any other, and unknown to every schema. */
export function parseJsonValue(text: string): { readonly value: unknown } | Refusal {
  try {
    new Reader(text).read(['{', '[']);
    return { value: JSON.parse(text) };
  } catch (error) {
    return refusalOf(error);
  }
}

/**
 * The entries of a JSON object: text is itself; numbers and booleans are as written; null, {} and [] are empty; a list
 * repeats the name; an object's members become `name.member`; a list or an object inside a list stays JSON.
 */
export function parseJsonObject(text: string, limits: FieldLimits): Parsed {
  const entries = new Entries(limits);
  try {
    new Reader(text, entries).read(['{']);
    return { entries: entries.list, refusal: entries.refusal };
  } catch (error) {
    return { entries: entries.list, refusal: entries.refusal ?? refusalOf(error) };
  }
}

function refusalOf(error: unknown): Refusal {
  if (!(error instanceof SyntaxError)) throw error;
  return malformed(`The body is not JSON that can be read: ${messageOf(error)}.`);
}

const BACKSLASH = 0x5c;
const CLOSING = { '{': '}', '[': ']' } as const;
const SCALAR = /^(?:true|false|null|-?(?:0|[1-9]\d*)(?:\.\d+)?(?:[eE][+-]?\d+)?)$/;

/** Goes through the tokens. Throws SyntaxError where the text is not JSON, or is beyond the limits. */
class Reader {
  readonly #text: string;
  readonly #entries: Entries | undefined;
  readonly #pattern = /[{}[\],:"]|[^ \t\r\n{}[\],:"]+/g;
  /** Where the current token begins. */
  #start = 0;
  #values = 0;
  #escapedQuotes = 0;
  #namesLength = 0;

  constructor(text: string, entries?: Entries) {
    this.#text = text;
    this.#entries = entries;
  }

  /** The whole text, which begins with one of these brackets. */
  read(beginnings: readonly string[]): void {
    const first = this.#next();
    if (!beginnings.includes(first)) throw this.#fault(`it must begin with ${beginnings.join(' or ')}`);
    this.#value(first, '', 0);
    if (this.#next() !== '') throw this.#fault('unexpected text after its end');
  }

  /** A sign, a text in its quotes, a number or a literal; empty at the end. */
  #next(): string {
    const match = this.#pattern.exec(this.#text);
    this.#start = match?.index ?? this.#text.length;
    if (match?.[0] !== '"') return match?.[0] ?? '';
    let end = this.#text.indexOf('"', this.#start + 1);
    while (end !== -1 && this.#isEscaped(end)) {
      if (++this.#escapedQuotes > MAX_ESCAPED_QUOTES) {
        throw this.#fault(`more than ${MAX_ESCAPED_QUOTES} escaped quotation marks`);
      }
      end = this.#text.indexOf('"', end + 1);
    }
    if (end === -1) throw this.#fault('a text is not closed');
    this.#pattern.lastIndex = end + 1;
    return this.#text.slice(this.#start, end + 1);
  }

  #isEscaped(quote: number): boolean {
    let first = quote;
    while (this.#text.charCodeAt(first - 1) === BACKSLASH) first--;
    return (quote - first) % 2 === 1;
  }

  /** The value that begins with this token, as entries of this name; undefined: it is only counted. */
  #value(token: string, name: string | undefined, depth: number): void {
    if (++this.#values > MAX_VALUES) throw this.#fault(`more than ${MAX_VALUES} values`);
    if (token !== '{' && token !== '[') return this.#scalar(token, name);
    if (depth === MAX_DEPTH) throw this.#fault(`nested deeper than ${MAX_DEPTH} levels`);
    const isEmpty = token === '{' ? this.#object(name, depth + 1) : this.#list(name, depth + 1);
    if (isEmpty && depth > 0) this.#add(name, '');
  }

  #scalar(token: string, name: string | undefined): void {
    const isText = token.startsWith('"');
    if (!isText && !SCALAR.test(token)) throw this.#unexpected(token);
    // Of the API's, JSON.parse judges the texts.
    const text = isText && this.#entries !== undefined ? this.#string(token) : token;
    this.#add(name, text === 'null' && !isText ? '' : text);
  }

  #object(name: string | undefined, depth: number): boolean {
    const names = new Set<string>();
    const prefix = depth === 1 ? name : name && `${name}.`;
    this.#members('{', (token) => {
      if (!token.startsWith('"')) throw this.#unexpected(token, 'a name in double quotes');
      this.#namesLength += token.length;
      if (this.#namesLength > MAX_NAMES_LENGTH) throw this.#fault('its names are too long');
      const member = this.#string(token);
      if (names.has(member)) throw this.#fault(`the name "${member.slice(0, 60)}" is given twice`);
      names.add(member);
      const colon = this.#next();
      if (colon !== ':') throw this.#unexpected(colon, 'a colon');
      this.#value(this.#next(), prefix === undefined ? undefined : prefix + member, depth);
    });
    return names.size === 0;
  }

  #list(name: string | undefined, depth: number): boolean {
    const first = this.#values;
    this.#members('[', (token) => {
      const isNested = token === '{' || token === '[';
      const start = this.#start;
      this.#value(token, isNested ? undefined : name, depth);
      if (isNested) this.#add(name, this.#text.slice(start, this.#pattern.lastIndex));
    });
    return this.#values === first;
  }

  /** Calls `read` with the first token of each member. */
  #members(opening: keyof typeof CLOSING, read: (token: string) => void): void {
    const closing = CLOSING[opening];
    let token = this.#next();
    if (token === closing) return;
    for (;;) {
      read(token);
      token = this.#next();
      if (token === closing) return;
      if (token !== ',') throw this.#unexpected(token, `a comma or ${closing}`);
      token = this.#next();
    }
  }

  #add(name: string | undefined, value: string): void {
    if (name === undefined || this.#entries === undefined) return;
    if (!this.#entries.add(name, value)) throw this.#fault('too many fields');
  }

  #string(token: string): string {
    try {
      return String(JSON.parse(token));
    } catch (error) {
      throw this.#fault(messageOf(error).replace(/ in JSON at position.*/, ''));
    }
  }

  #unexpected(token: string, expected = 'a value'): SyntaxError {
    return this.#fault(token === '' ? 'it ends too early' : `expected ${expected}`);
  }

  #fault(what: string): SyntaxError {
    const lines = this.#text.slice(0, this.#start).split('\n');
    return new SyntaxError(`line ${lines.length}, column ${(lines.at(-1)?.length ?? 0) + 1}: ${what}`);
  }
}
