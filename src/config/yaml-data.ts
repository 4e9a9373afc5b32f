/**
 * The nodes of a YAML document as plain data and places, in one pass. Keys are strings and `__proto__` is none of them;
 * duplicate keys are found by a set (the parser's own check is quadratic); aliases are counted with all that they expand
 * to, so that ten lines cannot become a gigabyte.
 */
import { isAlias, isCollection, isMap, isScalar } from 'yaml';
import type { Alias, Document, ParsedNode, Scalar, YAMLMap, YAMLSeq } from 'yaml';
import type { Path } from './problem.ts';
import { keyHint } from './yaml-words.ts';

export const MAX_DEPTH = 50;
const MAX_ALIASES = 100;
const MAX_NODES = 200_000;

/** Where a value stands, and what was written. */
export interface Place {
  /** Offset of the value. */
  readonly start: number;
  /** Offset of its key; of the value itself in a list. */
  readonly key: number;
  /** A scalar before references were resolved, and how it was written; undefined for maps and lists. */
  readonly scalar?: Pick<Scalar.Parsed, 'value' | 'type'>;
  readonly below: ReadonlyMap<string, Place>;
}

export interface Converted {
  readonly value: unknown;
  readonly place: Place;
}

export type Report = (offset: number, path: Path, message: string) => void;

/** The place of a path, or the deepest one on the way to it. */
export function find(root: Place | undefined, path: Path): { place: Place | undefined; whole: boolean } {
  let place = root;
  for (const key of path) {
    const next = place?.below.get(String(key));
    if (next === undefined) return { place, whole: false };
    place = next;
  }
  return { place, whole: place !== undefined };
}

/** The document's data; what cannot stand in a configuration is reported and left out. */
export function convert(document: Document.Parsed, report: Report): Converted & { readonly complete: boolean } {
  const anchors = new Map<string, ParsedNode>();
  const open = new Set<unknown>();
  let nodes = 0;
  let aliases = 0;
  let bomb = false;
  const { value, place } = visit(document.contents, [], 0);
  return { value, place, complete: !bomb };

  function visit(node: ParsedNode | null, path: Path, key: number): Converted {
    if (node === null) return nothing(key, key);
    if (++nodes > MAX_NODES) return tooMuch(node, path, key);
    if (isAlias(node)) return follow(node, path, key);
    if (node.anchor !== undefined) anchors.set(node.anchor, node);
    if (!isCollection(node)) return scalar(node, key);
    if (open.size >= MAX_DEPTH)
      return refuse(node, key, { path, message: `nested more than ${MAX_DEPTH} levels deep` });
    open.add(node);
    const result = isMap(node) ? map(node, path, key) : list(node, path, key);
    open.delete(node);
    return result;
  }

  function follow(node: Alias.Parsed, path: Path, key: number): Converted {
    if (++aliases > MAX_ALIASES) return tooMuch(node, path, key);
    const target = anchors.get(node.source);
    if (target === undefined)
      return refuse(node, key, { path, message: `no anchor &${node.source} stands before this alias` });
    if (open.has(target))
      return refuse(node, key, { path, message: `the alias *${node.source} stands within what it names` });
    return visit(target, path, key);
  }

  function scalar(node: Scalar.Parsed, key: number): Converted {
    return { value: node.value, place: { start: node.range[0], key, scalar: node, below: new Map() } };
  }

  function map(node: YAMLMap.Parsed, path: Path, key: number): Converted {
    const value: Record<string, unknown> = { __proto__: null };
    const below = new Map<string, Place>();
    for (const pair of node.items) {
      const at = pair.key.range[0];
      const name = keyName(pair.key);
      if (name === undefined) report(node.flow === true ? node.range[0] : at, path, keyHint(pair.key));
      else if (name === '__proto__') report(at, path, 'the key "__proto__" is not allowed');
      else if (below.has(name)) report(at, [...path, name], `the key "${name}" stands here twice`);
      else {
        const converted = visit(pair.value, [...path, name], at);
        value[name] = converted.value;
        below.set(name, converted.place);
      }
    }
    return { value, place: { start: node.range[0], key, below } };
  }

  function list(node: YAMLSeq.Parsed, path: Path, key: number): Converted {
    const items = node.items.map((item, index) => visit(item, [...path, index], item.range[0]));
    const below = new Map(items.map(({ place }, index) => [String(index), place]));
    return { value: items.map(({ value }) => value), place: { start: node.range[0], key, below } };
  }

  function tooMuch(node: ParsedNode, path: Path, key: number): Converted {
    if (bomb) return nothing(node.range[0], key);
    bomb = true;
    const message = `more than ${MAX_ALIASES} aliases or ${MAX_NODES} values, counted as often as used`;
    return refuse(node, key, { path, message });
  }

  function refuse(node: ParsedNode, key: number, { path, message }: { path: Path; message: string }): Converted {
    report(node.range[0], path, message);
    return nothing(node.range[0], key);
  }
}

function nothing(start: number, key: number): Converted {
  return { value: null, place: { start, key, below: new Map() } };
}

/** Numbers and the like are keys as they were written. */
function keyName(key: ParsedNode): string | undefined {
  if (!isScalar(key) || key.value === null) return undefined;
  return typeof key.value === 'string' ? key.value : key.source;
}
