/**
 * A YAML file as plain data, with the place of every key and value. Never throws; what is wrong is in `problems`. Takes
 * time in proportion to the size of the file, of which a limit is set: what the parser is slow at is refused before.
 */
import { Lexer, LineCounter, parseDocument, visit } from 'yaml';
import type { Document } from 'yaml';
import { pathText, type Finding, type Path, type Problem } from './problem.ts';
import { convert, find, MAX_DEPTH, type Place } from './yaml-data.ts';
import { explainSyntax } from './yaml-words.ts';

const MAX_BYTES = 1024 * 1024;
const MAX_MARKS = 200;

export interface YamlFile {
  readonly text: string;
  /** Null-prototype maps, lists and scalars; what could be read of it where `broken`. */
  readonly value: unknown;
  readonly root: Place | undefined;
  readonly problems: readonly Problem[];
  /** The syntax is wrong, so that nothing can be said of the values. */
  readonly broken: boolean;
  /** The finding with its line and column: at the deepest part of its path that exists. */
  locate(finding: Finding): Problem;
  /** Line and column of an offset in the text, both from 1. */
  position(offset: number): { line: number; column: number };
}

/** Reads the text of the file that problems call `name`. */
export function readYaml(text: string, name: string): YamlFile {
  const lines = new LineCounter();
  const problems: Problem[] = [];
  let data: ReturnType<typeof convert> | undefined;
  let broken = true;
  const tooLarge = Buffer.byteLength(text) > MAX_BYTES;
  const hopeless = tooLarge ? undefined : outlandish(text);
  if (tooLarge) report(0, [], 'the file is larger than 1 MiB');
  else if (hopeless !== undefined) report(0, [], hopeless);
  else {
    const document = parseDocument(text, {
      lineCounter: lines,
      prettyErrors: false,
      uniqueKeys: false,
      schema: 'core',
      version: '1.2',
    });
    const wrong = syntaxErrors(document, text);
    broken = wrong.length > 0;
    for (const { offset, message } of wrong) report(offset, [], message);
    data = convert(document, broken ? () => undefined : report);
    broken ||= !data.complete;
  }
  return { text, value: data?.value, root: data?.place, problems, broken, position, locate };

  function position(offset: number): { line: number; column: number } {
    const { line, col } = lines.linePos(offset);
    return { line: Math.max(line, 1), column: Math.max(col, 1) };
  }

  function report(offset: number, path: Path, message: string): void {
    problems.push({ file: name, ...position(offset), path: pathText(path), message });
  }

  function locate({ path, message, suggestion, key }: Finding): Problem {
    const { place, whole } = find(data?.place, path);
    const offset = key === true || !whole ? place?.key : place?.start;
    const words = suggestion === undefined ? {} : { suggestion };
    return { file: name, ...position(offset ?? 0), path: pathText(path), message, ...words };
  }
}

function syntaxErrors(document: Document.Parsed, text: string): { offset: number; message: string }[] {
  const lines = new Set<number>();
  const errors = [...document.errors, ...document.warnings].sort((a, b) => a.pos[0] - b.pos[0]);
  // One slip makes several errors of the parser; the first of each line says it.
  return errors.flatMap((error) => {
    const start = text.lastIndexOf('\n', error.pos[0] - 1);
    if (lines.has(start)) return [];
    lines.add(start);
    // Only the first is looked for: each look goes through the whole document.
    const quote =
      error === errors[0] && /closing ["']quote/.test(error.message) ? openQuote(document, error.pos[0]) : undefined;
    return [
      quote === undefined ? explainSyntax(error, text) : { offset: quote, message: 'this quote is never closed' },
    ];
  });
}

/** Where the quoted text begins that was still open at `offset`. */
function openQuote(document: Document.Parsed, offset: number): number | undefined {
  let start: number | undefined;
  visit(document, {
    Scalar: (_, { type, range }) => {
      if (type?.startsWith('QUOTE') && range && range[0] <= offset && offset <= range[1]) [start] = range;
    },
  });
  return start;
}

/**
 * Why the text is not worth parsing, or undefined. The parser recurses into what is nested, and its time grows with the
 * square of what is empty: 1 MiB of brackets or commas would take it minutes.
 */
function outlandish(text: string): string | undefined {
  let nested = 0;
  let marks = 0;
  let scalar = false;
  for (const token of new Lexer().lex(text)) {
    const first = token.charAt(0);
    if (scalar || '"\'*'.includes(first)) marks = 0;
    else if (!' \t\r\n#\u001f'.includes(first)) marks++;
    if (!scalar && (first === '[' || first === '{')) nested++;
    if (!scalar && (first === ']' || first === '}')) nested--;
    if (nested > MAX_DEPTH) return `values are nested more than ${MAX_DEPTH} levels deep`;
    if (marks > MAX_MARKS) return `more than ${MAX_MARKS} marks such as [ or - follow each other without a value`;
    scalar = token === '\u001f';
  }
  return undefined;
}
