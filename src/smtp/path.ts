/**
 * The one reading of `MAIL FROM:<…>` and `RCPT TO:<…>` (RFC 5321 §4.1.2), quoted locals included, so that what is refused
 * as an address is refused by who decides and is written down. A source route is read over, as appendix C has it. Linear.
 */
import type { SMTPServerAddress } from 'smtp-server';

export interface PathCommand extends SMTPServerAddress {
  /** A parameter that stands there twice. */
  duplicate?: string;
}

// oxlint-disable-next-line no-control-regex -- they are what is looked for
const CONTROL = /[\x00-\x1f\x7f]/;
const ROUTE = /^@[^\s,:@"]+(?:,@[^\s,:@"]+)*:/;

/** What the line says, or undefined; `verb` is `MAIL FROM` or `RCPT TO`. */
export function parsePath(verb: string, line: string): PathCommand | undefined {
  const colon = line.indexOf(':');
  if (colon < 0 || line.slice(0, colon).trimEnd().toUpperCase() !== verb || CONTROL.test(line)) return undefined;
  const rest = line.slice(colon + 1).trimStart();
  const end = pathEnd(rest);
  if (end === undefined) return undefined;
  const parameters = rest.slice(end + 1);
  if (parameters !== '' && !parameters.startsWith(' ')) return undefined;
  const address = rest.slice(1, end).replace(ROUTE, '');
  const read = readParameters(parameters);
  if (read === undefined) return undefined;
  const { args, duplicate } = read;
  if (Object.values(args).some((value) => typeof value === 'string' && CONTROL.test(value))) return undefined;
  return {
    address,
    args: Object.keys(args).length === 0 ? false : args,
    ...(duplicate === undefined ? {} : { duplicate }),
  };
}

/** Where the path's `>` stands; within quotes it is a letter like others. */
function pathEnd(rest: string): number | undefined {
  if (!rest.startsWith('<')) return undefined;
  let quoted = false;
  for (let i = 1; i < rest.length; i++) {
    const letter = rest.charAt(i);
    if (quoted && letter === '\\') i++;
    else if (letter === '"') quoted = !quoted;
    else if (!quoted && letter === '>') return i;
    else if (!quoted && letter === '<') return undefined;
  }
  return undefined;
}

interface Parameters {
  readonly args: Record<string, string | true>;
  readonly duplicate: string | undefined;
}

/** Undefined where something stands there that is none, such as a second path. */
function readParameters(text: string): Parameters | undefined {
  const args: Record<string, string | true> = {};
  let duplicate: string | undefined;
  for (const parameter of text.split(' ').filter((each) => each !== '')) {
    const [name = '', ...value] = parameter.split('=');
    const key = name.toUpperCase();
    if (!/^[A-Z0-9][A-Z0-9-]*$/.test(key)) return undefined;
    if (Object.hasOwn(args, key)) duplicate = key;
    args[key] = value.length === 0 ? true : decodeXtext(value.join('='));
  }
  return { args, duplicate };
}

/** RFC 3461 §4 */
function decodeXtext(value: string): string {
  return value.replaceAll(/\+([0-9A-F]{2})/g, (_, hex: string) => String.fromCharCode(Number.parseInt(hex, 16)));
}
