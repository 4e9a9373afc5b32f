/** DNS records as lines of a zone file (RFC 1035 §5.1), as BIND, NSD and Knot read them. */
import type { DnsRecord, Domain } from './domain-shapes.ts';
import { printable } from './table.ts';

/** Seconds: what consoles propose as well, and short enough to mend a mistake within the hour. */
export const TTL = 3600;
/** Bytes of one string of a TXT record (RFC 1035 §3.3.14). */
const LONGEST = 255;

/** What is right already is commented out; of what nothing is to be published yet, a comment says why. */
export function zoneText({ domain, records }: Pick<Domain, 'domain' | 'records'>): string {
  return `; DNS records of ${domain} for Postern\n${records.map(entry).join('')}`;
}

function entry(record: DnsRecord): string {
  const line = `${zoneLine(record)}\n`;
  const purpose = printable(record.purpose);
  if (record.status === 'ok') {
    const { found, value } = record;
    // What stands there may be another one that is right as well, such as a stronger policy.
    return found.includes(value)
      ? `; ${purpose}: stands already\n; ${line}`
      : `; ${purpose}: stands already: ${found.map(printable).join(' and ')}\n`;
  }
  if (record.value === '') return `; ${purpose}: ${withheld(record)}\n`;
  // Other tenants' tokens may stand beside ours; of everything else there may be one.
  const isReplacing = record.found.length > 0 && record.purpose !== 'ownership';
  const why = isReplacing ? `: in place of ${record.found.map(printable).join(' and of ')}` : '';
  return `; ${purpose}${why}\n${line}`;
}

/** Why nothing is to be published at a name, and what stands there as far as that is known. */
function withheld({ name, status, found, problem }: DnsRecord): string {
  const next = status === 'unknown' ? ', ask again' : '';
  const stands = found.map((text) => `there is: ${text}; `).join('');
  return printable(`nothing to publish at ${name} yet${next}; ${stands}${problem ?? 'nobody has looked so far'}`);
}

/** `name. TTL IN TYPE data` on one line. */
export function zoneLine({ name, type, value }: Pick<DnsRecord, 'name' | 'type' | 'value'>): string {
  return `${name}. ${TTL} IN ${type} ${type === 'TXT' ? txtData(value) : value}`;
}

/** Quoted strings of at most 255 bytes; whatever is not plain ASCII is written as \DDD. */
function txtData(value: string): string {
  const bytes = Buffer.from(value);
  const strings = Array.from({ length: Math.max(1, Math.ceil(bytes.length / LONGEST)) }, (_, i) =>
    bytes.subarray(i * LONGEST, (i + 1) * LONGEST),
  );
  return strings.map((string) => `"${Array.from(string, character).join('')}"`).join(' ');
}

function character(byte: number): string {
  if (byte < 0x20 || byte > 0x7e) return `\\${String(byte).padStart(3, '0')}`;
  const sign = String.fromCharCode(byte);
  return sign === '"' || sign === '\\' ? `\\${sign}` : sign;
}
