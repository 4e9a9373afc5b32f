/**
 * The parts of a foreign message, read in linear time whatever it holds: text is Latin-1 (one character a byte) with LF
 * ends, and a message that breaks off, nests too deep or has too many parts gives those that were read.
 */

import type { BounceMeaning } from './bounce-class.ts';

/** Values by field name in lower case, in their order. */
export type Fields = ReadonlyMap<string, readonly string[]>;

export interface Part {
  readonly fields: Fields;
  /** `text/plain`, … in lower case. */
  readonly type: string;
  /** As it stands, still in its transfer encoding. */
  readonly body: string;
}

/** The message as a part of its own, and all of its parts that are not multiparts themselves. */
export interface Message {
  readonly whole: Part;
  readonly leaves: readonly Part[];
}

const MAX_DEPTH = 4;
const MAX_PARTS = 50;
const MAX_VALUE_LENGTH = 4000;
const MAX_BOUNDARY_LENGTH = 200;

export function partsOf(message: string): Message {
  const whole = partOf(message);
  const leaves: Part[] = [];
  collect(whole, 0, leaves);
  return { whole, leaves };
}

function collect(part: Part, depth: number, leaves: Part[]): void {
  const boundary = boundaryOf(part);
  if (boundary === undefined || depth === MAX_DEPTH) {
    if (leaves.length < MAX_PARTS) leaves.push(part);
    return;
  }
  const texts = divide(part.body, boundary);
  // Gateways and lists take the boundaries out, and leave the type.
  if (texts.length === 0) leaves.push({ ...part, type: 'text/plain' });
  for (const text of texts) {
    if (leaves.length >= MAX_PARTS) return;
    collect(partOf(text), depth + 1, leaves);
  }
}

function partOf(text: string): Part {
  // Without fields a part begins with its empty line.
  const end = text.startsWith('\n') ? 0 : text.indexOf('\n\n') + 1;
  const isAll = end === 0 && !text.startsWith('\n');
  const fields = readFields(isAll ? text : text.slice(0, end));
  const [type = 'text/plain'] = /^[\w.+-]+\/[\w.+-]+/.exec(firstOf(fields, 'content-type')) ?? [];
  return { fields, type: type.toLowerCase(), body: isAll ? '' : text.slice(end + 1) };
}

function boundaryOf(part: Part): string | undefined {
  if (!part.type.startsWith('multipart/')) return undefined;
  const boundary = parameterOf(part, 'boundary');
  return boundary === '' || boundary.length > MAX_BOUNDARY_LENGTH ? undefined : boundary;
}

/** A parameter of the content type; empty where there is none. */
export function parameterOf({ fields }: Part, name: 'boundary' | 'charset'): string {
  const pattern = name === 'boundary' ? BOUNDARY : CHARSET;
  const [, quoted, plain] = pattern.exec(firstOf(fields, 'content-type')) ?? [];
  return quoted ?? plain ?? '';
}

const BOUNDARY = /;\s*boundary\s*=\s*(?:"([^"]+)"|([^\s;"]+))/i;
const CHARSET = /;\s*charset\s*=\s*(?:"([^"]+)"|([^\s;"]+))/i;

/** RFC 2046 §5.1: what stands between the lines of this boundary; the last part ends where the text does. */
function divide(body: string, boundary: string): string[] {
  const text = `\n${body}`;
  const mark = `\n--${boundary}`;
  const parts: string[] = [];
  let start: number | undefined;
  for (let at = text.indexOf(mark); at >= 0 && parts.length < MAX_PARTS; at = text.indexOf(mark, at + 1)) {
    const next = text.indexOf('\n', at + 1);
    const end = next < 0 ? text.length : next;
    const rest = text.slice(at + mark.length, end).trimEnd();
    if (rest !== '' && rest !== '--') continue;
    if (start !== undefined) parts.push(text.slice(start, at));
    if (rest === '--') return parts;
    start = end + 1;
  }
  if (start !== undefined && start < text.length && parts.length < MAX_PARTS) parts.push(text.slice(start));
  return parts;
}

/** The fields of a header block, or of anything that is written like one; folds are spaces. */
export function readFields(block: string): Fields {
  const texts: string[][] = [];
  for (const line of block.split('\n')) {
    if (/^[ \t]/.test(line)) texts.at(-1)?.push(line);
    else texts.push([line]);
  }
  const fields = new Map<string, string[]>();
  for (const [first = '', ...folds] of texts) {
    const colon = first.indexOf(':');
    const name = first.slice(0, Math.max(0, colon)).trim().toLowerCase();
    const lines = [first.slice(colon + 1), ...folds].map((line) => line.trim());
    if (name === '') continue;
    const values = fields.get(name) ?? [];
    values.push(lines.join(' ').slice(0, MAX_VALUE_LENGTH));
    fields.set(name, values);
  }
  return fields;
}

