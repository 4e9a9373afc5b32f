/**
 * Where the bytes of mail come from that came in and goes on: header lines of ours, and then what came in, streamed from the
 * store, whatever its size. Forwarded mail is the same byte for byte but for a line that claims to be ours, and a From that
 * DMARC would refuse at the next server: then it names our domain, which signs it. Mail in the name of a domain of ours
 * (submitted, or a reply) has an edited header, and the domain's signature.
 */
import { isAscii } from 'node:buffer';
import { z } from 'zod';
import { createBufferCollector, type BufferCollector } from '../lib/gc.ts';
import { returnPath, forwardSender } from '../mail/own-addresses.ts';
import { readAuthResults, needsFromRewrite, type AuthResults } from '../mail/auth-results.ts';
import type { Source } from '../queue/transport.ts';
import { findInbound, rawChunks, RAW_CHUNK_BYTES } from '../store/inbound.ts';
import type { InboundRow, MessageRow } from '../store/tables.ts';
import type { SrsKeys } from './srs-keys.ts';
import type { ServerConfig } from '../config/schema.ts';
import { messageIdOf, type Field, fieldsOf, splitHeader, valueOf } from '../mail/header.ts';
import { arcSeal, hashBody, keysFor, parseFields, signFields, type SigningContext } from '../mail/dkim.ts';
import { forwardHeaders, rewriteFrom, withoutForgedResults } from '../mail/forward.ts';
import { completeHeader } from '../mail/submitted.ts';
import { deliveriesOfMessage } from '../store/messages.ts';
import type { Store } from '../store/store.ts';

export interface SourceParts {
  readonly store: Store;
  readonly signing: SigningContext;
}

interface Original {
  readonly message: MessageRow;
  readonly inbound: InboundRow;
  readonly read: ReadFrom;
}

/** What is sent in the place of the first bytes of what came in. */
interface Head {
  readonly sender: string;
  readonly encoding: InboundRow['encoding'];
  /** Header lines, one character a byte. */
  readonly lines: string;
  /** Where the rest begins in what came in, bytes. */
  readonly from: number;
}

/** `idOf`: the inbound message (`inb_…`) that a message's `source` names. `headOf` is asked once; every retry sends the same. */
function createSource(
  store: Store,
  idOf: (source: string) => string,
  headOf: (original: Original) => Promise<Head>,
): Source {
  const usedBuffers = createBufferCollector();
  return {
    async prepare(message, kept) {
      const inbound = await findInbound(store, idOf(message.source));
      if (inbound === undefined) return { kind: 'unrenderable', reason: 'the original message has been deleted' };
      const read = await openRaw(store, inbound, usedBuffers);
      if (kept !== undefined) {
        const { sender, size, encoding } = message;
        const from = inbound.size - (size - kept.length);
        return { kind: 'streamed', sender: sender ?? '', size, encoding, prefix: kept, pieces: () => read(from) };
      }
      const { sender, encoding, lines, from } = await headOf({ message, inbound, read });
      const prefix = Buffer.from(lines, 'latin1');
      const size = prefix.length + inbound.size - from;
      return { kind: 'streamed', sender, size, encoding, prefix, pieces: () => read(from) };
    },
  };
}

const EMPTY_LINE = '\r\n';
const editedSource = z.object({ raw: z.string() });

/**
 * The source of messages that go out in the name of a domain of ours. `edit` answers the header as it is sent, one character
 * a byte, each line with its CRLF.
 */
export function createEditedSource({
  store,
  signing,
  edit,
}: SourceParts & { readonly edit: (header: string, message: MessageRow) => string }): Source {
  return createSource(
    store,
    (json) => editedSource.parse(JSON.parse(json)).raw,
    async ({ message, inbound, read }) => {
      const keys = await keysFor(message, signing);
      const { header: given } = await splitHeader(read(0));
      const header = edit(given, message);
      // A message may end with its header.
      const from = Math.min(given.length + EMPTY_LINE.length, inbound.size);
      const hashed = { fields: parseFields(header), bodyHash: await hashBody(read(from)) };
      const lines = `${await signFields(hashed, keys, signing.now())}${header}${EMPTY_LINE}`;
      // An address in a line of ours may need more of the next server than what came in.
      const isUtf8 = !isAscii(Buffer.from(lines, 'latin1')) && isAscii(Buffer.from(given, 'latin1'));
      const encoding = isUtf8 ? 'smtputf8' : inbound.encoding;
      const sender = returnPath(message.id, { secret: signing.secret, hostname: signing.hostname() });
      return { sender, encoding, lines, from };
    },
  );
}

/** The source of mail that programs submitted. */
export function createSubmittedSource(parts: SourceParts): Source {
  return createEditedSource({
    ...parts,
    edit: (header, message) =>
      completeHeader(withoutForgedResults(header, parts.signing.hostname()), {
        date: message.created_at,
        messageId: messageIdOf(message),
      }),
  });
}

export interface ForwardParts extends SourceParts {
  readonly config: () => Pick<ServerConfig, 'inbound'>;
  readonly srs: SrsKeys;
}

