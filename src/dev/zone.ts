/**
 * A DNS zone as plain data, and what an authoritative server says of it: exact names first, then wildcards, CNAMEs
 * followed inside the zone, names that only have names below them told apart from names that are not there. A fault makes
 * a name fail the way real servers do.
 */
import type { Answer, RecordType } from 'dns-packet';

type ZoneType = 'A' | 'AAAA' | 'CNAME' | 'MX' | 'NS' | 'PTR' | 'TXT';

export type ZoneRecord =
  | {
      /** `example.test`, or a wildcard: `*.example.test`, `*` for every name that nothing else stands for. */
      readonly name: string;
      readonly type: ZoneType;
      /** As in a zone file, unquoted: `10 mail.example.test` for an MX, `0 .` for a null MX. A TXT of any length. */
      readonly value: string;
      /** Seconds; 60 unless told. */
      readonly ttl?: number;
    }
  | {
      readonly name: string;
      readonly fault: 'SERVFAIL' | 'REFUSED' | 'SILENT';
      /** The one type that fails; every type unless told. */
      readonly only?: ZoneType;
    };

export type ZoneAnswer =
  | { readonly rcode: 'NOERROR' | 'NXDOMAIN'; readonly answers: Answer[] }
  | { readonly rcode: 'SERVFAIL' | 'REFUSED' | 'SILENT' };

const MOST_CNAMES = 8;

/** What the zone says to one question. */
export function askZone(zone: readonly ZoneRecord[], name: string, type: RecordType): ZoneAnswer {
  const answers: Answer[] = [];
  let owner = name;
  for (let step = 0; step <= MOST_CNAMES; step++) {
    const here = standingFor(zone, owner.toLowerCase().replace(/\.$/, ''));
    if (here === undefined) return { rcode: 'NXDOMAIN', answers };
    const fault = here.find((record) => 'fault' in record && (record.only === undefined || record.only === type));
    if (fault !== undefined && 'fault' in fault) return { rcode: fault.fault };
    const rows = here.filter((record) => 'type' in record);
    const asked = rows.filter((record) => record.type === type);
    const alias = rows.find((record) => record.type === 'CNAME');
    if (asked.length > 0 || alias === undefined) {
      return { rcode: 'NOERROR', answers: [...answers, ...asked.map((record) => answerOf(record, owner))] };
    }
    answers.push(answerOf(alias, owner));
    owner = alias.value;
  }
  // Recursive resolvers give up on a loop this way.
  return { rcode: 'SERVFAIL' };
}

/**
 * The records that answer for a name: its own, else the nearest wildcard's; none at all if the name does not exist. Unlike
 * RFC 4592 a wildcard stands for a name that only has names below it, too: `*` is every name that nobody wrote down.
 */
function standingFor(zone: readonly ZoneRecord[], name: string): readonly ZoneRecord[] | undefined {
  const labels = name.split('.');
  const wildcards = labels.map((_, i) => ['*', ...labels.slice(i + 1)].join('.'));
  for (const owner of [name, ...wildcards]) {
    const here = zone.filter((record) => record.name.toLowerCase() === owner);
    if (here.length > 0) return here;
  }
  return zone.some((record) => record.name.toLowerCase().endsWith(`.${name}`)) ? [] : undefined;
}

function answerOf({ type, value, ttl = 60 }: Extract<ZoneRecord, { type: string }>, name: string): Answer {
  switch (type) {
    case 'TXT':
      return { name, ttl, type, data: characterStrings(value) };
    case 'MX': {
      const [preference = '0', exchange = '.'] = value.split(/\s+/);
      return { name, ttl, type, data: { preference: Number(preference), exchange } };
    }
    case 'A':
    case 'AAAA':
    case 'CNAME':
    case 'NS':
    case 'PTR':
      return { name, ttl, type, data: value };
  }
}

/** A TXT record holds strings of at most 255 octets (RFC 1035 §3.3). */
function characterStrings(value: string): Buffer[] {
  const bytes = Buffer.from(value);
  const parts: Buffer[] = [];
  for (let at = 0; at === 0 || at < bytes.length; at += 255) parts.push(bytes.subarray(at, at + 255));
  return parts;
}
