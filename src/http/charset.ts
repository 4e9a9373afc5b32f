/**
 * Which bytes mean which text. What declares its charset is held to it. What declares none is UTF-8, or, where it is not
 * valid UTF-8, Windows-1252: that is what a page without a charset of its own sends (WHATWG Encoding Standard §4.2).
 */
import { isUtf8 } from 'node:buffer';

/** Decodes bytes; undefined where they are not valid in its charset. */
export interface Decoder {
  /** As the Encoding Standard names it. */
  readonly charset: string;
  decode(bytes: Uint8Array): string | undefined;
}

/** The decoder of a charset by any of its labels, or undefined where it is unknown. */
export function decoderOf(label: string): Decoder | undefined {
  try {
    const decoder = new TextDecoder(label.trim(), { fatal: true, ignoreBOM: false });
    return {
      charset: decoder.encoding,
      decode(bytes) {
        try {
          return decoder.decode(bytes);
        } catch {
          return undefined;
        }
      },
    };
  } catch {
    return undefined;
  }
}

/** The text where it is the UTF-8 that it is declared to be, or may be because nothing is declared: the short way to it. */
export function utf8Text(bytes: Buffer, charset: string | undefined): string | undefined {
  return (charset === undefined || /^utf-?8$/i.test(charset)) && isUtf8(bytes) ? bytes.toString('utf8') : undefined;
}

/** The decoder for pieces of one body that declares no charset. */
export function guessDecoder(pieces: readonly Uint8Array[]): Decoder {
  const decoder = decoderOf(pieces.every((piece) => isUtf8(piece)) ? 'utf-8' : 'windows-1252');
  if (decoder === undefined) throw new Error('this Node was built without its text decoders');
  return decoder;
}

/** A parameter of a header value such as `text/plain; charset="utf-8"`; undefined where it is absent. */
export function parameterOf(value: string, name: string): string | undefined {
  for (const parameter of value.split(';').slice(1)) {
    const equals = parameter.indexOf('=');
    if (equals === -1 || parameter.slice(0, equals).trim().toLowerCase() !== name) continue;
    const text = parameter.slice(equals + 1).trim();
    return text.startsWith('"') && text.endsWith('"') && text.length > 1 ? text.slice(1, -1) : text;
  }
  return undefined;
}
