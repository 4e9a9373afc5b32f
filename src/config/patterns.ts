/**
 * Regular expressions of form fields. They meet what strangers type, on the thread that serves everybody, so only those
 * are taken that cannot backtrack exponentially: no repetition whose content can match one text in several ways.
 * (Polynomial time remains possible; whoever matches caps the length of the input.)
 */

/** How often bounded repetitions may divide one text, at most. */
const MAX_WAYS = 10_000;
const AMBIGUOUS =
  'a repetition within a repetition, or of alternatives that begin alike, can take for ever; write it without';

/** The expression as the browser's `pattern` attribute has it: the whole value must match. */
export function fieldPattern(source: string): RegExp {
  return new RegExp(`^(?:${source})$`, 'u');
}

/** Why this expression is refused, or undefined when it may be used. */
export function patternProblem(source: string): string | undefined {
  try {
    fieldPattern(source);
  } catch (error) {
    const words = error instanceof Error ? error.message.replace(/^.*: /, '') : '';
    return `expected a regular expression; this is none: ${words}`;
  }
  if (/\\(?:[1-9]|k<)/.test(source.replaceAll('\\\\', '')))
    return 'back-references are refused: they can take for ever';
  return waysOf(source) === undefined ? AMBIGUOUS : undefined;
}

interface Part {
  /** In how many ways it can match one text; 1 where there is only one. */
  readonly ways: number;
  /** The character that it begins with, where that is certain. */
  readonly start: string | undefined;
}

/** In how many ways the expression (which is valid) can match one text; undefined where that grows without bound. */
function waysOf(source: string): number | undefined {
  let at = 0;
  let bounded = true;
  const { ways } = alternatives();
  return bounded ? ways : undefined;

  function alternatives(): Part {
    const parts = [sequence()];
    while (source.charAt(at) === '|') {
      at++;
      parts.push(sequence());
    }
    const starts = parts.map(({ start }) => start);
    const distinct = !starts.includes(undefined) && new Set(starts).size === starts.length;
    const most = Math.max(...parts.map(({ ways }) => ways));
    return { ways: parts.length === 1 || distinct ? most : most * parts.length, start: undefined };
  }

  function sequence(): Part {
    let ways = 1;
    let start: string | undefined;
    for (let first = true; at < source.length && !'|)'.includes(source.charAt(at)); first = false) {
      const part = repeated(atom());
      if (first) start = part.start;
      ways *= part.ways;
    }
    return { ways, start };
  }

  function atom(): Part {
    const rest = source.slice(at);
    const group = /^\((?:\?(?:[:=!]|<[=!]|<[^>]*>|[a-z-]*:))?/.exec(rest)?.[0];
    if (group !== undefined) {
      at += group.length;
      const inner = alternatives();
      at++;
      return inner;
    }
    const token = /^(?:\[(?:\\.|[^\]\\])*\]|\\[pPu]\{[^}]*\}|\\u[0-9a-fA-F]{4}|\\x[0-9a-fA-F]{2}|\\c.|\\.|.)/su.exec(
      rest,
    )?.[0];
    at += token?.length ?? 1;
    return {
      ways: 1,
      start: token !== undefined && /^(?:[^[.^$\\]|\\[^A-Za-z0-9])$/su.test(token) ? token : undefined,
    };
  }

  function repeated(part: Part): Part {
    const [text, bounds = ''] = /^(?:[*+?]|\{([\d,]+)\})\??/.exec(source.slice(at)) ?? [''];
    if (text === '') return part;
    at += text.length;
    const [min, max] = limits(text.charAt(0), bounds);
    const ways = part.ways > 1 ? part.ways ** max : 1;
    if (ways > MAX_WAYS) bounded = false;
    return { ways: ways * (max - min + 1), start: min === 0 ? undefined : part.start };
  }
}

function limits(sign: string, bounds: string): [min: number, max: number] {
  if (sign === '?') return [0, 1];
  if (sign !== '{') return [sign === '*' ? 0 : 1, Number.POSITIVE_INFINITY];
  const [min = '0', max = min] = bounds.split(',');
  return [Number(min), max === '' ? Number.POSITIVE_INFINITY : Number(max)];
}
