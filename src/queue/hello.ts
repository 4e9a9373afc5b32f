/** EHLO, or HELO where the server knows no extensions (RFC 5321 §3.2), and what the server says that it can do. */
import type { Reply } from './reply.ts';
import type { Limit, Wire } from './wire.ts';

export interface Features {
  readonly pipelining: boolean;
  readonly eightBit: boolean;
  readonly smtpUtf8: boolean;
  readonly startTls: boolean;
  /** The largest message; 0 where there is no fixed limit, undefined where SIZE is unknown (RFC 1870). */
  readonly size: number | undefined;
  /** Mechanisms of AUTH. */
  readonly auth: readonly string[];
}

/** Introduces us as `hostname`. Rejects with WireFault. */
export async function sayHello(
  wire: Wire,
  hostname: string,
  limit: Limit,
): Promise<{ reply: Reply; features: Features }> {
  wire.send(`EHLO ${hostname}\r\n`);
  const reply = await wire.read('ehlo', limit);
  if (reply.code < 500 || reply.code >= 600) return { reply, features: readFeatures(reply.lines.slice(1)) };
  wire.send(`HELO ${hostname}\r\n`);
  return { reply: await wire.read('ehlo', limit), features: readFeatures([]) };
}

function readFeatures(lines: readonly string[]): Features {
  const offered = new Map(
    lines.map((line) => {
      // Some old servers write AUTH=LOGIN.
      const [keyword = '', ...parameters] = line.trim().toUpperCase().split(/[ =]+/);
      return [keyword, parameters] as const;
    }),
  );
  const size = offered.get('SIZE')?.[0] ?? '';
  return {
    pipelining: offered.has('PIPELINING'),
    eightBit: offered.has('8BITMIME'),
    smtpUtf8: offered.has('SMTPUTF8'),
    startTls: offered.has('STARTTLS'),
    size: offered.has('SIZE') ? (/^\d{1,15}$/.test(size) ? Number(size) : 0) : undefined,
    auth: offered.get('AUTH') ?? [],
  };
}
