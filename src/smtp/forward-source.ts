/**
 * Where the bytes of forwarded mail come from: header lines of ours, and then what came in, byte for byte. It is streamed
 * from the store, whatever its size; only our lines are made here, once.
 */
import { z } from 'zod';
import { createGarbage } from '../lib/gc.ts';
import { returnPath } from '../mail/return-path.ts';
import { forwardSender } from '../mail/srs.ts';
import { readAuthResults, needsFromRewrite, type AuthResults } from '../mail/auth-results.ts';
import type { Prepared, Source } from '../queue/transport.ts';
import { findInbound } from '../store/inbound.ts';
import type { InboundRow, MessageRow } from '../store/tables.ts';
import { openRaw, type ReadFrom } from './chunks.ts';
import type { SrsKeys } from './srs-keys.ts';
import type { ServerConfig } from '../config/schema.ts';
import { arcSeal } from '../mail/arc.ts';
import { hashBody, parseFields, type HeaderField, signFields, type Hashed } from '../mail/dkim.ts';
import type { SigningContext } from '../mail/sign.ts';
import { forwardHeaders, rewriteFrom, withoutForgedResults } from '../mail/forward.ts';
import { fieldsOf, splitHeader, valueOf } from '../mail/header-block.ts';
import { deliveriesOfMessage } from '../store/deliveries.ts';
import type { Store } from '../store/store.ts';

export interface ForwardParts extends ForwardHeaderParts {
  readonly srs: SrsKeys;
}

/** The source of messages of the kind `forward`. */
export function createForwardSource(parts: ForwardParts): Source {
  const { store, signing, srs } = parts;
  const raw = { store, garbage: createGarbage() };

  /** Of a sender for whom nothing vouched no address is made that leads to him: he may never have sent it. */
  async function senderOf({ message, source, inbound }: Forward): Promise<string> {
    const hostname = signing.hostname();
    const ours = returnPath(message.id, { secret: signing.secret, hostname });
    if (source.sender !== '' && !readAuthResults(inbound.verdicts).vouched) return ours;
    await srs.renew();
    return forwardSender(source.sender, { secrets: srs.secrets(), hostname, now: signing.now() }, ours);
  }

  async function prepareFirst(forward: Forward): Promise<Prepared> {
    const { inbound, read } = forward;
    const { lines, from } = await editHeader(forward, parts);
    const prefix = Buffer.from(lines, 'latin1');
    return {
      kind: 'streamed',
      sender: await senderOf(forward),
      size: prefix.length + inbound.size - from,
      encoding: inbound.encoding,
      prefix,
      pieces: () => read(from),
    };
  }

  return {
    async prepare(message, kept) {
      const source = readForward(message.source);
      const inbound = await findInbound(store, source.inbound);
      if (inbound === undefined) return { kind: 'unrenderable', reason: 'what came in is not kept any more' };
      const read = await openRaw(raw, inbound);
      if (kept === undefined) return prepareFirst({ message, source, inbound, read });
      const { sender, size, encoding } = message;
      const from = inbound.size - (size - kept.length);
      return { kind: 'streamed', sender: sender ?? '', size, encoding, prefix: kept, pieces: () => read(from) };
    },
  };
}

// * What stands before a message that is forwarded: the ARC set, where it came to and goes on to, and its trace. What came
// in follows byte for byte; its header is edited only where a line of it claims to be ours, or where DMARC would refuse
// it at the next server under its author's name: then it names our domain, which signs it.

/** What is to be forwarded. */
export interface Forward {
  readonly message: MessageRow;
  readonly source: ForwardSource;
  readonly inbound: InboundRow;
  readonly read: ReadFrom;
}

export interface ForwardHeaderParts {
  readonly store: Store;
  readonly signing: SigningContext;
  readonly config: () => Pick<ServerConfig, 'inbound'>;
}

/** What stands before the rest of the message as it is sent on. */
export interface EditedHeader {
  /** Header lines, one character a byte. */
  readonly lines: string;
  /** Where the rest begins in what came in, bytes; all before it is in `lines`. */
  readonly from: number;
}

/** The CRLF between header and body. */
const EMPTY_LINE = 2;

/** The same for all targets. Rejects where the message cannot be read for now. */
async function editHeader(forward: Forward, parts: ForwardHeaderParts): Promise<EditedHeader> {
  const { message, source, inbound, read } = forward;
  const { store, signing, config } = parts;
  const verdicts = readAuthResults(inbound.verdicts);
  const { header } = await splitHeader(read(0));
  const honest = withoutForgedResults(header, signing.hostname());
  const rewrites = config().inbound.from_rewrite === 'auto' && needsFromRewrite(verdicts);
  const shown = rewrites ? rewriteFrom(honest, message.domain) : honest;
  const targets = (await deliveriesOfMessage(store, message.id)).map(({ recipient }) => recipient);
  const ours = forwardHeaders({ original: source.original, targets }) + inbound.trace;
  const bodyAt = header.length + EMPTY_LINE;
  const signatures = await sign({ header: ours + shown, bodyAt, isAuthor: shown !== honest, verdicts }, forward, parts);
  const lines = signatures + ours;
  return shown === header ? { lines, from: 0 } : { lines: lines + shown, from: header.length };
}

interface Unsigned {
  readonly header: string;
  readonly bodyAt: number;
  /** Whether our domain is the author that it names. */
  readonly isAuthor: boolean;
  readonly verdicts: AuthResults;
}

/** Our signature where we are the author, and the ARC set; nothing of a header that verifiers would read in many ways. */
async function sign(
  { header, bodyAt, isAuthor, verdicts }: Unsigned,
  { message, inbound, read }: Forward,
  { signing, config }: ForwardHeaderParts,
): Promise<string> {
  const { seal } = config().inbound.arc;
  const fields = isAuthor || seal ? readable(header) : undefined;
  if (fields === undefined) return '';
  const hashed: Hashed = { fields, bodyHash: await hashBody(read(bodyAt)) };
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

function readable(header: string): HeaderField[] | undefined {
  try {
    return parseFields(header);
  } catch {
    return undefined;
  }
}

// What accepting writes as JSON for a message that is forwarded, and delivering reads again: one place says the shape.

const forward = z.object({
  /** `inb_…`, whose pieces are the message. */
  inbound: z.string(),
  /** The recipient as it was named in RCPT, at a domain of ours; what stands in Delivered-To. */
  original: z.string(),
  /** The envelope sender as it came; empty for the null sender. */
  sender: z.string(),
});

/** `messages.source` of the kind `forward`: one message for each original recipient. */
export type ForwardSource = z.output<typeof forward>;

export function readForward(json: string): ForwardSource {
  return forward.parse(JSON.parse(json));
}
