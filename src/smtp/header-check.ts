/** Looks over the header block of a message before it is taken: its size, how often it has been on its way, and whether it has been here before. */
export interface HeaderFaults {
  /** Its header block in bytes and lines at most. */
  readonly bytes: number;
  readonly lines: number;
  /** `Received:` lines at most. */
  readonly hops: number;
  /** The addresses that it is for now, in lower case; one that a Delivered-To names already has had it. */
  readonly recipients: readonly string[];
}

export interface Refusal {
  /** `554 5.4.6 …` */
  readonly reply: string;
  /** A stable name. */
  readonly reason: string;
}

/** The longest header block that is taken, bytes; what `start` has to hold of a longer message. */
export const MAX_HEADER_BYTES = 100 * 1024;
export const MAX_HEADER_LINES = 1000;

/** Why a message that begins so is not taken, or nothing. */
export function refuseHeaders(start: Buffer, { bytes, lines, hops, recipients }: HeaderFaults): Refusal | undefined {
  let received = 0;
  let authors = 0;
  let count = 0;
  for (let at = 0; at < start.length;) {
    const next = start.indexOf(LF, at) + 1 || start.length;
    // An empty line ends the block (RFC 5322 §2.1); no line ends but by CRLF (wire.ts).
    if (next === at + 2) break;
    if (next > bytes || ++count > lines) {
      return { reply: '552 5.3.4 the header of this message is too large', reason: 'header_too_large' };
    }
    const name = nameOf(start, at, next);
    if (name === 'received') received++;
    if (name === 'from') authors++;
    if (name === 'delivered-to') {
      const value = start.toString('latin1', at + name.length, next);
      const address = /:\s*<?([^\s<>]+)>?\s*$/.exec(value)?.[1]?.toLowerCase();
      if (address !== undefined && recipients.includes(address)) return LOOP;
    }
    at = next;
  }
  if (received > hops) return { reply: '554 5.4.6 too many hops: this message goes round in a loop', reason: 'loop' };
  // Verifiers do not agree on which of them counts (RFC 7489 §6.6.1).
  if (authors > 1) return { reply: '550 5.7.1 a message has one From header', reason: 'several_from' };
  return undefined;
}

const LOOP: Refusal = { reply: '554 5.4.6 this message was here before: it goes round in a loop', reason: 'loop' };
const MAX_NAME_LENGTH = 'delivered-to'.length;
const LF = 0x0a;
/** The lower-case letters that the names begin with. */
const INITIALS = new Set(Buffer.from('rfd'));

/** The lower-case name of the field that begins at `at`, as far as it is one that matters. */
function nameOf(bytes: Buffer, at: number, end: number): string | undefined {
  if (!INITIALS.has((bytes[at] ?? 0) | 0x20)) return undefined;
  const colon = bytes.subarray(at, Math.min(end, at + MAX_NAME_LENGTH + 4)).indexOf(0x3a);
  return colon < 1
    ? undefined
    : bytes
        .toString('latin1', at, at + colon)
        .trimEnd()
        .toLowerCase();
}
