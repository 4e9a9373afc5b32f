/**
 * DKIM signatures (RFC 6376, RFC 8463): relaxed/relaxed over the bytes as they are, whatever their character set, in time
 * linear in the size of the message. The private-key operation runs in the thread pool. What is handed in must be
 * canonical (CRLF alone, no NUL), because verifiers disagree about bare CR, bare LF and NUL: a message that is not, or
 * that has no or two From headers, is refused instead of signed in a way that some receiver would reject.
 */
import { createHash, generateKeyPair, sign, type KeyObject } from 'node:crypto';
import { setImmediate } from 'node:timers/promises';
import { promisify } from 'node:util';
import type { AuthResults } from './auth-results.ts';
import { fieldsOf, splitHeader, tagsOf, valueOf, type Field } from './header.ts';

export type DkimAlgorithm = 'rsa' | 'ed25519';

export interface SigningKey {
  /** d=, the domain of the From header, as A-labels. */
  readonly domain: string;
  readonly selector: string;
  readonly algorithm: DkimAlgorithm;
  /** The private key, kept by the caller: parsing it from PEM costs more than half a signature. */
  readonly key: KeyObject;
}

/** The keys of a domain that sign a tenant's mail, all of them; none where it has none. */
export type KeysOf = (domain: string, tenant: string) => Promise<readonly SigningKey[]>;

/** What does not change from mail to mail. */
export interface SigningContext {
  readonly keysOf: KeysOf;
  /** Of the return paths. */
  readonly secret: KeyObject;
  readonly hostname: () => string;
  /** Milliseconds. */
  readonly now: () => number;
}

/** The keys that sign a message. Rejects where there is none: unsigned mail would be refused or, worse, believed less for ever. */
export async function keysFor(
  { domain, tenant }: { readonly domain: string; readonly tenant: string },
  { keysOf }: SigningContext,
): Promise<readonly SigningKey[]> {
  const keys = await keysOf(domain, tenant);
  if (keys.length === 0) throw new Error(`there is no DKIM key for ${domain}`);
  return keys;
}

/** Named once more than present, so that nobody can add another one later (RFC 6376 §5.4 and §8.15). */
const OVERSIGNED = 'From:To:Subject:Date:Reply-To:MIME-Version:Content-Type'.split(':');
const SIGNED_WHEN_PRESENT =
  'Message-ID:Cc:In-Reply-To:References:Content-Transfer-Encoding:List-Unsubscribe:List-Unsubscribe-Post'.split(':');

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
  const { header, body } = await splitHeader(message);
  const hashed = { fields: parseFields(header), bodyHash: await hashBody(body) };
  return Buffer.from(await signFields(hashed, keys, now), 'latin1');
}

/** What a signature is over: the fields in their order, and the body's bh=. */
interface Hashed {
  readonly fields: readonly Field[];
  readonly bodyHash: string;
}

