/**
 * Canonical line ends (RFC 5321 §2.3.8): a bare CR or LF becomes CRLF and NUL vanishes. The next server can then not read
 * a second message or an earlier end of data into the bytes, and every verifier hashes the same body.
 */

const NUL = 0x00;
const LF = 0x0a;
const CR = 0x0d;

/** The chunks as one canonical stream; a CRLF may be cut between two of them. Chunks that need no change are not copied. */
export function canonicalLineEnds(chunks: readonly Uint8Array[]): Uint8Array[] {
  const result: Uint8Array[] = [];
  let afterCr = false;
  for (const chunk of chunks) {
    const out = Buffer.allocUnsafe(chunk.length * 2 + 1);
    let used = 0;
    let changed = false;
    for (let i = 0; i < chunk.length; i++) {
      const byte = chunk[i] ?? 0;
      if (byte === NUL) {
        changed = true;
        continue;
      }
      if (afterCr !== (byte === LF)) {
        // Either the LF of the CR before is missing, or the CR of this LF.
        out[used++] = afterCr ? LF : CR;
        changed = true;
      }
      out[used++] = byte;
      afterCr = byte === CR;
    }
    result.push(changed ? Buffer.from(out.subarray(0, used)) : chunk);
  }
  if (afterCr) result.push(Buffer.from([LF]));
  return result;
}