/** The first value of this name; empty where there is none. */
export function firstOf(fields: Fields, name: string): string {
  return fields.get(name)?.[0] ?? '';
}

/** The body without its transfer encoding, as text. */
export function decoded(part: Part): string {
  return withLf(contentOf(part).toString('latin1'));
}

/** The bytes of the body without its transfer encoding. */
export function contentOf({ fields, body }: Part): Buffer {
  switch (firstOf(fields, 'content-transfer-encoding').toLowerCase()) {
    case 'base64':
      return Buffer.from(body, 'base64');
    case 'quoted-printable':
      return Buffer.from(
        body.replaceAll(/=(?:\n|([\dA-Fa-f]{2}))/g, (_, hex?: string) => characterOf(hex)),
        'latin1',
      );
    default:
      return Buffer.from(body, 'latin1');
  }
}

/** The text of a part as a reader sees it: decoded, in its character set, without tags. */
export function textOf(part: Part): string {
  const text = inCharset(decoded(part), parameterOf(part, 'charset'));
  return part.type === 'text/html' ? withoutTags(text) : text;
}

/** Text that was Latin-1 here; what does not name its character set is UTF-8, or tells by its escapes (RFC 1468). */
export function inCharset(text: string, charset = ''): string {
  const bytes = Buffer.from(text, 'latin1');
  const isUnnamed = charset === '' || /^us-ascii$/i.test(charset);
  try {
    return new TextDecoder(!isUnnamed ? charset : text.includes('\x1b$') ? 'iso-2022-jp' : 'utf-8').decode(bytes);
  } catch {
    // An unknown character set: what is ASCII in it can be read all the same.
    return bytes.toString();
  }
}

const ENTITIES: Readonly<Record<string, string>> = {
  lt: '<',
  gt: '>',
  amp: '&',
  quot: '"',
  nbsp: ' ',
  '#39': "'",
  '#64': '@',
};

function withoutTags(html: string): string {
  return html
    .split(/<(?:style|script)\b/i)
    .map((text, i) => (i === 0 ? text : (text.split(/<\/(?:style|script)/i, 2)[1] ?? '')))
    .join(' ')
    .replaceAll(/<(?:br|\/?p|\/?div|\/?t[rd]|\/?li|\/?h\d)\b[^<>]{0,500}>/gi, '\n')
    .replaceAll(/<[^<>]{0,2000}>/g, ' ')
    .replaceAll(/&(lt|gt|amp|quot|nbsp|#39|#64);/g, (_, name: string) => ENTITIES[name] ?? ' ');
}

/** Line ends as everything here has them. */
export function withLf(text: string): string {
  return text.replaceAll('\r\n', '\n');
}

function characterOf(hex: string | undefined): string {
  return hex === undefined ? '' : String.fromCharCode(Number.parseInt(hex, 16));
}

// What a report says, as far as it can be read.

export interface ReportedRecipient {
  /** Where it failed in the end; empty where it is not given. */
  readonly address: string;
  /** As the sender had named it; empty where it is not given. */
  readonly original: string;
  /** `failed`, `delayed`, `delivered`, `relayed`, `expanded` (RFC 3464 §2.3.3); empty where it is not given. */
  readonly action: string;
  /** `5.1.1` (RFC 3463), the most exact that is given; empty where none is. */
  readonly status: string;
  /** A server's words; empty where it is not given. */
  readonly diagnostic: string;
  /** Name of the server that answered so; empty where it is not given. */
  readonly remote: string;
  /** The class of the failure, and whether the address is to be suppressed. */
  readonly meaning: BounceMeaning;
}

/** As it was read, before it is classified. */
export type ParsedRecipient = Omit<ReportedRecipient, 'meaning'>;

export type Report =
  | { readonly kind: 'bounce'; readonly recipients: readonly ReportedRecipient[] }
  | {
      readonly kind: 'complaint';
      /** `abuse`, `fraud`, `not-spam`, … in lower case (RFC 5965 §3.1). */
      readonly feedback: string;
      /** Whose complaint it is, where the report says so. */
      readonly recipients: readonly string[];
    }
  /** An automatic answer: somebody is out, or has read it. */
  | { readonly kind: 'automatic' }
  | { readonly kind: 'unknown' };
