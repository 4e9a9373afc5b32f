/**
 * The parts of a multipart body (RFC 2046 §5.1.1, RFC 7578) as its bytes come in: one search for the boundary, no copy of
 * what stands between, nothing kept but a boundary's length and the headers of a part up to a limit. Whatever the bytes
 * are, each costs the same few nanoseconds.
 */
export interface PartHead {
  /** Of the field; undefined where the part has none. Names are bytes, one per character: their charset is not known yet. */
  readonly name: string | undefined;
  /** Of a file; undefined for a field. */
  readonly filename: string | undefined;
  /** The value of its Content-Type, or nothing. */
  readonly type: string;
}

export interface PartSink {
  /** A part begins. */
  part(head: PartHead): void;
  /** More of the part that began last. */
  data(chunk: Buffer): void;
  /** Whether there is no use in reading on. */
  readonly isStopped: boolean;
}

export type Fault = 'malformed' | 'long headers' | 'transfer encoding';

const MAX_HEADERS_BYTES = 16 * 1024;
const MAX_PADDING = 64;
/**
 * Lines that only begin like a boundary. RFC 2046 §5.1.1 forbids them in a part, so that an honest body has hardly one; each
 * costs as much as a thousand bytes.
 */
const MAX_NEAR_BOUNDARIES = 1000;
const END_OF_HEADERS = Buffer.from('\r\n\r\n');
const EMPTY = Buffer.alloc(0);

export class MultipartParser {
  readonly #delimiter: Buffer;
  readonly #sink: PartSink;
  #state: 'preamble' | 'line' | 'headers' | 'data' | 'closed' = 'preamble';
  #inPart = false;
  /** Not looked at, or the possible beginning of a sign. The first boundary needs no line break before it. */
  #rest: Buffer = Buffer.from('\r\n');
  #near = 0;
  #fault: Fault | undefined;

  constructor(boundary: string, sink: PartSink) {
    this.#delimiter = Buffer.from(`\r\n--${boundary}`, 'latin1');
    this.#sink = sink;
  }

  /** Takes more of the body; answers what is wrong with it. */
  write(chunk: Buffer): Fault | undefined {
    this.#rest = this.#rest.length === 0 ? chunk : Buffer.concat([this.#rest, chunk]);
    while (this.#fault === undefined && !this.#sink.isStopped && this.#step());
    return this.#fault;
  }

  /** The body is over; answers what is wrong with it. */
  end(): Fault | undefined {
    return this.#fault ?? (this.#state === 'closed' ? undefined : 'malformed');
  }

  /** False where more bytes are needed. */
  #step(): boolean {
    switch (this.#state) {
      case 'preamble':
      case 'data':
        return this.#search();
      case 'line':
        return this.#line();
      case 'headers':
        return this.#headers();
      case 'closed':
        this.#rest = EMPTY;
        return false;
    }
  }

  #search(): boolean {
    const at = this.#rest.indexOf(this.#delimiter);
    const end = at === -1 ? Math.max(0, this.#rest.length - this.#delimiter.length + 1) : at;
    this.#emit(this.#rest.subarray(0, end));
    this.#rest = this.#rest.subarray(at === -1 ? end : at + this.#delimiter.length);
    if (at !== -1) this.#state = 'line';
    return at !== -1;
  }

  #emit(bytes: Buffer): void {
    if (this.#inPart && bytes.length > 0) this.#sink.data(bytes);
  }

  /** What follows the boundary on its line: two hyphens at the very end, else nothing but blanks. */
  #line(): boolean {
    const rest = this.#rest;
    if (rest[0] === HYPHEN && rest[1] === HYPHEN) {
      this.#state = 'closed';
      return true;
    }
    let at = 0;
    while (at < MAX_PADDING && (rest[at] === SPACE || rest[at] === TAB)) at++;
    if (rest[at] === CR && rest[at + 1] === LF) {
      this.#rest = rest.subarray(at + 2);
      this.#state = 'headers';
      return true;
    }
    const open =
      at + 1 >= rest.length && (rest[at] === undefined || rest[at] === CR || (at === 0 && rest[0] === HYPHEN));
    if (open) return false;
    if (++this.#near > MAX_NEAR_BOUNDARIES) return this.#stop('malformed');
    this.#emit(this.#delimiter);
    this.#state = this.#inPart ? 'data' : 'preamble';
    return true;
  }

  #headers(): boolean {
    const none = this.#rest[0] === CR && this.#rest[1] === LF;
    const at = none ? -2 : this.#rest.indexOf(END_OF_HEADERS);
    if (at === -1 ? this.#rest.length > MAX_HEADERS_BYTES : at > MAX_HEADERS_BYTES) return this.#stop('long headers');
    if (at === -1) return false;
    const lines = none ? [] : this.#rest.toString('latin1', 0, at).split('\r\n');
    this.#rest = this.#rest.subarray(at + END_OF_HEADERS.length);
    const head = readHead(lines);
    if (typeof head === 'string') return this.#stop(head);
    this.#inPart = true;
    this.#state = 'data';
    this.#sink.part(head);
    return true;
  }

  #stop(fault: Fault): false {
    this.#fault = fault;
    return false;
  }
}

const [TAB, LF, CR, SPACE, HYPHEN] = [0x09, 0x0a, 0x0d, 0x20, 0x2d];

function readHead(lines: readonly string[]): PartHead | Fault {
  let disposition = '';
  let type = '';
  for (const line of lines) {
    const colon = line.indexOf(':');
    if (colon < 1) return 'malformed';
    const value = line.slice(colon + 1).trim();
    const name = line.slice(0, colon).trim().toLowerCase();
    if (name === 'content-disposition') disposition = value;
    else if (name === 'content-type') type = value;
    // RFC 7578 §4.7: deprecated; these say that nothing is encoded.
    else if (name === 'content-transfer-encoding' && !/^(?:7bit|8bit|binary)$/i.test(value)) return 'transfer encoding';
  }
  const parameters = readParameters(disposition);
  const extended = parameters.get('filename*');
  return {
    name: parameters.get('name'),
    filename: parameters.get('filename') ?? (extended === undefined ? undefined : readExtended(extended)),
    type,
  };
}

/** The parameters of a header value by lower-case name. In quotes a backslash escapes a quote alone: names may be Windows paths. */
function readParameters(value: string): Map<string, string> {
  const parameters = new Map<string, string>();
  let at = value.indexOf(';');
  while (at !== -1) {
    const equals = value.indexOf('=', at);
    if (equals === -1) break;
    const name = value
      .slice(at + 1, equals)
      .trim()
      .toLowerCase();
    let end: number;
    if (value[equals + 1] === '"') {
      end = equals + 2;
      while (end < value.length && (value[end] !== '"' || value[end - 1] === '\\')) end++;
      parameters.set(name, value.slice(equals + 2, end).replaceAll('\\"', '"'));
    } else {
      const next = value.indexOf(';', equals);
      end = next === -1 ? value.length : next;
      parameters.set(name, value.slice(equals + 1, end).trim());
    }
    at = value.indexOf(';', end);
  }
  return parameters;
}

/** The `filename*` of RFC 8187, which RFC 7578 forbids and some libraries send all the same, as bytes. */
function readExtended(value: string): string | undefined {
  const encoded = /^utf-8'[^']*'(.*)$/i.exec(value)?.[1];
  try {
    return encoded === undefined ? undefined : Buffer.from(decodeURIComponent(encoded)).toString('latin1');
  } catch {
    return undefined;
  }
}
