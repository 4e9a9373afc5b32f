/** What is wrong with a file of the configuration, where, and what to do: the one shape that every report is made from. */
export type Path = readonly (string | number)[];

export interface Problem {
  readonly file: string;
  /** From 1; `column` counts UTF-16 units. */
  readonly line: number;
  readonly column: number;
  /** Keys joined with dots; empty for the file as a whole. */
  readonly path: string;
  readonly message: string;
  /** The nearest thing that would have been right there. */
  readonly suggestion?: string;
}

/** A problem of a value, before its path is looked up in the file. */
export interface Finding {
  readonly path: Path;
  readonly message: string;
  readonly suggestion?: string | undefined;
  /** Point at the key, not at its value. */
  readonly key?: boolean;
}

/** `file:line:column: path: message (did you mean "x"?)`, on one line. */
export function formatProblem(problem: Problem): string {
  const { file, line, column, path, message, suggestion } = problem;
  const where = path === '' ? '' : `${path}: `;
  const hint = suggestion === undefined ? '' : ` (did you mean "${suggestion}"?)`;
  // Nothing that was written in a file can move a terminal's cursor or begin a new line of a log.
  return `${file}:${line}:${column}: ${where}${message}${hint}`.replaceAll(
    /[\p{Cc}\u2028\u2029]/gu,
    (character) => `\\u${character.charCodeAt(0).toString(16).padStart(4, '0')}`,
  );
}

/** "Did you mean": the nearest of the words that would have been right. */
const MAX_LENGTH = 64;

/** The candidate that `word` was probably meant to be, or undefined when none is near. */
export function nearest(word: string, candidates: Iterable<string>): string | undefined {
  if (word.length > MAX_LENGTH) return undefined;
  const wanted = fold(word);
  let best: string | undefined;
  let least = Math.max(1, Math.floor(wanted.length / 3)) + 1;
  for (const candidate of candidates) {
    if (candidate === word || candidate.length > MAX_LENGTH) continue;
    const folded = fold(candidate);
    const distance = begins(wanted, folded) ? 1 : editDistance(wanted, folded, least);
    if (distance < least) [best, least] = [candidate, distance];
  }
  return best;
}

/** `rate_limit`, `rateLimit` and `ratelimit` are one word to whoever mistypes it. */
function fold(word: string): string {
  return word.toLowerCase().replaceAll(/[_\-\s]/g, '');
}

/** `warn` for `warning`, `database` for `data`. */
function begins(a: string, b: string): boolean {
  return Math.min(a.length, b.length) > 2 && (a.startsWith(b) || b.startsWith(a));
}

/** Insertions, deletions, replacements and swaps of neighbours; `limit` or more counts as `limit`. */
function editDistance(a: string, b: string, limit: number): number {
  if (Math.abs(a.length - b.length) >= limit) return limit;
  let before: number[] = [];
  let previous = Array.from({ length: b.length + 1 }, (_, index) => index);
  for (let i = 1; i <= a.length; i++) {
    const row = [i];
    for (let j = 1; j <= b.length; j++) {
      const same = a[i - 1] === b[j - 1];
      let cost = Math.min(at(previous, j) + 1, at(row, j - 1) + 1, at(previous, j - 1) + (same ? 0 : 1));
      if (i > 1 && j > 1 && a[i - 1] === b[j - 2] && a[i - 2] === b[j - 1])
        cost = Math.min(cost, at(before, j - 2) + 1);
      row.push(cost);
    }
    [before, previous] = [previous, row];
  }
  return Math.min(limit, at(previous, b.length));
}

function at(row: readonly number[], index: number): number {
  return row[index] ?? Number.POSITIVE_INFINITY;
}
