/**
 * DKIM signatures (RFC 6376, RFC 8463): relaxed/relaxed over the bytes as they are, whatever their character set, in time
 * linear in the size of the message. The private-key operation runs in the thread pool. What is handed in must be
 * canonical (CRLF alone, no NUL), because verifiers disagree about bare CR, bare LF and NUL: a message that is not, or
 * that has no or two From headers, is refused instead of signed in a way that some receiver would reject.
 */
import { createHash, generateKeyPair, sign, type KeyObject, hash, type Hash } from 'node:crypto';
import { promisify } from 'node:util';
import { isAscii } from 'node:buffer';
import { setImmediate } from 'node:timers/promises';

export type DkimAlgorithm = 'rsa' | 'ed25519';

export interface SigningKey {
  /** d=, the domain of the From header, as A-labels. */
  readonly domain: string;
  readonly selector: string;
  readonly algorithm: DkimAlgorithm;
  /** The private key, kept by the caller: parsing it from PEM costs more than half a signature. */
  readonly key: KeyObject;
}

/** Named once more than present, so that nobody can add another one later (RFC 6376 §5.4 and §8.15). */
const OVERSIGNED = ['From', 'To', 'Subject', 'Date', 'Reply-To', 'MIME-Version', 'Content-Type'];
const SIGNED_WHEN_PRESENT = [
  'Message-ID',
  'Cc',
  'In-Reply-To',
  'References',
  'Content-Transfer-Encoding',
  'List-Unsubscribe',
  'List-Unsubscribe-Post',
];

const signAsync = promisify(sign);
const generateKeyPairAsync = promisify(generateKeyPair);

/**
 * The `DKIM-Signature: …\r\n` lines to put in front of the message, one per key, in the order of the keys. `message` is
 * the whole message in chunks that may break anywhere; `now` is in milliseconds.
 */
export async function signDkim(
  message: readonly Uint8Array[],
  keys: readonly SigningKey[],
  now: number,
): Promise<Buffer> {
  const { fields, body } = splitMessage(message);
  return Buffer.from(await signFields({ fields, bodyHash: await hashWhole(body) }, keys, now), 'latin1');
}

/** What a signature is over: the fields in their order, and the body's bh= (dkim-body.ts). */
export interface Hashed {
  readonly fields: readonly HeaderField[];
  readonly bodyHash: string;
}

/** The same lines for a message that is not at hand as a whole. */
export async function signFields(message: Hashed, keys: readonly SigningKey[], now: number): Promise<string> {
  const from = message.fields.filter((field) => field.name === 'from').length;
  if (from !== 1) throw new Error(`a message with ${from} From headers is not signed`);
  const signed = selectFields(message.fields, [...OVERSIGNED, ...SIGNED_WHEN_PRESENT], OVERSIGNED);
  const { bodyHash } = message;
  const headers = await Promise.all(keys.map((key) => signature(key, { ...signed, bodyHash, now })));
  return headers.join('');
}

/** A new key: RSA with 2048 bits, or Ed25519. */
export async function generateDkimKey(algorithm: DkimAlgorithm): Promise<{
  /** PKCS #8 PEM. */
  privateKey: string;
  /** What stands after `p=` in DNS: base64 of the SubjectPublicKeyInfo (RFC 6376 §3.6.1), or of the 32 bytes (RFC 8463 §4). */
  publicKey: string;
}> {
  const { privateKey, publicKey } =
    algorithm === 'rsa'
      ? await generateKeyPairAsync('rsa', { modulusLength: 2048 })
      : await generateKeyPairAsync('ed25519', {});
  const spki = publicKey.export({ type: 'spki', format: 'der' });
  return {
    privateKey: privateKey.export({ type: 'pkcs8', format: 'pem' }).toString(),
    publicKey: (algorithm === 'rsa' ? spki : spki.subarray(-32)).toString('base64'),
  };
}

export interface SelectedFields {
  /** The h= tag's names. */
  readonly names: readonly string[];
  /** The canonical header fields in the order of `names`, each with its CRLF. */
  readonly canonical: string;
}

/**
 * All fields of these names. Of fields with one name the last is taken first (RFC 6376 §5.4.2); an `oversigned` name is
 * there once more, which signs its absence.
 */
export function selectFields(
  fields: readonly HeaderField[],
  wanted: readonly string[],
  oversigned: readonly string[] = [],
): SelectedFields {
  const byName = Map.groupBy(fields, ({ name }) => name);
  const names: string[] = [];
  let canonical = '';
  for (const name of wanted) {
    const present = byName.get(name.toLowerCase()) ?? [];
    const absent = oversigned.includes(name) ? 1 : 0;
    for (let i = 0; i < present.length + absent; i++) names.push(name);
    for (const field of present.toReversed()) canonical += `${relaxHeader(field)}\r\n`;
  }
  return { names, canonical };
}

