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
  return oneLine(`${file}:${line}:${column}: ${where}${message}${hint}`);
}

/** Path as `domains.example.com.forms.contact.rateLimit`. */
export function pathText(path: Path): string {
  return path.join('.');
}

/** In the order of the file. */
export function sortProblems(problems: readonly Problem[]): Problem[] {
  return [...problems].sort((a, b) => a.line - b.line || a.column - b.column);
}

/** Nothing that was written in a file can move a terminal's cursor or begin a new line of a log. */
function oneLine(text: string): string {
  return text.replaceAll(/[\p{Cc}\u2028\u2029]/gu, (character) => {
    const code = character.codePointAt(0) ?? 0;
    return `\\u${code.toString(16).padStart(4, '0')}`;
  });
}
