/** What a body's parser answers: the fields in the order sent, and what refuses the body, if anything. */
import type { FieldError } from '../forms/fault.ts';
import { refuse, type Refusal } from './errors.ts';

export type Entry = readonly [name: string, value: string];

export interface Parsed {
  readonly entries: readonly Entry[];
  /** Entries hold what was read until then. */
  readonly refusal?: Refusal | undefined;
}

export interface FieldLimits {
  /** How many entries. */
  readonly fields: number;
  /** Bytes of one value. */
  readonly field: number;
}

/** Bytes of a field's name. */
const LONGEST_NAME = 1024;

/** Collects entries within the limits; tells the first limit that was passed. */
export class Entries {
  readonly list: Entry[] = [];
  readonly #limits: FieldLimits;
  #seen = 0;
  #refusal: Refusal | undefined;

  constructor(limits: FieldLimits) {
    this.#limits = limits;
  }

  get refusal(): Refusal | undefined {
    return this.#refusal;
  }

  /** False once there is no use in reading on. A field without a name is none, as in a browser. */
  add(name: string, value: string): boolean {
    if (++this.#seen > this.#limits.fields) {
      this.#refusal = tooManyFields(this.#limits.fields);
      return false;
    }
    if (name.length > LONGEST_NAME) {
      this.#refusal = refuse('BODY_TOO_LARGE', {
        message: `The name of a field is longer than ${LONGEST_NAME} characters.`,
      });
      return false;
    }
    if (name === '') return true;
    if (longerThan(value, this.#limits.field)) this.#refusal ??= fieldTooLong(name, this.#limits.field);
    this.list.push([name, value]);
    return true;
  }
}

export function tooManyFields(most: number): Refusal {
  return refuse('BODY_TOO_LARGE', { message: `There are more than ${most} fields.` });
}

function fieldTooLong(field: string, most: number): Refusal {
  return refuse('BODY_TOO_LARGE', {
    errors: [{ field, code: 'TYPE_TEXT', message: `Must be shorter: at most ${sizeWords(most)}.` }],
  });
}

/** A body that is not what its type says. */
export function malformed(message: string, field?: FieldError): Refusal {
  return refuse('BODY_MALFORMED', { message, errors: field && [field] });
}

export function unknownCharset(label: string): Refusal {
  return refuse('UNSUPPORTED_MEDIA_TYPE', {
    message: `The charset "${label.slice(0, 40)}" is not known; UTF-8 is best.`,
  });
}

/** `64 KiB`, `10 MiB`. */
export function sizeWords(bytes: number): string {
  if (bytes >= 1024 ** 2) return `${Math.floor(bytes / 1024 ** 2)} MiB`;
  return bytes >= 1024 ? `${Math.floor(bytes / 1024)} KiB` : `${bytes} bytes`;
}

function longerThan(text: string, bytes: number): boolean {
  return text.length > bytes || (text.length * 3 > bytes && Buffer.byteLength(text) > bytes);
}
