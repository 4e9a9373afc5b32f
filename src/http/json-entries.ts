/**
 * JSON bodies (RFC 8259) within limits, and a JSON object as a form's entries. JSON.parse judges what is well-formed; one
 * pass over the tokens before it bounds the work, refuses a name that is given twice, and keeps order and numbers as they
 * are written.
 */
import { messageOf } from '../lib/errors.ts';
import type { Refusal } from './errors.ts';
import { Entries, malformed, type FieldLimits, type Parsed } from './entries.ts';

const MAX_DEPTH = 20;
/** Values in one body; beyond it nothing that anybody takes. */
const MAX_VALUES = 30_000;
/** Characters of all names together. */
const MAX_NAMES_LENGTH = 1 << 20;

/** A JSON object or list as a value. A member `__proto__` is one like any other, and unknown to every schema. */
export function parseJsonValue(text: string): { readonly value: unknown } | Refusal {
  return parse(text, ['{', '['], new Reader(text));
}

/**
 * The entries of a JSON object: text is itself; numbers and booleans are as written; null, {} and [] are empty; a list
 * repeats the name; an object's members become `name.member`; a list or an object inside a list stays JSON.
 */
export function parseJsonObject(text: string, limits: FieldLimits): Parsed {
  const entries = new Entries(limits);
  const parsed = parse(text, ['{'], new Reader(text, entries));
  const refusal = entries.refusal ?? ('value' in parsed ? undefined : parsed);
  return { entries: entries.list, refusal };
}

function parse(text: string, beginnings: readonly string[], reader: Reader): { readonly value: unknown } | Refusal {
  try {
    const first = reader.next();
    if (!beginnings.includes(first)) throw new BeyondLimits(`it has to begin with ${beginnings.join(' or ')}`);
    try {
      reader.value(first, '', 0);
    } catch (error) {
      // Of a token; JSON.parse says where it stands.
      if (!(error instanceof SyntaxError)) throw error;
    }
    return { value: JSON.parse(text) };
  } catch (error) {
    if (!(error instanceof BeyondLimits || error instanceof SyntaxError)) throw error;
    return malformed(`The body is not JSON that can be read: ${messageOf(error)}.`);
  }
}

class BeyondLimits extends Error {
  override readonly name = 'BeyondLimits';
}

const QUOTE = 0x22;
const BACKSLASH = 0x5c;

/** Goes through the tokens, as if they were well-formed. Throws BeyondLimits, or SyntaxError for a text that is none. */
class Reader {
  readonly #text: string;
  readonly #entries: Entries | undefined;
  readonly #token = /[{}[\]"]|[^\s,:{}[\]"]+/g;
  #values = 0;
  #namesLength = 0;

  constructor(text: string, entries?: Entries) {
    this.#text = text;
    this.#entries = entries;
  }

  /** A bracket, a text in its quotes, a number or a literal; empty at the end. Separators are passed over. */
  next(): string {
    const found = this.#token.exec(this.#text)?.[0] ?? '';
    if (found !== '"') return found;
    const start = this.#token.lastIndex;
    let end = start;
    for (let code = this.#text.charCodeAt(end); code !== QUOTE && end < this.#text.length;) {
      end += code === BACKSLASH ? 2 : 1;
      code = this.#text.charCodeAt(end);
    }
    this.#token.lastIndex = end + 1;
    return this.#text.slice(start - 1, end + 1);
  }

  /** The value that begins with this token, as entries of this name; undefined: it is only counted. */
  value(token: string, name: string | undefined, depth: number): void {
    if (++this.#values > MAX_VALUES) throw new BeyondLimits(`it holds more than ${MAX_VALUES} values`);
    if (token !== '{' && token !== '[') return this.#add(name, token);
    if (depth === MAX_DEPTH) throw new BeyondLimits(`it is nested deeper than ${MAX_DEPTH} levels`);
    const isEmpty = token === '{' ? this.#object(name, depth + 1) : this.#list(name, depth + 1);
    if (isEmpty && depth > 0) this.#add(name, '""');
  }

  #object(name: string | undefined, depth: number): boolean {
    const names = new Set<unknown>();
    const prefix = depth === 1 ? name : name && `${name}.`;
    for (let token = this.next(); token !== '}' && token !== ''; token = this.next()) {
      this.#namesLength += token.length;
      if (this.#namesLength > MAX_NAMES_LENGTH) throw new BeyondLimits('its names are too long');
      const member: unknown = JSON.parse(token);
      if (names.has(member)) throw new BeyondLimits(`the name ${token.slice(0, 60)} is given twice`);
      names.add(member);
      this.value(this.next(), prefix === undefined ? undefined : `${prefix}${String(member)}`, depth);
    }
    return names.size === 0;
  }

  #list(name: string | undefined, depth: number): boolean {
    const first = this.#values;
    for (let token = this.next(); token !== ']' && token !== ''; token = this.next()) {
      const isNested = token === '{' || token === '[';
      const start = this.#token.lastIndex - 1;
      this.value(token, isNested ? undefined : name, depth);
      if (isNested) this.#add(name, this.#text.slice(start, this.#token.lastIndex));
    }
    return this.#values === first;
  }

  #add(name: string | undefined, token: string): void {
    if (name === undefined || this.#entries === undefined) return;
    const value = token === 'null' ? '' : token.startsWith('"') ? String(JSON.parse(token)) : token;
    if (!this.#entries.add(name, value)) throw new BeyondLimits('it has too many fields');
  }
}
