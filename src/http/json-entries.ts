/**
 * A JSON object (RFC 8259) into entries: the order in which it was written, what stands where when it is malformed, no
 * name twice, and no work beyond the limits, in one pass over the text: neither `__proto__` nor a million empty lists do
 * anything here.
 *
 * Text is itself; numbers and booleans are as written; null, {} and [] are empty; a list repeats the name; an object's members become
 * `name.member`; a list or an object inside a list stays JSON.
 */
import { messageOf } from '../lib/errors.ts';
import type { Refusal } from './errors.ts';
import { Entries, malformed, type FieldLimits, type Parsed } from './entries.ts';

const MAX_DEPTH = 20;

/** Values in one API body; beyond it nothing that the API takes. */
const MAX_VALUES = 30_000;
/** Quotes within texts, each of which is looked at by itself, and backslashes before one. */
const MAX_QUOTES = 500_000;
/** Characters of all names together. */
const MAX_NAMES_LENGTH = 1 << 20;
const MAX_NUMBER_LENGTH = 1000;
/** Up to here a fault is told by line and column. */
const COUNTED_LINES = 1 << 20;

/**
 * A JSON object or list as a value, for the API: the same rules, in the same one pass. A member `__proto__` is one like any
 * other, and unknown to every schema.
 */
export function parseJsonValue(text: string): { readonly value: unknown } | Refusal {
  try {
    return { value: new Reader(text, { fields: 0, field: Infinity }).value() };
  } catch (error) {
    if (!(error instanceof Fault)) throw error;
    return malformed(`The body is not JSON that can be read: ${error.message}.`);
  }
}

export function parseJsonObject(text: string, limits: FieldLimits): Parsed {
  const reader = new Reader(text, limits);
  const { entries } = reader;
  try {
    reader.read();
  } catch (error) {
    if (error instanceof Full) return { entries: entries.list, refusal: entries.refusal };
    if (!(error instanceof Fault)) throw error;
    return {
      entries: entries.list,
      refusal: malformed(`The body is not a JSON object that can be read: ${error.message}.`),
    };
  }
  return { entries: entries.list, refusal: entries.refusal };
}

/** What is wrong, and where. */
class Fault extends Error {
  override readonly name = 'Fault';
}

/** The limits are reached. */
class Full extends Error {
  override readonly name = 'Full';
}

class Reader {
  readonly entries: Entries;
  readonly #text: string;
  /** Longer than this no text is of use, however it is written. */
  readonly #longest: number;
  readonly #beyondSpace = /[^ \t\n\r]/g;
  #at = 0;
  #values = 0;
  #quotes = 0;
  #names = 0;

  constructor(text: string, limits: FieldLimits) {
    this.#text = text;
    this.#longest = Math.max(limits.field, MAX_NAMES_LENGTH) * MAX_ESCAPE_LENGTH;
    this.entries = new Entries(limits);
  }

  read(): void {
    this.#whole(['{'], () => this.#object('', 1));
  }

  value(): unknown {
    let value: unknown;
    this.#whole(['{', '['], () => (value = this.#build(0)));
    return value;
  }

