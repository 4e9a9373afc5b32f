/**
 * A JSON object (RFC 8259) into entries: the order in which it was written, what stands where when it is malformed, no
 * name twice, and no work beyond the limits. One pass over the text, no object is built: neither `__proto__` nor a million
 * empty lists do anything here.
 *
 * Text is itself; numbers and booleans are as written; null, {} and [] are empty; a list repeats the name; an object's members become
 * `name.member`; a list or an object inside a list stays JSON.
 */
import type { Refusal } from './errors.ts';
import { Entries, malformed, type FieldLimits, type Parsed } from './parsed.ts';

const DEEPEST = 20;

/** Values in one API body; beyond it nothing that the API takes. */
const MOST_VALUES = 100_000;

/**
 * A JSON object or list as a value, for the API: the same rules, checked before anything is built. Its objects are JSON.parse's,
 * so that a member `__proto__` is one like any other, and unknown to every schema.
 */
export function parseJsonValue(text: string): { readonly value: unknown } | Refusal {
  try {
    new Reader(text, new Entries({ fields: 0, field: 0 })).check();
  } catch (error) {
    if (!(error instanceof Fault)) throw error;
    return malformed(`The body is not JSON that can be read: ${error.message}.`);
  }
  return { value: JSON.parse(text.charCodeAt(0) === 0xfeff ? text.slice(1) : text) };
}

export function parseJsonObject(text: string, limits: FieldLimits): Parsed {
  const entries = new Entries(limits);
  const reader = new Reader(text, entries);
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
  readonly #text: string;
  readonly #entries: Entries;
  #at = 0;
  /** The first backslash that is not behind `at`. */
  #slash = -1;
  #values = 0;

  constructor(text: string, entries: Entries) {
    this.#text = text;
    this.#entries = entries;
  }

  read(): void {
    this.#whole(['{'], () => this.#object('', 1));
  }

  /** The same without entries: only whether it is well-formed. */
  check(): void {
    this.#whole(['{', '['], () => this.#skip(0));
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
  #members(value: (name: string) => void): number {
    const names = new Set<string>();
    if (this.#empty('}')) return 0;
    for (;;) {
      this.#space();
      if (this.#text[this.#at] !== '"') throw this.#fault('expected a name in double quotes');
      const name = this.#string();
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
        this.#skip(depth);
        this.#add(name, this.#text.slice(start, this.#at));
      } else this.#add(name, this.#scalar());
    } while (!this.#next(']'));
  }

  /** Past a value of any kind, which has to be well-formed. */
  #skip(depth: number): void {
    if (++this.#values > MOST_VALUES) throw this.#fault(`it holds more than ${MOST_VALUES} values`);
    const sign = this.#text[this.#at];
    if (sign !== '{' && sign !== '[') return void this.#scalar();
    this.#deeper(depth);
    if (sign === '{') return void this.#members(() => this.#skip(depth + 1));
    if (this.#empty(']')) return;
    do {
      this.#space();
      this.#skip(depth + 1);
    } while (!this.#next(']'));
  }

  #deeper(depth: number): void {
    if (depth >= DEEPEST) throw this.#fault(`it is nested deeper than ${DEEPEST} levels`);
  }

  #add(name: string, value: string): void {
    if (!this.#entries.add(name, value)) throw new Full();
  }

  #scalar(): string {
    if (this.#text[this.#at] === '"') return this.#string();
    const start = this.#at;
    while (isWord(this.#text.charCodeAt(this.#at))) this.#at++;
    const word = this.#text.slice(start, this.#at);
    if (word === 'null') return '';
    if (word === 'true' || word === 'false' || isNumber(word)) return word;
    this.#at = start;
    throw this.#fault(start === this.#text.length ? 'it ends too early' : 'expected a value');
  }

  #string(): string {
    const start = this.#at;
    let end = this.#text.indexOf('"', start + 1);
    if (this.#slash < start) {
      const next = this.#text.indexOf('\\', start);
      this.#slash = next === -1 ? this.#text.length : next;
    }
    const plain = end !== -1 && this.#slash > end;
    if (!plain) end = this.#escapedEnd();
    const content = this.#text.slice(start + 1, end);
    // oxlint-disable-next-line no-control-regex -- RFC 8259 §7: these must be escaped
    const control = content.search(/[\0-\x1f]/);
    if (control !== -1) {
      this.#at = start + 1 + control;
      throw this.#fault('a control character has to be escaped');
    }
    this.#at = end + 1;
    return plain ? content : String(JSON.parse(`"${content}"`));
  }

  /** Where the string that begins here ends; its escapes are right. */
  #escapedEnd(): number {
    for (let i = this.#at + 1; i < this.#text.length; i++) {
      const sign = this.#text[i];
      if (sign === '"') return i;
      if (sign !== '\\') continue;
      i++;
      const escape = this.#text[i] ?? '';
      const right =
        escape === 'u' ? /^[\da-fA-F]{4}$/.test(this.#text.slice(i + 1, i + 5)) : '"\\/bfnrt'.includes(escape);
      if (!right || escape === '') {
        this.#at = i - 1;
        throw this.#fault('that escape is none of JSON');
      }
    }
    throw this.#fault('a text is not closed');
  }

  #space(): void {
    for (;;) {
      const code = this.#text.charCodeAt(this.#at);
      if (code !== 0x20 && code !== 0x0a && code !== 0x0d && code !== 0x09) return;
      this.#at++;
    }
  }

  #fault(what: string): Fault {
    const before = this.#text.slice(0, this.#at).split('\n');
    return new Fault(`line ${before.length}, column ${(before.at(-1)?.length ?? 0) + 1}: ${what}`);
  }
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
