/** The header lines that forwarding puts before a message: where it was delivered to, and its trace. */
import type { Dressed, Forward } from './forward-source.ts';

/** They end with the trace of the message, which is the oldest of them. */
export function dress({ source, inbound }: Forward): Promise<Dressed> {
  const delivered = Buffer.from(`Delivered-To: ${source.original}\r\n`).toString('latin1');
  return Promise.resolve({ lines: delivered + inbound.trace, from: 0 });
}