  /** What JSON.parse makes of the text that begins at `start`. */
  #parse(text: string, start: number): unknown {
    try {
      return JSON.parse(text);
    } catch (error) {
      const words = messageOf(error);
      const isControl = /control/i.test(words);
      const at = start + Number(/ at position (\d+)/.exec(words)?.[1] ?? 0);
      this.#at = isControl ? at : this.#text.lastIndexOf('\\', at);
      throw this.#fault(isControl ? 'a control character has to be escaped' : 'that escape is none of JSON');
    }
  }

  #whole(beginnings: readonly string[], value: () => void): void {
    if (this.#text.charCodeAt(0) === 0xfeff) this.#at = 1;
    this.#space();
    if (!beginnings.includes(this.#text[this.#at] ?? '')) {
      throw this.#fault(`it has to begin with ${beginnings.join(' or ')}`);
    }
    value();
    this.#space();
    if (this.#at < this.#text.length) throw this.#fault('something stands after its end');
  }

  #object(prefix: string, depth: number): void {
    const names = this.#members((name) => this.#value(prefix + name, depth));
    if (names === 0 && prefix !== '') this.#add(prefix.slice(0, -1), '');
  }

  /** Goes through an object; `value` is called where a member's value begins. Answers how many there are. */
  #members(value: (name: string) => unknown): number {
    const names = new Set<string>();
    if (this.#empty('}')) return 0;
    for (;;) {
      this.#space();
      if (this.#text[this.#at] !== '"') throw this.#fault('expected a name in double quotes');
      const name = this.#string();
      this.#names += name.length;
      if (this.#names > MAX_NAMES_LENGTH)
        throw this.#fault(`its names have more than ${MAX_NAMES_LENGTH} characters together`);
      if (names.has(name)) throw this.#fault(`"${name.slice(0, 60)}" is given twice`);
      names.add(name);
      this.#space();
      if (this.#text[this.#at] !== ':') throw this.#fault('expected a colon');
      this.#at++;
      this.#space();
      value(name);
      if (this.#next('}')) return names.size;
    }
  }

  /** Past the opening sign, and past the closing one where nothing stands between. */
  #empty(close: '}' | ']'): boolean {
    this.#at++;
    this.#space();
    if (this.#text[this.#at] !== close) return false;
    this.#at++;
    return true;
  }

  /** Past a comma: false. Past the closing sign: true. */
  #next(close: '}' | ']'): boolean {
    this.#space();
    const sign = this.#text[this.#at];
    if (sign !== ',' && sign !== close) throw this.#fault(`expected a comma or ${close}`);
    this.#at++;
    return sign === close;
  }

  #value(name: string, depth: number): void {
    const sign = this.#text[this.#at];
    if (sign === '{') {
      this.#deeper(depth);
      this.#object(`${name}.`, depth + 1);
    } else if (sign === '[') {
      this.#deeper(depth);
      this.#list(name, depth + 1);
    } else this.#add(name, this.#scalar());
  }

  #list(name: string, depth: number): void {
    if (this.#empty(']')) return this.#add(name, '');
    do {
      this.#space();
      const start = this.#at;
      const sign = this.#text[start];
      if (sign === '{' || sign === '[') {
        this.#build(depth);
        this.#add(name, this.#text.slice(start, this.#at));
      } else this.#add(name, this.#scalar());
    } while (!this.#next(']'));
  }

  /** A value of any kind. */
  #build(depth: number): unknown {
    if (++this.#values > MAX_VALUES) throw this.#fault(`it holds more than ${MAX_VALUES} values`);
    const sign = this.#text[this.#at];
    if (sign === '"') return this.#string();
    if (sign !== '{' && sign !== '[') {
      const word = this.#scalar();
      return word === '' ? null : JSON.parse(word);
    }
    this.#deeper(depth);
    if (sign === '{') {
      const members: [string, unknown][] = [];
      this.#members((name) => members.push([name, this.#build(depth + 1)]));
      return Object.fromEntries(members);
    }
    const list: unknown[] = [];
    if (this.#empty(']')) return list;
    do {
      this.#space();
      list.push(this.#build(depth + 1));
    } while (!this.#next(']'));
    return list;
  }

  #deeper(depth: number): void {
    if (depth >= MAX_DEPTH) throw this.#fault(`it is nested deeper than ${MAX_DEPTH} levels`);
  }

  #add(name: string, value: string): void {
    if (!this.entries.add(name, value)) throw new Full();
  }

  #scalar(): string {
    if (this.#text[this.#at] === '"') return this.#string();
    const start = this.#at;
    while (isWord(this.#text.charCodeAt(this.#at)) && this.#at - start <= MAX_NUMBER_LENGTH) this.#at++;
    const word = this.#text.slice(start, this.#at);
    if (word === 'null') return '';
    const isKnown = word === 'true' || word === 'false' || isNumber(word);
    if (isKnown && word.length <= MAX_NUMBER_LENGTH) return word;
    this.#at = start;
    if (isKnown) throw this.#fault(`a number is longer than ${MAX_NUMBER_LENGTH} characters`);
    throw this.#fault(start === this.#text.length ? 'it ends too early' : 'expected a value');
  }

  #string(): string {
    const start = this.#at;
    this.#skipString();
    const content = this.#text.slice(start + 1, this.#at - 1);
    if (content.length > this.#longest) return content;
    const end = this.#at;
    const value = String(this.#parse(this.#text.slice(start, end), start));
    this.#at = end;
    return value;
  }

  /** Past a text, whatever it holds. */
  #skipString(): void {
    const start = this.#at + 1;
    for (let quote = this.#text.indexOf('"', start); quote !== -1; quote = this.#text.indexOf('"', quote + 1)) {
      let first = quote;
      while (first > start && this.#text.charCodeAt(first - 1) === BACKSLASH) first--;
      if ((quote - first) % 2 === 0) {
        this.#at = quote + 1;
        return;
      }
      if (++this.#quotes > MAX_QUOTES || quote - first > MAX_QUOTES) {
        throw this.#fault(`its texts hold more than ${MAX_QUOTES} escaped quotation marks or backslashes`);
      }
    }
    throw this.#fault('a text is not closed');
  }

  #space(): void {
    if (!isSpace(this.#text.charCodeAt(this.#at))) return;
    this.#beyondSpace.lastIndex = this.#at;
    this.#at = this.#beyondSpace.exec(this.#text)?.index ?? this.#text.length;
  }

  #fault(what: string): Fault {
    if (this.#at > COUNTED_LINES) return new Fault(`character ${this.#at + 1}: ${what}`);
    const before = this.#text.slice(0, this.#at).split('\n');
    return new Fault(`line ${before.length}, column ${(before.at(-1)?.length ?? 0) + 1}: ${what}`);
  }
}

const BACKSLASH = 0x5c;
/** `\u0000` is one character. */
const MAX_ESCAPE_LENGTH = 6;

function isSpace(code: number): boolean {
  return code === 0x20 || code === 0x0a || code === 0x0d || code === 0x09;
}

/** What numbers and literals are made of. */
function isWord(code: number): boolean {
  return (
    (code >= 0x30 && code <= 0x39) ||
    (code >= 0x61 && code <= 0x7a) ||
    code === 0x45 ||
    code === 0x2b ||
    code === 0x2d ||
    code === 0x2e
  );
}

function isNumber(word: string): boolean {
  return /^-?(?:0|[1-9]\d*)(?:\.\d+)?(?:[eE][+-]?\d+)?$/.test(word);
}
