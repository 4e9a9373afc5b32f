/**
 * The name of an uploaded file, as its visitor sees it: whatever program sent it, in whichever of the ways that programs
 * write names beyond ASCII into a header, and without what a terminal, a mail header or a file system would act on.
 */
import { isUtf8 } from 'node:buffer';
import { TextDecoder } from 'node:util';
import { decodeWords } from '../mail/header.ts';
import { decode } from './entries.ts';

const MAX_LENGTH = 200;
const MAX_EXTENSION_LENGTH = 20;

/** The name from the header's bytes, one per character; `decoder` is that of the body. */
export function filenameOf(binary: string, decoder: TextDecoder): string {
  const bytes = Buffer.from(binary, 'latin1');
  // Bytes that are valid UTF-8 by chance are rare, and programs write UTF-8 whatever the body's charset is.
  const text = isUtf8(bytes) ? bytes.toString('utf8') : (decode(bytes, decoder) ?? windows1252().decode(bytes));
  // Browsers escape only `"`, CR and LF (HTML §4.10.21.8); mail libraries write encoded words (RFC 2047).
  const unescaped = text.replaceAll('%22', '"').replaceAll(/%0D|%0A/g, '');
  const decoded = /=\?[\w-]+\?[bq]\?/i.test(unescaped) ? decodeWords(unescaped) : unescaped;
  return plainFilename(repaired(decoded).normalize('NFC'));
}

function windows1252(): TextDecoder {
  return new TextDecoder('windows-1252');
}

/** UTF-8 that a program between took for Latin-1 and encoded again (`GrÃ¶Ã\u009fe`), once more as it was. */
function repaired(text: string): string {
  if (!/[\u00c2-\u00f4][\u0080-\u00bf\u0152-\u2122]/.test(text)) return text;
  const bytes = latin1BytesOf(text);
  return bytes !== undefined && isUtf8(bytes) ? bytes.toString('utf8') : text;
}

/** The bytes of a text in Windows-1252, or in Latin-1 where that has none; undefined where it has other characters. */
function latin1BytesOf(text: string): Buffer | undefined {
  const high = windows1252().decode(Uint8Array.from({ length: 32 }, (_, i) => 0x80 + i));
  const codes = Array.from(text, (character) => {
    const special = high.indexOf(character);
    return special === -1 ? (character.codePointAt(0) ?? 0) : 0x80 + special;
  });
  return codes.every((code) => code < 0x100) ? Buffer.from(codes) : undefined;
}

/** Control and format characters, which turn the direction of text among other things; Persian and emoji need the joiners. */
const UNSEEN = /[\p{Cc}\p{Zl}\p{Zp}\p{Cs}]|(?![\u200c\u200d])\p{Cf}/gu;

/** The last part of a path, without what is not seen. A long one keeps its extension. */
function plainFilename(name: string): string {
  const base = name.slice(Math.max(name.lastIndexOf('/'), name.lastIndexOf('\\')) + 1);
  const clean = base.replaceAll(UNSEEN, '').trim();
  if (clean === '' || clean === '.' || clean === '..') return 'file';
  if (clean.length <= MAX_LENGTH) return clean;
  const dot = clean.lastIndexOf('.');
  const extension = dot > 0 && clean.length - dot <= MAX_EXTENSION_LENGTH ? clean.slice(dot) : '';
  // Half of a character beyond the basic plane would be none.
  const stem = clean.slice(0, MAX_LENGTH - extension.length).replace(/[\ud800-\udbff]$/, '');
  return stem + extension;
}