/** The source of messages of the kind `forward`. */
export function createForwardSource(parts: ForwardParts): Source {
  return createSource(
    parts.store,
    (json) => readForward(json).inbound,
    async (original) => {
      const { message, inbound, read } = original;
      const { header } = await splitHeader(read(0));
      const honest = withoutForgedResults(header, parts.signing.hostname());
      const verdicts = readAuthResults(inbound.verdicts);
      const rewrites = parts.config().inbound.from_rewrite === 'auto' && needsFromRewrite(verdicts);
      const shown = rewrites ? rewriteFrom(honest, message.domain) : honest;
      const targets = (await deliveriesOfMessage(parts.store, message.id)).map(({ recipient }) => recipient);
      const ours = forwardHeaders({ original: readForward(message.source).original, targets }) + inbound.trace;
      const bodyAt = header.length + EMPTY_LINE.length;
      const unsigned = { header: ours + shown, bodyAt, isAuthor: shown !== honest, verdicts };
      const lines = (await sign(unsigned, original, parts)) + ours;
      const rest = shown === header ? { lines, from: 0 } : { lines: lines + shown, from: header.length };
      return { ...rest, sender: await senderOf(original, verdicts, parts), encoding: inbound.encoding };
    },
  );
}

/** Of a sender for whom nothing vouched no address is made that leads to him: he may never have sent it. */
async function senderOf(
  { message }: Original,
  { vouched }: AuthResults,
  { signing, srs }: ForwardParts,
): Promise<string> {
  const { sender } = readForward(message.source);
  const hostname = signing.hostname();
  function ours(): string {
    return returnPath(message.id, { secret: signing.secret, hostname });
  }
  if (sender !== '' && !vouched) return ours();
  await srs.renew();
  return forwardSender(sender, { secrets: srs.secrets(), hostname, now: signing.now() }, ours);
}

/**
 * Our signature where our domain is the author that the header names, and the ARC set; nothing of a header that verifiers
 * would read in many ways.
 */
async function sign(
  {
    header,
    bodyAt,
    isAuthor,
    verdicts,
  }: { readonly header: string; readonly bodyAt: number; readonly isAuthor: boolean; readonly verdicts: AuthResults },
  { message, inbound, read }: Original,
  { signing, config }: ForwardParts,
): Promise<string> {
  const { seal } = config().inbound.arc;
  const fields = isAuthor || seal ? readable(header) : undefined;
  if (fields === undefined) return '';
  const hashed = { fields, bodyHash: await hashBody(read(bodyAt)) };
  const signature = isAuthor
    ? await signFields(hashed, await signing.keysOf(message.domain, message.tenant), signing.now())
    : '';
  const hostKeys = seal ? await signing.keysOf(signing.hostname(), message.tenant) : [];
  const key = hostKeys.find(({ algorithm }) => algorithm === 'rsa');
  const found = fieldsOf(inbound.trace).find(({ name }) => name === 'authentication-results');
  if (key === undefined || found === undefined) return signature;
  const sealed = { ...hashed, fields: [...parseFields(signature), ...fields] };
  const chain = verdicts.arc.result;
  return (await arcSeal(sealed, { chain, results: valueOf(found), key, now: signing.now() })) + signature;
}

function readable(header: string): Field[] | undefined {
  try {
    return parseFields(header);
  } catch {
    return undefined;
  }
}

const forward = z.object({
  /** `inb_…`, whose pieces are the message. */
  inbound: z.string(),
  /** The recipient as it was named in RCPT, at a domain of ours; what is in Delivered-To. */
  original: z.string(),
  /** The envelope sender as it came; empty for the null sender. */
  sender: z.string(),
});

/** `messages.source` of the kind `forward`: one message for each original recipient. */
export type ForwardSource = z.output<typeof forward>;

export function readForward(json: string): ForwardSource {
  return forward.parse(JSON.parse(json));
}

/** Reads it from byte `from` on, the same at each call; it fails where a piece is missing. */
type ReadFrom = (from: number) => Iterable<Uint8Array> | AsyncIterable<Uint8Array>;

/** A small message is read once and held, a larger one is read from the store piece by piece, each time anew. */
async function openRaw(store: Store, inbound: InboundRow, usedBuffers: BufferCollector): Promise<ReadFrom> {
  if (inbound.size > RAW_CHUNK_BYTES) return (from) => discarded(piecesFrom(store, inbound, from), usedBuffers);
  const held: Uint8Array[] = [];
  for await (const piece of piecesFrom(store, inbound, 0)) held.push(piece);
  return (from) => [Buffer.concat(held).subarray(from)];
}

async function* discarded(pieces: AsyncIterable<Uint8Array>, usedBuffers: BufferCollector): AsyncGenerator<Uint8Array> {
  for await (const piece of pieces) {
    yield piece;
    usedBuffers.add(piece.length);
  }
}

async function* piecesFrom(store: Store, { id, size }: InboundRow, from: number): AsyncGenerator<Uint8Array> {
  let at = 0;
  for await (const piece of rawChunks(store, id)) {
    const skip = Math.max(0, from - at);
    at += piece.length;
    if (skip < piece.length) yield piece.subarray(skip);
  }
  // Whoever sends it must not come to its end as if all had been said.
  if (at !== size) throw new Error(`only ${at} of the ${size} bytes of ${id} were found`);
}
