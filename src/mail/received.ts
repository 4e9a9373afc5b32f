/** The trace of a message that we took (RFC 5321 §4.4): whatever a client says of itself, it is one field. */
import { isIPv6 } from 'node:net';
import { needsSmtpUtf8, parseDomain } from '../lib/addresses.ts';
import { mailDate } from './header-text.ts';

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
  /** Whom it is for; told where that is one address alone, in ASCII: of several each would learn of the others. */
  readonly recipients: readonly { readonly original: string }[];
  /** Milliseconds. */
  readonly at: number;
}

/** The `Received:` field, with its CRLF. */
export function receivedLine(arrival: Arrival): string {
  const { ip, helo, protocol, tls, hostname, id, recipients, at } = arrival;
  const literal = isIPv6(ip) ? `[IPv6:${ip}]` : `[${ip}]`;
  const name = parseDomain(helo);
  // Neither a domain nor this client's address: what it said stands in the comment alone.
  const from = name ?? literal;
  const said = name === undefined && helo !== literal ? ` helo=${printable(helo)}` : '';
  const [recipient, ...others] = recipients;
  const isTold = recipient !== undefined && others.length === 0 && !needsSmtpUtf8(recipient.original);
  const lines = [
    `Received: from ${from} (${literal}${said})`,
    `by ${hostname} with ${protocol}${tls === null ? '' : ` (${printable(tls)})`} id ${id}`,
    ...(isTold ? [`for <${recipient.original}>`] : []),
  ];
  return `${lines.join('\r\n ')};\r\n ${mailDate(at)}\r\n`;
}

/** Within a comment. */
function printable(text: string): string {
  return text.slice(0, 255).replaceAll(/[^!-'*-[\]-~]/g, '?');
}
