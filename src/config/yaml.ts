/**
 * A YAML file as plain data, with the place of every key and value. Never throws; what is wrong is in `problems`. Takes
 * time in proportion to the size of the file, of which a limit is set: what the parser is slow at is refused before.
 */
import {
  Lexer,
  LineCounter,
  parseDocument,
  visit,
  type Document,
  isAlias,
  isMap,
  type ErrorCode,
  type ParsedNode,
  type YAMLParseError,
  type YAMLWarning,
  isCollection,
  isScalar,
  type Scalar,
} from 'yaml';
import { type Finding, type Path, type Problem } from './problem.ts';

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
}

/** Reads the text of the file that problems call `name`. */
export function readYaml(text: string, name: string): YamlFile {
  const lines = new LineCounter();
  const problems: Problem[] = [];
  let root: Place | undefined;
  let broken = true;
  const hopeless = Buffer.byteLength(text) > MAX_BYTES ? 'the file is larger than 1 MiB' : outlandish(text);
  if (hopeless !== undefined) report(0, [], hopeless);
  else {
    const options = {
      lineCounter: lines,
      prettyErrors: false,
      uniqueKeys: false,
      schema: 'core',
      version: '1.2',
    } as const;
    const document = parseDocument(text, options);
    const wrong = syntaxErrors(document, text);
    for (const { offset, message } of wrong) report(offset, [], message);
    const data = convert(document, wrong.length > 0 ? () => undefined : report);
    ({ root } = data);
    broken = wrong.length > 0 || !data.complete;
  }
  return { text, value: root?.value, root, problems, broken, locate };

  function position(offset: number): { line: number; column: number } {
    const { line, col } = lines.linePos(offset);
    return { line: Math.max(line, 1), column: Math.max(col, 1) };
  }

  function report(offset: number, path: Path, message: string): void {
    problems.push({ file: name, ...position(offset), path: path.join('.'), message });
  }

  function locate({ path, message, suggestion, key }: Finding): Problem {
    const { place, whole } = find(root, path);
    const offset = key === true || !whole ? place?.key : place?.start;
    const words = suggestion === undefined ? {} : { suggestion };
    return { file: name, ...position(offset ?? 0), path: path.join('.'), message, ...words };
  }
}

function syntaxErrors(document: Document.Parsed, text: string): { offset: number; message: string }[] {
  const lines = new Set<number>();
  const sorted = [...document.errors, ...document.warnings].sort((a, b) => a.pos[0] - b.pos[0]);
  // What follows a wrong indentation is read at the wrong level, so that errors there need not be any.
  const first = sorted.findIndex((error) => INDENTATION.has(error.code) || continued(error, text) !== undefined);
  const errors = first < 0 ? sorted : sorted.slice(0, first + 1);
  // One slip makes several errors of the parser; the first of each line says it.
  return errors.flatMap((error) => {
    const start = text.lastIndexOf('\n', error.pos[0] - 1);
    if (lines.has(start)) return [];
    lines.add(start);
    // Only the first is looked for: each look goes through the whole document.
    const isQuote = error === errors[0] && /closing ["']quote/.test(error.message);
    const quote = isQuote ? openQuote(document, error.pos[0]) : undefined;
    return quote === undefined ? explainSyntax(error, text) : { offset: quote, message: 'this quote is never closed' };
  });
}

const INDENTATION: ReadonlySet<string> = new Set(['TAB_AS_INDENT', 'BAD_INDENT']);

/** Where the line begins that its indentation makes a part of what stands above, though it is a value of its own. */
function continued({ code, pos: [offset] }: YAMLParseError | YAMLWarning, text: string): number | undefined {
  if (code !== 'BLOCK_AS_IMPLICIT_KEY') return undefined;
  const end = text.indexOf('\n', offset);
  const isWholeLine = text.charAt(offset - 1) === '\n';
  // Two keys on one line are another mistake.
  if (!isWholeLine && (end < 0 || /:\s/.test(text.slice(offset, end)))) return undefined;
  const start = isWholeLine ? offset : end + 1;
  return start + (/^ */.exec(text.slice(start))?.[0].length ?? 0);
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
    if (marks > MAX_MARKS) return `more than ${MAX_MARKS} characters such as [ or - in a row without a value`;
    scalar = token === '\u001f';
  }
  return undefined;
}

// What the YAML parser complains about, in words that say what to do.

const HINTS: Partial<Record<ErrorCode, string>> = {
  TAB_AS_INDENT: 'tabs cannot indent YAML; use spaces',
  MULTIPLE_DOCS: 'a second document begins here; a file can contain only one: remove the line ---',
  TAG_RESOLVE_FAILED: 'tags (words that begin with !) are not supported; quote the value if it is text',
  BLOCK_AS_IMPLICIT_KEY: 'a second "key:" on this line; start a new line, or quote text that contains ": "',
  MULTILINE_IMPLICIT_KEY: 'a key without a colon, or a value continued at the wrong indentation',
  BAD_INDENT: 'the indentation does not match the lines above',
};

