/**
 * Regular expressions of form fields. They are written by tenants and meet what strangers type, on the thread that serves
 * everybody, so they run on RE2, whose time is linear in the text, and never on the engine of the runtime, which backtracks.
 */
import { RE2JS } from 're2js';
import { messageOf } from '../lib/errors.ts';

/** Of `{n,m}`: RE2 makes as many copies of what is repeated. */
const MAX_REPETITIONS = 100;
/** Instructions of a compiled pattern: nested repetitions multiply. */
const MAX_PROGRAM = 1000;
/** Characters of all patterns of a form, which one post may have to compile. */
export const MAX_PATTERNS_LENGTH = 2000;

export interface FieldPattern {
  /** Whether the whole text matches. */
  matches(text: string): boolean;
  /** What a match takes for each character of the text, at most, in steps of the engine. */
  readonly cost: number;
}

/** The expression as the browser's `pattern` attribute has it: the whole value must match. Throws where `patternProblem` finds one. */
export function fieldPattern(source: string): FieldPattern {
  const compiled = RE2JS.compile(RE2JS.translateRegExp(toRe2(source)));
  return { matches: (text) => compiled.matches(text), cost: compiled.programSize() };
}

/** Why this expression is refused, or undefined when it may be used. */
export function patternProblem(source: string): string | undefined {
  try {
    new RegExp(source, 'u');
  } catch (error) {
    return `expected a valid regular expression: ${messageOf(error).replace(/^.*: /s, '')}`;
  }
  const unknown = [...tokensOf(source)].flatMap(({ text, inClass }) => (inClass ? [] : (UNKNOWN.get(text) ?? [])))[0];
  if (unknown !== undefined) return `${unknown} are not supported, because they can be too slow; remove them`;
  if (repetitionsIn(source).some((count) => count > MAX_REPETITIONS)) {
    return `a repetition such as {2,5} can be at most ${MAX_REPETITIONS}`;
  }
  try {
    if (fieldPattern(source).cost <= MAX_PROGRAM) return undefined;
    return 'its nested repetitions make it too large; use fewer or smaller ones';
  } catch (error) {
    return `the regular expression engine (RE2) does not support this: ${messageOf(error).replace('error parsing regexp: ', '')}`;
  }
}

const LOOK_AROUND = 'look-ahead and look-behind';
const BACK_REFERENCES = 'back-references';
/** What RE2 does not know, by the token that begins it. */
const UNKNOWN: ReadonlyMap<string, string> = new Map([
  ...['(?=', '(?!', '(?<=', '(?<!'].map((token) => [token, LOOK_AROUND] as const),
  ...['\\k', ...Array.from({ length: 9 }, (_, i) => `\\${i + 1}`)].map((token) => [token, BACK_REFERENCES] as const),
]);

interface Token {
  readonly text: string;
  /** Whether it stands within `[…]`. */
  readonly inClass: boolean;
}

/** A valid expression, token by token. */
function* tokensOf(source: string): Generator<Token> {
  let inClass = false;
  for (const [text] of source.matchAll(/\\(?:[pP]\{[^}]*\}|.)|\(\?(?:<[=!]|[=!])?|\{\d+(?:,\d*)?\}|./gsu)) {
    if (text === ']') inClass = false;
    yield { text, inClass };
    if (text === '[') inClass = true;
  }
}

function repetitionsIn(source: string): number[] {
  return [...tokensOf(source)].flatMap(({ text, inClass }) =>
    inClass || !/^\{\d/.test(text) ? [] : (text.match(/\d+/g) ?? []).map(Number),
  );
}

/** White space and line ends as ECMAScript has them; RE2 alone knows those of ASCII. */
const BLANKS = '\\t-\\r \\x{a0}\\x{feff}\\p{Z}';
const NO_LINE_END = '[^\\n\\r\\x{2028}\\x{2029}]';

/** The same expression where the two dialects differ. */
function toRe2(source: string): string {
  let result = '';
  for (const { text, inClass } of tokensOf(source)) {
    if (text === '\\s') result += inClass ? BLANKS : `[${BLANKS}]`;
    else if (text === '\\S' && !inClass) result += `[^${BLANKS}]`;
    else if (text === '.' && !inClass) result += NO_LINE_END;
    else result += text.replace(/^(\\[pP]\{)(?:Script|sc|General_Category|gc)=/, '$1');
  }
  return result;
}