async function signature(
  key: SigningKey,
  { names, canonical, bodyHash, now }: SelectedFields & { bodyHash: string; now: number },
): Promise<string> {
  const tags = [
    'v=1',
    `a=${key.algorithm}-sha256`,
    'c=relaxed/relaxed',
    `d=${key.domain}`,
    `s=${key.selector}`,
    `t=${Math.floor(now / 1000)}`,
    `bh=${bodyHash}`,
  ];
  return signHeader('DKIM-Signature', { tags, names, canonical }, key);
}

/** What a signature header says, and the canonical lines before its own that it is over. */
export interface Signed {
  /** In order, but for h= and b=. */
  readonly tags: readonly string[];
  /** The h= tag's; without it where there are none. */
  readonly names: readonly string[];
  readonly canonical: string;
}

/** The header with its signature, each line with its CRLF. */
export async function signHeader(name: string, signed: Signed, key: SigningKey): Promise<string> {
  const unsigned = unsignedValue(name, signed);
  const text = signed.canonical + relaxHeader({ name: name.toLowerCase(), value: unsigned });
  const data = Buffer.allocUnsafeSlow(text.length);
  data.write(text, 'latin1');
  // RFC 8463 §3: Ed25519 signs the SHA-256 hash of what RSA-SHA256 would hash itself.
  const bytes =
    key.algorithm === 'rsa'
      ? await signAsync('sha256', data, key.key)
      : await signAsync(null, createHash('sha256').update(data).digest(), key.key);
  // Node holds on to what was signed until the next full collection, and memory of that kind hastens it.
  data.buffer.transfer(0);
  const value = bytes.toString('base64');
  let folded = value.slice(0, 74);
  for (let at = 74; at < value.length; at += 74) folded += `\r\n ${value.slice(at, at + 74)}`;
  return `${name}:${unsigned}${folded}\r\n`;
}

/** The header's value up to and with `b=`, in lines of at most 78 characters (but for names that are longer themselves). */
function unsignedValue(header: string, { tags, names }: Signed): string {
  const list = names.map((name, i) => `${i === 0 ? 'h=' : ':'}${name}${i === names.length - 1 ? ';' : ''}`);
  let value = '';
  let room = 78 - `${header}:`.length;
  for (const [i, part] of [...tags.map((tag) => `${tag};`), ...list].entries()) {
    const space = i <= tags.length ? ' ' : '';
    if (part.length + space.length > room) {
      value += `\r\n ${part}`;
      room = 77 - part.length;
    } else {
      value += space + part;
      room -= part.length + space.length;
    }
  }
  return `${value}\r\n b=`;
}

// * The header block of a message as DKIM reads it. Text is Latin-1 here: one character is one byte, so that no character
// set is assumed and none is lost.

export interface HeaderField {
  /** Lower case. */
  readonly name: string;
  /** All that follows the colon, folds included, without the last CRLF. */
  readonly value: string;
}

const CRLF = '\r\n';
const END = '\r\n\r\n';

/** The header fields, and the body's chunks, which share the memory of the message. A message without END has no body. */
export function splitMessage(message: readonly Uint8Array[]): { fields: HeaderField[]; body: Uint8Array[] } {
  const parts: string[] = [];
  /** The end of what came before: END may be cut anywhere. */
  let tail = '';
  for (const [i, chunk] of message.entries()) {
    const bytes = Buffer.from(chunk.buffer, chunk.byteOffset, chunk.byteLength);
    const bodyStart = afterEnd(tail, bytes);
    const part = bytes.toString('latin1', 0, bodyStart);
    parts.push(part);
    if (bodyStart !== undefined) {
      const fields = parseFields(parts.join('').slice(0, -CRLF.length));
      return { fields, body: [chunk.subarray(bodyStart), ...message.slice(i + 1)] };
    }
    tail = (tail + part).slice(1 - END.length);
  }
  return { fields: parseFields(parts.join('')), body: [] };
}

/** Where the bytes after the first END begin, which may have begun in `tail`: the three characters before them, or fewer. */
export function afterEnd(tail: string, bytes: Buffer): number | undefined {
  const seam = (tail + bytes.toString('latin1', 0, END.length - 1)).indexOf(END);
  if (seam !== -1) return seam + END.length - tail.length;
  const at = bytes.indexOf(END, 0, 'latin1');
  return at === -1 ? undefined : at + END.length;
}

/** The fields of a header block. Throws on a line that verifiers would not agree about. */
export function parseFields(block: string): HeaderField[] {
  const lines = block.split(CRLF);
  if (lines.at(-1) === '') lines.pop();
  const fields: { name: string; lines: string[] }[] = [];
  for (const line of lines) {
    if (/[\r\n\0]/.test(line)) throw new Error('a header with a bare CR, a bare LF or a NUL is not signed');
    const previous = fields.at(-1);
    const name = /^[!-9;-~]+(?=:)/.exec(line)?.[0];
    if (name !== undefined) {
      fields.push({ name: name.toLowerCase(), lines: [line.slice(line.indexOf(':') + 1)] });
    } else if (previous !== undefined && /^[ \t]/.test(line)) {
      previous.lines.push(line);
    } else {
      throw new Error('a header line without a name and a colon is not signed');
    }
  }
  return fields.map(({ name, lines }) => ({ name, value: lines.join(CRLF) }));
}

