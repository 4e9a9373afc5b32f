/**
 * Replies of an SMTP server (RFC 5321 §4.2) from bytes that arrive in any portions. What it keeps is bounded: a line of
 * more than 2 KiB, a reply of more than 16 KiB or a line without a code ends the conversation.
 */

export interface Reply {
  readonly code: number;
  /** The enhanced status code (RFC 3463) where the text begins with one of the same class. */
  readonly enhanced?: string;
  /** The text of each line, without the codes' first three digits, printable. */
  readonly lines: readonly string[];
}

/** The other side does not speak SMTP. */
export class ProtocolError extends Error {
  override readonly name = 'ProtocolError';
}

const MOST_LINE = 2048;
const MOST_REPLY = 16_384;
const LF = 0x0a;
const LINE = /^([2-9]\d\d)(?:([ -])(.*))?$/s;
const ENHANCED = /^([245])\.\d{1,3}\.\d{1,3}(?= |$)/;

export class ReplyParser {
  #rest: Buffer = Buffer.alloc(0);
  #lines: string[] = [];
  #size = 0;

  /** Takes bytes and answers the replies that they complete. Throws ProtocolError. */
  push(bytes: Buffer): Reply[] {
    const replies: Reply[] = [];
    let buffer = this.#rest.length === 0 ? bytes : Buffer.concat([this.#rest, bytes]);
    for (let end = buffer.indexOf(LF); end !== -1; end = buffer.indexOf(LF)) {
      const reply = this.#line(buffer.subarray(0, end));
      if (reply !== undefined) replies.push(reply);
      buffer = buffer.subarray(end + 1);
    }
    if (buffer.length > MOST_LINE) throw new ProtocolError(`a reply line of more than ${MOST_LINE} bytes`);
    // A copy of the little that is left, so that the large buffer of the socket can go.
    this.#rest = Buffer.from(buffer);
    return replies;
  }

  /** Whether nothing of an unfinished reply is held: at STARTTLS it must not be (RFC 3207 §4, CVE-2011-0411). */
  get isEmpty(): boolean {
    return this.#rest.length === 0 && this.#lines.length === 0;
  }

  #line(bytes: Buffer): Reply | undefined {
    this.#size += bytes.length;
    if (bytes.length > MOST_LINE) throw new ProtocolError(`a reply line of more than ${MOST_LINE} bytes`);
    if (this.#size > MOST_REPLY) throw new ProtocolError(`a reply of more than ${MOST_REPLY} bytes`);
    const text = printable(bytes.toString('utf8').replace(/\r$/, ''));
    const [, code, separator, rest = ''] = LINE.exec(text) ?? [];
    if (code === undefined) throw new ProtocolError(`not a reply: ${text.slice(0, 200)}`);
    this.#lines.push(rest);
    if (separator === '-') return undefined;
    const lines = this.#lines;
    this.#lines = [];
    this.#size = 0;
    const enhanced = ENHANCED.exec(lines[0] ?? '')?.[0];
    return {
      code: Number(code),
      lines,
      ...(enhanced === undefined || enhanced[0] !== code[0] ? {} : { enhanced }),
    };
  }
}

/** The reply on one line, as it stands in attempts and logs: `550 5.1.1 no such user`. */
export function replyText({ code, lines, enhanced }: Reply): string {
  // Each line of a long reply repeats the enhanced code (RFC 2034 §4); once is enough.
  const texts = lines.map((line, i) =>
    i > 0 && enhanced !== undefined && line.startsWith(`${enhanced} `) ? line.slice(enhanced.length + 1) : line,
  );
  return `${code} ${texts.join(' ')}`.trim().slice(0, 1000);
}

function printable(text: string): string {
  return text.replaceAll(/\p{Cc}/gu, ' ');
}
