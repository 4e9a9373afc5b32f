/** Encoded-words (RFC 2047) back to text, in whatever character set they are; linear. */

const WORD = /=\?([^?\s*]{1,40})(?:\*[^?\s]*)?\?([bq])\?([^?\s]*)\?=/gi;
/** What divides two words that were one text (§6.2). */
const BETWEEN = /^[ \t\r\n]*$/;

/** Latin-1 text of a header, one character a byte, as its reader sees it. What cannot be decoded stays as it is. */
export function decodeWords(text: string): string {
  let decoded = '';
  let pending: Pending | undefined;
  let at = 0;
  for (const [word, charset = '', encoding = '', content = ''] of text.matchAll(WORD)) {
    const start = text.indexOf(word, at);
    const gap = text.slice(at, start);
    const joins = pending !== undefined && BETWEEN.test(gap);
    if (pending !== undefined && !(joins && pending.charset === charset.toLowerCase())) {
      decoded += decodeBytes(pending);
      pending = undefined;
    }
    if (!joins) decoded += decodeRaw(gap);
    // A character may be cut in two by the words' end, against the rules.
    pending ??= { charset: charset.toLowerCase(), bytes: [], written: '' };
    pending.written += joins && pending.written !== '' ? gap + word : word;
    pending.bytes.push(encoding.toLowerCase() === 'b' ? Buffer.from(content, 'base64') : fromQ(content));
    at = start + word.length;
  }
  return decoded + (pending === undefined ? '' : decodeBytes(pending)) + decodeRaw(text.slice(at));
}

/** Words of one character set that are read together. */
interface Pending {
  readonly charset: string;
  readonly bytes: Buffer[];
  /** As they stand. */
  written: string;
}

function decodeBytes({ charset, bytes, written }: Pending): string {
  try {
    return new TextDecoder(charset).decode(Buffer.concat(bytes));
  } catch {
    return decodeRaw(written);
  }
}

/** Bytes beyond ASCII in a header are UTF-8 (RFC 6532), or what somebody's computer was set to. */
function decodeRaw(text: string): string {
  const bytes = Buffer.from(text, 'latin1');
  try {
    return new TextDecoder('utf-8', { fatal: true }).decode(bytes);
  } catch {
    return new TextDecoder('windows-1252').decode(bytes);
  }
}

function fromQ(content: string): Buffer {
  const text = content
    .replaceAll('_', ' ')
    .replaceAll(/=([0-9a-f]{2})/gi, (_, hex: string) => String.fromCharCode(Number.parseInt(hex, 16)));
  return Buffer.from(text, 'latin1');
}
