/**
 * A finished message as a person reads it: header, text, HTML, the names of its files. Whoever wrote it is not trusted: it is read
 * within bounds (report-parts.ts), and its HTML is for a frame in which nothing runs and that asks for nothing.
 */
import { decodeWords, fieldsOf, valueOf } from './header.ts';
import { contentOf, decoded, firstOf, inCharset, parameterOf, partsOf, withLf, type Part } from './report-parts.ts';

/** So much of a message is read. */
const MAX_BYTES = 4 * 1024 * 1024;
const MAX_HEADERS = 200;
const MAX_HEADER_LENGTH = 4000;
/** Longest text and HTML that are shown. */
const MAX_PART_LENGTH = 1024 * 1024;
/** Pictures within the message that its HTML shows, all together. */
const MAX_PICTURES_BYTES = 1024 * 1024;
/** Types that no browser runs anything of. */
const PICTURE = /^image\/(?:png|jpeg|gif|webp)$/;

export interface MailView {
  readonly headers: readonly { readonly name: string; readonly value: string }[];
  readonly text: string | null;
  /** As it was written, but for what reaches out of the message. */
  readonly html: string | null;
  readonly attachments: readonly { readonly filename: string; readonly content_type: string; readonly size: number }[];
  /** Whether only the beginning was read. */
  readonly truncated: boolean;
}

/** Reads a message. */
export function viewMail(bytes: Uint8Array): MailView {
  const message = Buffer.from(bytes.buffer, bytes.byteOffset, Math.min(bytes.byteLength, MAX_BYTES)).toString('latin1');
  const end = message.indexOf('\r\n\r\n');
  const header = end < 0 ? message : message.slice(0, end + 2);
  const { leaves } = partsOf(withLf(message));
  const bodies = leaves.filter((part) => !isFile(part));
  const text = bodies.find(({ type }) => type === 'text/plain');
  const html = bodies.find(({ type }) => type === 'text/html');
  return {
    headers: fieldsOf(header)
      .slice(0, MAX_HEADERS)
      .map((field) => ({ name: nameOf(field.text), value: oneLine(decodeWords(valueOf(field))) })),
    text: text === undefined ? null : written(text),
    html: html === undefined ? null : inert(withPictures(written(html), leaves)),
    attachments: leaves
      .filter((part) => part !== text && part !== html)
      .map((part) => ({ filename: filenameOf(part), content_type: part.type, size: contentOf(part).length })),
    truncated: bytes.byteLength > MAX_BYTES,
  };
}

const ACTIVE = /<(\/?)(?:link|meta|base|iframe|frame|object|embed|portal)\b/gi;
/** What is in a template is neither run nor shown. */
const SCRIPT = /<(\/?)script\b/gi;
const TAG = /<[a-z][^<>]*>/gi;
const HANDLER = /\b(on[a-z]+\s*=)/gi;
const FETCHED = /\b(src|srcset|background|poster|data|action|ping)(\s*=)(?!\s*(?:["']\s*)?(?:data|cid):)/gi;
const FETCHED_BY_STYLE = /\burl\((?!\s*(?:["']\s*)?(?:data|cid):)/gi;

/**
 * HTML that somebody sent, for a frame that runs nothing and fetches nothing: what would try to is taken out, so that nothing is
 * reported of it either. The guard is the frame and its policy, not this.
 */
export function inert(html: string): string {
  return html
    .slice(0, MAX_PART_LENGTH)
    .replaceAll(SCRIPT, '<$1template')
    .replaceAll(ACTIVE, '<$1x-')
    .replaceAll(TAG, (tag) => tag.replaceAll(FETCHED, 'x-$1$2').replaceAll(HANDLER, 'x-$1'))
    .replaceAll(FETCHED_BY_STYLE, 'x-url(');
}

function isFile({ fields }: Part): boolean {
  return /^\s*attachment/i.test(firstOf(fields, 'content-disposition'));
}

function written(part: Part): string {
  return inCharset(decoded(part), parameterOf(part, 'charset')).slice(0, MAX_PART_LENGTH);
}

/** The name as it was written. */
function nameOf(text: string): string {
  return text.slice(0, Math.max(0, text.indexOf(':'))).trim();
}

function oneLine(value: string): string {
  return value.slice(0, MAX_HEADER_LENGTH).replaceAll(/\s+/g, ' ').trim();
}

const FILENAME = /;\s*(?:file)?name\s*=\s*(?:"([^"]*)"|([^\s;"]+))/i;

function filenameOf({ fields }: Part): string {
  for (const name of ['content-disposition', 'content-type']) {
    const [, quoted, plain] = FILENAME.exec(firstOf(fields, name)) ?? [];
    const filename = quoted ?? plain;
    if (filename !== undefined) return oneLine(decodeWords(filename)).slice(0, 255);
  }
  return '';
}

/** The pictures that are in the message are put into its HTML, as far as there is room. */
function withPictures(html: string, parts: readonly Part[]): string {
  const pictures = new Map<string, string>();
  let room = MAX_PICTURES_BYTES;
  for (const part of parts) {
    const id = firstOf(part.fields, 'content-id').replaceAll(/[<>\s]/g, '');
    if (id === '' || !PICTURE.test(part.type)) continue;
    const content = contentOf(part);
    room -= content.length;
    if (room < 0) break;
    pictures.set(id, `data:${part.type};base64,${content.toString('base64')}`);
  }
  return html.replaceAll(/\bcid:([^\s"'<>)]{1,200})/gi, (all, id: string) => pictures.get(id) ?? all);
}