/** A syntax error or warning as a sentence, and where in the text it belongs. */
function explainSyntax(error: YAMLParseError | YAMLWarning, text: string): { offset: number; message: string } {
  const [offset] = error.pos;
  const start = text.lastIndexOf('\n', offset - 1) + 1;
  const line = /^[^\n]*/.exec(text.slice(start))?.[0] ?? '';
  const next = continued(error, text);
  if (next !== undefined) return { offset: next, message: 'the indentation makes this line part of the value above' };
  const starred = /^\s*\*[^\s@]*@[^\s:]+:/.exec(line);
  if (starred !== null) {
    const key = starred[0].trim().slice(0, -1);
    return { offset: start + line.indexOf('*'), message: `a key that begins with * must be quoted: "${key}":` };
  }
  if (/^\s*\*:/.test(line)) {
    const message = 'a key that begins with * must be quoted, such as "*@example.com":';
    return { offset: start + line.indexOf('*'), message };
  }
  if (/^\s*[\w-]+\s*=/.test(line)) return { offset, message: 'write "key: value", with a colon' };
  if (error.message.startsWith('Unexpected , in flow')) return { offset, message: 'there is an extra comma' };
  if (/\[(?=[0-9a-f.]*:)[0-9a-f:.]*\]:\d/i.test(line)) {
    return { offset, message: 'an address that begins with [ must be quoted: "[::]:80"' };
  }
  if (error.code === 'BAD_SCALAR_START') {
    return { offset, message: `a value that begins with ${text.charAt(offset)} must be quoted` };
  }
  const [, close] = error.code === 'BAD_INDENT' ? (/ end with a ([\]}])/.exec(error.message) ?? []) : [];
  if (close !== undefined) {
    const opened = close === '}' ? '{' : '[';
    const inside = text.slice(text.lastIndexOf(opened, offset - 1), offset);
    if (/[ \t]#\S/.test(inside)) {
      return {
        offset: offset - inside.length + inside.search(/#\S/),
        message: 'what follows # is a comment: put the value in quotes',
      };
    }
    return {
      offset,
      message: `the ${opened} above is not closed: a ${close} is missing, or this line must be indented`,
    };
  }
  const message = HINTS[error.code] ?? error.message.charAt(0).toLowerCase() + error.message.slice(1);
  return { offset, message };
}

/** Why a node cannot be a key. */
function keyHint(key: ParsedNode): string {
  if (isMap(key)) return 'a value that contains {{ … }} must be quoted';
  if (isAlias(key)) return `a key that begins with * must be quoted: "*${key.source}":`;
  return 'a key must be text; quote it if it is, and quote values that begin with [';
}

// * The nodes of a YAML document as plain data and places, in one pass. Keys are strings and `__proto__` is none of them;
// duplicate keys are found by a set (the parser's own check is quadratic); aliases are counted with all that they expand
// to, so that ten lines cannot become a gigabyte.

const MAX_DEPTH = 50;
const MAX_ALIASES = 100;
const MAX_NODES = 200_000;

/** A value, where it stands, and what was written. */
export interface Place {
  /** As plain data. */
  readonly value: unknown;
  /** Offset of the value. */
  readonly start: number;
  /** Offset of its key; of the value itself in a list. */
  readonly key: number;
  /** A scalar before references were resolved, and how it was written; undefined for maps and lists. */
  readonly scalar?: Pick<Scalar.Parsed, 'value' | 'type'>;
  readonly below?: ReadonlyMap<string, Place>;
}

/** The place of a path, or the deepest one on the way to it. */
export function find(root: Place | undefined, path: Path): { place: Place | undefined; whole: boolean } {
  let place = root;
  for (const key of path) {
    const next = place?.below?.get(String(key));
    if (next === undefined) return { place, whole: false };
    place = next;
  }
  return { place, whole: place !== undefined };
}

/** The document's data; what cannot be in a configuration is reported and left out. */
function convert(
  document: Document.Parsed,
  report: (offset: number, path: Path, message: string) => void,
): { root: Place; complete: boolean } {
  const anchors = new Map<string, ParsedNode>();
  const open = new Set<ParsedNode>();
  let nodes = 0;
  let aliases = 0;
  let complete = true;
  const root = visit(document.contents, [], 0);
  return { root, complete };

  function visit(node: ParsedNode | null, path: Path, key: number): Place {
    if (node === null) return { value: null, start: key, key };
    const [start] = node.range;
    if (++nodes > MAX_NODES || (isAlias(node) && ++aliases > MAX_ALIASES)) {
      const message = `more than ${MAX_ALIASES} aliases or ${MAX_NODES} values, counting every use`;
      if (complete) report(start, path, message);
      complete = false;
      return { value: null, start, key };
    }
    if (isAlias(node)) {
      const target = anchors.get(node.source);
      if (target === undefined) return refuse(`there is no anchor &${node.source} before this alias`);
      if (open.has(target)) return refuse(`the alias *${node.source} is inside the value it refers to`);
      return visit(target, path, key);
    }
    if (node.anchor !== undefined) anchors.set(node.anchor, node);
    if (!isCollection(node)) return { value: node.value, start, key, scalar: node };
    if (open.size >= MAX_DEPTH) return refuse(`nested more than ${MAX_DEPTH} levels deep`);
    open.add(node);
    const below = new Map<string, Place>();
    if (isMap(node)) {
      for (const pair of node.items) {
        const at = pair.key.range[0];
        const name = keyName(pair.key);
        if (name === undefined) report(node.flow === true ? start : at, path, keyHint(pair.key));
        else if (name === '__proto__') report(at, path, 'the key "__proto__" is not allowed');
        else if (below.has(name)) report(at, [...path, name], `the key "${name}" is given twice`);
        else below.set(name, visit(pair.value, [...path, name], at));
      }
    } else {
      for (const [index, item] of node.items.entries()) {
        below.set(String(index), visit(item, [...path, index], item.range[0]));
      }
    }
    open.delete(node);
    const entries = [...below].map(([name, { value }]) => [name, value] as const);
    const value = isMap(node) ? { __proto__: null, ...Object.fromEntries(entries) } : entries.map(([, item]) => item);
    return { value, start, key, below };

    function refuse(message: string): Place {
      report(start, path, message);
      return { value: null, start, key };
    }
  }
}

/** Numbers and the like are keys as they were written. */
function keyName(key: ParsedNode): string | undefined {
  if (!isScalar(key) || key.value === null) return undefined;
  return typeof key.value === 'string' ? key.value : key.source;
}
