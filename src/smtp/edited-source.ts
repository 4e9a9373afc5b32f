/**
 * Where the bytes of mail come from that goes out in the name of a domain of ours: its body as it came, its header edited,
 * signed with the domain's keys; streamed, whatever its size.
 */
import { isAscii } from 'node:buffer';
import { z } from 'zod';
import { createGarbage } from '../lib/gc.ts';
import { returnPath } from '../mail/return-path.ts';
import { hashBody, parseFields, signFields } from '../mail/dkim.ts';
import type { SigningContext } from '../mail/sign.ts';
import { withoutForgedResults } from '../mail/forward.ts';
import { splitHeader } from '../mail/header-block.ts';
import { completeHeader } from '../mail/submitted.ts';
import type { Prepared, Source } from '../queue/transport.ts';
import { findInbound } from '../store/inbound.ts';
import type { InboundRow, MessageRow } from '../store/tables.ts';
import type { Store } from '../store/store.ts';
import { openRaw, type ReadFrom } from './chunks.ts';

const source = z.object({ raw: z.string() });

interface Waiting {
  readonly message: MessageRow;
  readonly inbound: InboundRow;
  readonly read: ReadFrom;
}

export interface EditedSourceParts {
  readonly store: Store;
  readonly signing: SigningContext;
  /** The header as it is sent, one character a byte, each line with its CRLF. */
  readonly edit: (header: string, message: MessageRow) => string;
}

/** The source of mail that programs submitted. */
export function createSubmittedSource(parts: Omit<EditedSourceParts, 'edit'>): Source {
  return createEditedSource({
    ...parts,
    edit: (header, { id, domain, created_at: date }) =>
      completeHeader(withoutForgedResults(header, parts.signing.hostname()), {
        date,
        messageId: `<${id.slice(id.indexOf('_') + 1)}@${domain}>`,
      }),
  });
}

/** The source of messages whose `source` names where their bytes are. */
export function createEditedSource({ store, signing, edit }: EditedSourceParts): Source {
  const raw = { store, garbage: createGarbage() };
  async function prepareFirst({ message, inbound, read }: Waiting): Promise<Prepared> {
    const { id, domain, tenant } = message;
    const keys = await signing.keysOf(domain, tenant);
    if (keys.length === 0) throw new Error(`there is no DKIM key for ${domain}`);
    const { header: given } = await splitHeader(read(0));
    const header = edit(given, message);
    // A message may end with its header.
    const from = Math.min(given.length + '\r\n'.length, inbound.size);
    const hashed = { fields: parseFields(header), bodyHash: await hashBody(read(from)) };
    const prefix = Buffer.from(`${await signFields(hashed, keys, signing.now())}${header}\r\n`, 'latin1');
    return {
      kind: 'streamed',
      sender: returnPath(id, { secret: signing.secret, hostname: signing.hostname() }),
      size: prefix.length + inbound.size - from,
      // An address in a line of ours may need more of the way than what came in.
      encoding: !isAscii(prefix) && isAscii(Buffer.from(given, 'latin1')) ? 'smtputf8' : inbound.encoding,
      prefix,
      pieces: () => read(from),
    };
  }

  return {
    async prepare(message, kept) {
      const inbound = await findInbound(store, source.parse(JSON.parse(message.source)).raw);
      if (inbound === undefined) return { kind: 'unrenderable', reason: 'what came in is not kept any more' };
      const read = await openRaw(raw, inbound);
      if (kept === undefined) return prepareFirst({ message, inbound, read });
      const { sender, size, encoding } = message;
      const from = inbound.size - (size - kept.length);
      return { kind: 'streamed', sender: sender ?? '', size, encoding, prefix: kept, pieces: () => read(from) };
    },
  };
}
