/**
 * Where the bytes of forwarded mail come from: header lines of ours, and then what came in, byte for byte. It is streamed
 * from the store, whatever its size; only our lines are made here, once.
 */
import { createGarbage } from '../lib/garbage.ts';
import { returnPath } from '../mail/bounce.ts';
import { forwardSender } from '../mail/srs.ts';
import { readVerdicts } from '../mail/verdicts.ts';
import type { Prepared, Source } from '../queue/interfaces.ts';
import { findInbound } from '../store/inbound.ts';
import { dress, type DressParts, type Forward } from './forward-dress.ts';
import { readForward } from './forward-shapes.ts';
import { openRaw } from './raw-message.ts';
import type { SrsKeys } from './srs-keys.ts';

export interface ForwardParts extends DressParts {
  readonly srs: SrsKeys;
}

/** The source of messages of the kind `forward`. */
export function createForwardSource(parts: ForwardParts): Source {
  const { store, desk, srs } = parts;
  const raw = { store, garbage: createGarbage() };

  /** Of a sender for whom nothing vouched no address is made that leads to him: he may never have sent it. */
  async function senderOf({ message, source, inbound }: Forward): Promise<string> {
    const hostname = desk.hostname();
    const ours = returnPath(message.id, { secret: desk.secret, hostname });
    if (source.sender !== '' && !readVerdicts(inbound.verdicts).vouched) return ours;
    await srs.renew();
    return forwardSender(source.sender, { secrets: srs.secrets(), hostname, now: desk.now() }, ours);
  }

  async function prepareFirst(forward: Forward): Promise<Prepared> {
    const { inbound, read } = forward;
    const { lines, from } = await dress(forward, parts);
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