/** `name:value` in the relaxed form, without a CRLF (RFC 6376 §3.4.2). Only SP and HTAB are white space. */
export function relaxHeader({ name, value }: HeaderField): string {
  // First every run becomes one space: cutting long runs off the end with a regular expression would be quadratic.
  const single = value.replaceAll(CRLF, '').replaceAll(/[ \t]{2,}|\t/g, ' ');
  const start = single.startsWith(' ') ? 1 : 0;
  const end = single.endsWith(' ') ? -1 : single.length;
  return `${name}:${single.slice(start, end)}`;
}

// The relaxed body hash of DKIM (RFC 6376 §3.4.4): one pass over bytes, constant memory, no character set.

const TAB = 0x09;
const LF = 0x0a;
const CR = 0x0d;
const SPACE = 0x20;
/** After so many bytes, a few milliseconds of work, the event loop gets a turn. */
const TURN = 1 << 20;
/** What is hashed at a time; small enough for Node to cut it from memory that it has at hand. */
const BLOCK = 2048;

const BLANKS = /[ \t]{2,}|\t/g;
const BARE = /\r(?!\n)|(?<!\r)\n/;

/** The same as `hashBody` for a body at hand: what we compose ourselves needs its runs of blanks shortened at most, in a third of the time. */
async function hashWhole(pieces: readonly Uint8Array[]): Promise<string> {
  const [only, second] = pieces;
  const whole = only !== undefined && second === undefined && only.length < TURN ? relaxed(only) : undefined;
  return whole === undefined ? hashBody(pieces) : hash('sha256', whole, 'base64');
}

/** The relaxed form; undefined where there is something to refuse, blanks at the end of a line or empty lines at that of the body. */
function relaxed(body: Uint8Array): string | Buffer | undefined {
  const text = Buffer.from(body.buffer, body.byteOffset, body.byteLength).toString('latin1');
  if (!/[^\n]\r\n$/.test(text.slice(-3)) || BARE.test(text) || text.includes('\0')) return undefined;
  const single = text.replaceAll(BLANKS, ' ');
  if (single.includes(' \r')) return undefined;
  return isAscii(body) ? single : Buffer.from(single, 'latin1');
}

/** The bh= tag's base64. Refuses bare CR, bare LF and NUL. */
export async function hashBody(chunks: Iterable<Uint8Array> | AsyncIterable<Uint8Array>): Promise<string> {
  const body = new RelaxedBody();
  let sinceTurn = 0;
  for await (const chunk of chunks) {
    for (let at = 0; at < chunk.length; at += TURN) {
      const piece = chunk.subarray(at, at + TURN);
      body.update(piece);
      sinceTurn += piece.length;
      if (sinceTurn >= TURN) {
        await setImmediate();
        sinceTurn = 0;
      }
    }
  }
  return body.digest();
}

class RelaxedBody {
  readonly #hash: Hash = createHash('sha256');
  readonly #out = Buffer.allocUnsafe(BLOCK);
  #used = 0;
  #empty = true;
  /** Line ends held back: empty lines at the end of the body do not count. */
  #lineEnds = 0;
  /** White space held back: a run is one space, and none at the end of its line. */
  #blank = false;
  #afterCr = false;

  update(chunk: Uint8Array): void {
    const out = this.#out;
    for (let i = 0; i < chunk.length;) {
      let byte = chunk[i++] ?? 0;
      this.#step(byte);
      if (byte <= SPACE) continue;
      // The rest of a word stands as it is.
      let used = this.#used;
      for (; i < chunk.length && used < BLOCK; i++) {
        byte = chunk[i] ?? 0;
        if (byte <= SPACE) break;
        out[used++] = byte;
      }
      this.#used = used;
    }
  }

  #step(byte: number): void {
    if (this.#afterCr !== (byte === LF) || byte === 0) refuse();
    if (byte === SPACE || byte === TAB) {
      this.#blank = true;
    } else if (byte === CR) {
      this.#afterCr = true;
    } else if (byte === LF) {
      this.#afterCr = false;
      this.#blank = false;
      this.#lineEnds++;
    } else {
      this.#take(byte);
    }
  }

  digest(): string {
    if (this.#afterCr) refuse();
    if (!this.#empty) {
      this.#put(CR);
      this.#put(LF);
    }
    this.#flush();
    return this.#hash.digest('base64');
  }

  #take(byte: number): void {
    this.#empty = false;
    for (; this.#lineEnds > 0; this.#lineEnds--) {
      this.#put(CR);
      this.#put(LF);
    }
    if (this.#blank) this.#put(SPACE);
    this.#blank = false;
    this.#put(byte);
  }

  #put(byte: number): void {
    if (this.#used === BLOCK) this.#flush();
    this.#out[this.#used++] = byte;
  }

  #flush(): void {
    this.#hash.update(this.#out.subarray(0, this.#used));
    this.#used = 0;
  }
}

function refuse(): never {
  throw new Error('a body with a bare CR, a bare LF or a NUL is not signed');
}
