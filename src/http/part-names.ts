/** Names in the headers of a multipart part, which come as bytes: as browsers write them (HTML §4.10.21.8), and as others do. */
import type { Decoder } from './charset.ts';

/** A field's name or a file's, from the header's bytes one per character. Browsers escape `"`, CR and LF, nothing else. */
export function decodeName(binary: string, decoder: Decoder): string | undefined {
  const text = decoder.decode(Buffer.from(binary, 'latin1'));
  return text?.replaceAll('%22', '"').replaceAll(/%0D%0A|%0D|%0A/g, '\n');
}

/** The last part of a path, without what a terminal, a mail header or a file system would act on. */
export function plainFilename(name: string): string {
  const base = name.slice(Math.max(name.lastIndexOf('/'), name.lastIndexOf('\\')) + 1);
  const clean = base
    .replaceAll(/[\p{Cc}\p{Cf}\p{Zl}\p{Zp}]/gu, '')
    .trim()
    .slice(0, 200);
  return clean === '' || clean === '.' || clean === '..' ? 'file' : clean;
}