/** The same lines for a message that is not at hand as a whole. */
export async function signFields(message: Hashed, keys: readonly SigningKey[], now: number): Promise<string> {
  const from = message.fields.filter((field) => field.name === 'from').length;
  if (from !== 1) throw new Error(`a message with ${from} From headers is not signed`);
  const signed = selectFields(message.fields, [...OVERSIGNED, ...SIGNED_WHEN_PRESENT], OVERSIGNED);
  const headers = keys.map((key) =>
    signHeader('DKIM-Signature', { ...signed, tags: ['v=1', ...messageTags(message, key, now)] }, key),
  );
  return (await Promise.all(headers)).join('');
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

/**
 * All fields of these names. Of fields with one name the last is taken first (RFC 6376 §5.4.2); an `oversigned` name is
 * there once more, which signs its absence. `canonical` is those fields in the order of `names`, each with its CRLF.
 */
function selectFields(
  fields: readonly Field[],
  wanted: readonly string[],
  oversigned: readonly string[] = [],
): Pick<Signed, 'names' | 'canonical'> {
  const byName = Map.groupBy(fields, ({ name }) => name);
  const selected = wanted.map((name) => ({ name, present: byName.get(name.toLowerCase()) ?? [] }));
  return {
    names: selected.flatMap(({ name, present }) => [
      ...present.map(() => name),
      ...(oversigned.includes(name) ? [name] : []),
    ]),
    canonical: selected.flatMap(({ present }) => present.toReversed().map(relaxed)).join(''),
  };
}

/** The tags of a signature over a message that follow the first one, but for h= and b=. */
function messageTags({ bodyHash }: Hashed, { algorithm, domain, selector }: SigningKey, now: number): string[] {
  const time = `t=${Math.floor(now / 1000)}`;
  return [`a=${algorithm}-sha256`, 'c=relaxed/relaxed', `d=${domain}`, `s=${selector}`, time, `bh=${bodyHash}`];
}

interface Signed {
  /** In order, but for h= and b=. */
  readonly tags: readonly string[];
  /** The h= tag's; without it where there are none. */
  readonly names: readonly string[];
  /** The lines before its own that it is over. */
  readonly canonical: string;
}

/** The header with its signature, each line with its CRLF. */
async function signHeader(name: string, signed: Signed, key: SigningKey): Promise<string> {
  const unsigned = unsignedValue(name, signed);
  const text = signed.canonical + relaxed({ name: name.toLowerCase(), text: `${name}:${unsigned}` }).slice(0, -2);
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

/** A bare CR, a bare LF or a NUL. */
const FORBIDDEN = /\r(?!\n)|(?<!\r)\n|\0/;

/** The fields of a header block. Throws on a line that verifiers would not agree about. */
export function parseFields(block: string): Field[] {
  const fields = fieldsOf(block);
  for (const { text } of fields) {
    if (FORBIDDEN.test(text)) throw new Error('a header with a bare CR, a bare LF or a NUL is not signed');
    if (!/^[!-9;-~]+:/.test(text)) throw new Error('a header line without a name and a colon is not signed');
  }
  return fields;
}

/** `name:value` in the relaxed form, with its CRLF (RFC 6376 §3.4.2). Only SP and HTAB are white space. */
function relaxed(field: Field): string {
  // First every run becomes one space: cutting long runs off the end with a regular expression would be quadratic.
  const single = valueOf(field).replaceAll(CRLF, '').replaceAll(BLANKS, ' ');
  return `${field.name}:${single.replace(/^ /, '').replace(/ $/, '')}\r\n`;
}

const CRLF = '\r\n';
const BLANKS = /[ \t]{2,}|\t/g;
/** After so many bytes, a few milliseconds of work, the event loop gets a turn. */
const TURN_BYTES = 1 << 20;
const MAX_LINE_ENDS_AT_ONCE = 4096;

/**
 * The bh= tag's base64: the relaxed form of the body (RFC 6376 §3.4.4) in linear time and constant memory, wherever the
 * chunks break. Refuses bare CR, bare LF and NUL.
 */
export async function hashBody(chunks: Iterable<Uint8Array> | AsyncIterable<Uint8Array>): Promise<string> {
  const body = createHash('sha256');
  let isEmpty = true;
  /** Empty lines at the end of the body do not count: line ends are held back. */
  let lineEnds = 0;
  /** What may be the beginning of a line end. */
  let tail = '';

  function update(bytes: Uint8Array): void {
    const text = tail + Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength).toString('latin1');
    const cr = text.endsWith('\r') ? '\r' : '';
    const whole = cr === '' ? text : text.slice(0, -1);
    if (FORBIDDEN.test(whole)) throw new Error('a body with a bare CR, a bare LF or a NUL is not signed');
    const relaxed = whole.replaceAll(BLANKS, ' ').replaceAll(' \r\n', CRLF);
    const blank = relaxed.endsWith(' ') ? ' ' : '';
    const lines = relaxed.length - blank.length;
    let end = lines;
    while (end > 0 && relaxed[end - 1] === '\n') end -= CRLF.length;
    tail = blank + cr;
    if (end > 0) {
      isEmpty = false;
      for (; lineEnds > 0; lineEnds -= MAX_LINE_ENDS_AT_ONCE)
        body.update(CRLF.repeat(Math.min(lineEnds, MAX_LINE_ENDS_AT_ONCE)));
      lineEnds = 0;
      body.update(relaxed.slice(0, end), 'latin1');
    }
    lineEnds += (lines - end) / CRLF.length;
  }

  let sinceTurn = 0;
  for await (const chunk of chunks) {
    for (let at = 0; at < chunk.length; at += TURN_BYTES) {
      const piece = chunk.subarray(at, at + TURN_BYTES);
      update(piece);
      sinceTurn += piece.length;
      if (sinceTurn < TURN_BYTES) continue;
      await setImmediate();
      sinceTurn = 0;
    }
  }
  if (tail.endsWith('\r')) throw new Error('a body with a bare CR, a bare LF or a NUL is not signed');
  return (isEmpty ? body : body.update(CRLF)).digest('base64');
}

// The ARC set (RFC 8617) of what is forwarded: what we saw when it came, sealed, so that the next server may believe us
// where forwarding breaks SPF. The private-key operations run in the thread pool.

interface Seal {
  /** What the chain was found to be when the message came. */
  readonly chain: AuthResults['arc']['result'];
  /** The value of our Authentication-Results. */
  readonly results: string;
  /** RSA: validators know no other (RFC 8617 §4.1.3 with RFC 8301). */
  readonly key: SigningKey;
  /** Milliseconds. */
  readonly now: number;
}

/** RFC 8617 §4.2.1 */
const MAX_SETS = 50;
const ARC_SIGNED = (
  'From:Sender:Reply-To:Subject:Date:Message-ID:To:Cc:MIME-Version:Content-Type:Content-Transfer-Encoding:' +
  'In-Reply-To:References:List-Id:List-Unsubscribe:List-Unsubscribe-Post:DKIM-Signature'
).split(':');

/** In the order in which a seal is over them (RFC 8617 §5.1.1). */
const SET = ['arc-authentication-results', 'arc-message-signature', 'arc-seal'];

/**
 * The three fields to put in front of the message, each line with its CRLF; nothing where the chain is closed, full, or
 * could not be judged. `message` is what goes out, without them.
 */
export async function arcSeal(message: Hashed, { chain, results, key, now }: Seal): Promise<string> {
  const sets = setsOf(message.fields);
  const last = Math.max(0, ...sets.keys());
  const closed = sets.get(last)?.some((field) => field.name === 'arc-seal' && tagOf(field, 'cv') === 'fail') ?? false;
  if (chain === 'temperror' || closed || last >= MAX_SETS || key.algorithm !== 'rsa') return '';
  const i = `i=${last + 1}`;
  const found = `ARC-Authentication-Results: ${i};${results}\r\n`;
  const tags = [i, ...messageTags(message, key, now)];
  const signature = await signHeader(
    'ARC-Message-Signature',
    { ...selectFields(message.fields, ARC_SIGNED), tags },
    key,
  );
  // A seal of a chain that has failed vouches for itself alone (§5.1.2).
  const before =
    chain === 'pass' ? Array.from({ length: last }, (_, at) => inOrder(sets.get(at + 1) ?? [])).flat() : [];
  const canonical = [...before, ...fieldsOf(found + signature)].map(relaxed).join('');
  const time = `t=${Math.floor(now / 1000)}`;
  const sealTags = [i, 'a=rsa-sha256', time, `cv=${chain}`, `d=${key.domain}`, `s=${key.selector}`];
  const seal = await signHeader('ARC-Seal', { tags: sealTags, names: [], canonical }, key);
  return seal + signature + found;
}

/** The sets that stand on the message, by instance. */
function setsOf(fields: readonly Field[]): Map<number, Field[]> {
  const sets = Map.groupBy(
    fields.filter(({ name }) => SET.includes(name)),
    (field) => Number(tagOf(field, 'i')),
  );
  return new Map([...sets].filter(([instance]) => Number.isInteger(instance) && instance > 0));
}

function inOrder(set: readonly Field[]): Field[] {
  return SET.flatMap((name) => set.filter((field) => field.name === name));
}

function tagOf(field: Field, name: string): string | undefined {
  return tagsOf(field).get(name)?.toLowerCase();
}
