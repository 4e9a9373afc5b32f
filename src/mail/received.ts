/** The trace of a message that we took (RFC 5321 §4.4): whatever a client says of itself, it is one field. */
import { isIPv6 } from 'node:net';
import { needsSmtpUtf8, parseAddress, parseDomain } from '../lib/addresses.ts';

export interface Arrival {
  readonly ip: string;
  /** The argument of EHLO, as it came. */
  readonly helo: string;
  /** `ESMTPS`, … (RFC 3848) */
  readonly protocol: string;
  /** `TLSv1.3`, … ; null for clear text. */
  readonly tls: string | null;
  /** Ours. */
  readonly hostname: string;
  /** Of the message, in our records. */
  readonly id: string;
  /** Whom it is for, where that is one address: of several each would learn of the others. Left out where it is not ASCII. */
  readonly recipient?: string | undefined;
  /** Milliseconds. */
  readonly at: number;
}

/** The `Received:` field, with its CRLF. */
export function receivedLine(arrival: Arrival): string {
  const { ip, helo, protocol, tls, hostname, id, recipient, at } = arrival;
  const literal = isIPv6(ip) ? `[IPv6:${ip}]` : `[${ip}]`;
  const name = parseDomain(helo);
  // Neither a domain nor this client's address: what it said stands in the comment alone.
  const from = name ?? literal;
  const said = name === undefined && helo !== literal ? ` helo=${printable(helo)}` : '';
  const address = recipient === undefined || needsSmtpUtf8(recipient) ? undefined : parseAddress(recipient)?.address;
  const lines = [
    `Received: from ${from} (${literal}${said})`,
    `by ${hostname} with ${protocol}${tls === null ? '' : ` (${printable(tls)})`} id ${id}`,
    ...(address === undefined ? [] : [`for <${address}>`]),
  ];
  // RFC 5322 §3.3; what toUTCString gives is fixed by ECMA-262.
  return `${lines.join('\r\n ')};\r\n ${new Date(at).toUTCString().replace('GMT', '+0000')}\r\n`;
}

/** Within a comment. */
function printable(text: string): string {
  return text.slice(0, 255).replaceAll(/[^!-'*-[\]-~]/g, '?');
}
