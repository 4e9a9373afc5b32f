/** The DNS records of a domain as a zone file, with what is in DNS today beside what should. */
import { printable } from './printable.ts';

/** A record to publish, and what was found of it. */
export interface ZoneRecord {
  readonly purpose: string;
  readonly type: string;
  readonly name: string;
  /** Unquoted, unsplit; empty: nothing to publish yet. */
  readonly value: string;
  readonly status: 'ok' | 'missing' | 'wrong' | 'duplicate' | 'unknown';
  readonly found: readonly string[];
  readonly problem?: string | undefined;
}

/** Seconds: a usual default of DNS consoles, and short enough to correct a mistake within the hour. */
export const TTL_SECONDS = 3600;
/** Bytes of one string of a TXT record (RFC 1035 §3.3.14). */
const MAX_STRING_BYTES = 255;

/** What is right already is commented out; of what nothing is to be published yet, a comment says why. */
export function zoneText({
  domain,
  records,
}: {
  readonly domain: string;
  readonly records: readonly ZoneRecord[];
}): string {
  return `; DNS records of ${domain} for Postern\n${records.map(entry).join('')}`;
}

function entry(record: ZoneRecord): string {
  const line = `${zoneLine(record)}\n`;
  const purpose = printable(record.purpose);
  if (record.status === 'ok') {
    const { found, value } = record;
    // The record found may differ and be right as well, such as a stronger policy.
    return found.includes(value)
      ? `; ${purpose}: already published\n; ${line}`
      : `; ${purpose}: already published: ${found.map(printable).join(' and ')}\n`;
  }
  if (record.value === '') return `; ${purpose}: ${withheld(record)}\n`;
  // It belongs in the zone of whoever has the address.
  if (record.type === 'PTR') return printable(`; ${purpose}: ${record.problem ?? ''} ${line.trimEnd()}`).concat('\n');
  // Ownership tokens of other accounts may exist beside ours. Of every other purpose there is one record.
  const isReplacing = record.found.length > 0 && record.purpose !== 'ownership';
  const why = isReplacing ? `: replaces ${record.found.map(printable).join(' and ')}` : '';
  return `; ${purpose}${why}\n${line}`;
}

/** Why there is nothing to add at a name, and what was found there. */
function withheld({ name, status, found, problem }: ZoneRecord): string {
  const next = status === 'unknown' ? ', check again' : '';
  const stands = found.map((text) => `found: ${text}; `).join('');
  return printable(`nothing to add at ${name} yet${next}; ${stands}${problem ?? 'not checked yet'}`);
}

/** `name. TTL IN TYPE data` on one line. */
export function zoneLine({ name, type, value }: Pick<ZoneRecord, 'name' | 'type' | 'value'>): string {
  return `${name}. ${TTL_SECONDS} IN ${type} ${type === 'TXT' ? txtData(value) : value}`;
}

/** Quoted strings of at most 255 bytes; whatever is not plain ASCII is written as \DDD. */
function txtData(value: string): string {
  const bytes = Buffer.from(value);
  const strings = Array.from({ length: Math.max(1, Math.ceil(bytes.length / MAX_STRING_BYTES)) }, (_, i) =>
    bytes.subarray(i * MAX_STRING_BYTES, (i + 1) * MAX_STRING_BYTES),
  );
  return strings.map((string) => `"${Array.from(string, character).join('')}"`).join(' ');
}

function character(byte: number): string {
  if (byte < 0x20 || byte > 0x7e) return `\\${String(byte).padStart(3, '0')}`;
  const sign = String.fromCharCode(byte);
  return sign === '"' || sign === '\\' ? `\\${sign}` : sign;
}
