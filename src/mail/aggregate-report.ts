/**
 * Aggregate reports of other mail systems: on mail in the name of a domain (DMARC, RFC 7489 §7.2 and RFC 9990) and on TLS of
 * mail to it (TLSRPT, RFC 8460). Anybody can send one, so everything is bounded: parts, archive entries, bytes after
 * decompression and their ratio, elements, and the rows that come out. It is read in a thread that may be ended at any time.
 */
import { isIP } from 'node:net';
import { Readable } from 'node:stream';
import { createGunzip } from 'node:zlib';
import { SaxesParser } from 'saxes';
import yauzl from 'yauzl';
import * as z from 'zod';
import { parseDomain } from '../lib/addresses.ts';
import { messageOf } from '../lib/errors.ts';
import { contentOf, partsOf, withLf } from './report-parts.ts';

const MAX_CANDIDATES = 5;
const MAX_ENTRIES = 10;
const MAX_UNPACKED_BYTES = 20 * 1024 * 1024;
const MAX_RATIO = 200;
/** Below this the ratio does not matter. */
const MIN_BYTES = 1024 * 1024;

/** Reads the report in a message. Never rejects for what the message holds. */
export async function readAggregateReport(message: Uint8Array): Promise<AggregateReport> {
  const { buffer, byteOffset, length } = message;
  const text = withLf(Buffer.from(buffer, byteOffset, length).toString('latin1'));
  const candidates = partsOf(text)
    .leaves.map(contentOf)
    .filter((content) => kindOf(content) !== undefined)
    .slice(0, MAX_CANDIDATES);
  let reason = 'it has no report attached';
  for (const content of candidates) {
    try {
      return readReport(await unpacked(content));
    } catch (error) {
      reason = messageOf(error);
    }
  }
  return { kind: 'unreadable', reason };
}

function readReport(content: Buffer): AggregateReport {
  switch (kindOf(content)) {
    case 'xml':
      return readDmarcReport(content);
    case 'json':
      return readTlsReport(content);
    default:
      throw new ReportError('the attachment is neither XML nor JSON');
  }
}

/** By its first bytes: types and names of attachments are wrong too often. */
function kindOf(content: Buffer): 'gzip' | 'zip' | 'xml' | 'json' | undefined {
  if (content[0] === 0x1f && content[1] === 0x8b) return 'gzip';
  if (content.subarray(0, 4).toString('latin1') === 'PK\x03\x04') return 'zip';
  const start = content
    .subarray(0, 200)
    .toString('utf8')
    .replace(/^\uFEFF?\s*/, '');
  if (/^<(?:\?xml|!--|(?:[\w.-]{1,50}:)?feedback)[\s>/-]/.test(start)) return 'xml';
  return start.startsWith('{') ? 'json' : undefined;
}

async function unpacked(content: Buffer): Promise<Buffer> {
  switch (kindOf(content)) {
    case 'gzip':
      return inflated(Readable.from([content]).pipe(createGunzip()), content.length);
    case 'zip':
      return unzipped(content);
    default:
      return content;
  }
}

/** The first entry that is a report. */
async function unzipped(archive: Buffer): Promise<Buffer> {
  // Names mean nothing here.
  const zip = await yauzl.fromBufferPromise(archive, { decodeStrings: false });
  let seen = 0;
  for await (const entry of zip.eachEntry()) {
    if (++seen > MAX_ENTRIES) break;
    if (entry.compressedSize === 0 || !entry.canDecodeFileData()) continue;
    const content = await inflated(await zip.openReadStreamPromise(entry), entry.compressedSize);
    const kind = kindOf(content);
    if (kind === 'xml' || kind === 'json') return content;
  }
  throw new ReportError('the archive contains no report');
}

/** All that the stream gives, where it is not too much for so many packed bytes. */
async function inflated(stream: Readable, packed: number): Promise<Buffer> {
  const most = Math.min(MAX_UNPACKED_BYTES, Math.max(MIN_BYTES, packed * MAX_RATIO));
  const chunks: Buffer[] = [];
  let size = 0;
  for await (const chunk of stream as AsyncIterable<Buffer>) {
    size += chunk.length;
    if (size > most) throw new ReportError('it is too large when unpacked');
    chunks.push(chunk);
  }
  return Buffer.concat(chunks);
}

// The XML of a DMARC aggregate report (RFC 7489 appendix C, RFC 9990 appendix A). It is read as a stream: what is kept is
// one record and the sums, not the document. Entities beyond the five of XML are an error, and a document type is none of ours.

const MAX_DEPTH = 12;
const MAX_ELEMENTS = 1_000_000;
const MAX_TEXT_LENGTH = 500;
/** Rows of a report; what is less than these is summed up without its source. */
const MAX_DMARC_ROWS = 500;
/** Different rows that are summed up while it is read. */
const MAX_DISTINCT = 50_000;
const MAX_COUNT = 1_000_000_000;
/** Of one record. */
const MAX_SIGNATURES = 20;
/** Bytes that are parsed in one piece. */
const PIECE = 64 * 1024;

/** The texts of one part of the report, by the path of their element; of several DKIM signatures the one that matters most. */
type Texts = Map<string, string>;

interface Signature {
  domain: string;
  result: string;
}

/** Reads it. Throws ReportError, or the parser's error, where it is none. */
function readDmarcReport(content: Buffer): AggregateReport {
  const head: Texts = new Map();
  const sums = new Map<string, DmarcRow>();
  let record: Texts = new Map();
  let signatures: Signature[] = [];
  const path: string[] = [];
  let text = '';
  let elements = 0;

  const parser = new SaxesParser({ xmlns: false, position: false });
  parser.on('doctype', () => {
    throw new ReportError('it has a document type declaration');
  });
  parser.on('opentag', ({ name }) => {
    if (++elements > MAX_ELEMENTS) throw new ReportError('it has too many elements');
    if (path.length >= MAX_DEPTH) throw new ReportError('its elements are nested too deeply');
    path.push(name.slice(name.indexOf(':') + 1));
    text = '';
    const at = path.join('/');
    if (at === 'feedback/record') {
      record = new Map();
      signatures = [];
    }
    if (at === 'feedback/record/auth_results/dkim' && signatures.length < MAX_SIGNATURES)
      signatures.push({ domain: '', result: '' });
  });
  parser.on('text', (more) => {
    if (text.length < MAX_TEXT_LENGTH) text += more.slice(0, MAX_TEXT_LENGTH);
  });
  parser.on('closetag', () => {
    const at = path.join('/');
    path.pop();
    const value = text.trim();
    text = '';
    const signature = signatures.at(-1);
    if (at === 'feedback/record') add(sums, rowOf(record, signatures, domainOf(head)));
    else if (at === 'feedback/record/auth_results/dkim/domain' && signature !== undefined) signature.domain = value;
    else if (at === 'feedback/record/auth_results/dkim/result' && signature !== undefined) signature.result = value;
    else if (at.startsWith(RECORD)) remember(record, at.slice(RECORD.length), value);
    else if (at.startsWith('feedback/')) remember(head, at.slice('feedback/'.length), value);
  });

  const decoder = new TextDecoder();
  for (let start = 0; start < content.length; start += PIECE)
    parser.write(decoder.decode(content.subarray(start, start + PIECE), { stream: true }));
  parser.write(decoder.decode()).close();

  const domain = domainOf(head);
  const id = head.get('report_metadata/report_id') ?? '';
  const begin = secondsOf(head.get('report_metadata/date_range/begin'));
  const end = secondsOf(head.get('report_metadata/date_range/end'));
  if (domain === undefined || id === '' || begin === undefined || end === undefined || end < begin)
    throw new ReportError('its domain, id or time is missing');
  return { kind: 'dmarc', id, begin, end, domain, rows: most([...sums.values()], domain) };
}

const RECORD = 'feedback/record/';

/** The first of its name counts; a part that repeats itself for ever costs nothing. */
function remember(texts: Texts, name: string, value: string): void {
  if (value !== '' && !texts.has(name) && texts.size < 50) texts.set(name, value);
}

function domainOf(head: Texts): string | undefined {
  return parseDomain(head.get('policy_published/domain') ?? '');
}

/** Seconds since the epoch, as ms. */
function secondsOf(text = ''): number | undefined {
  return /^\d{1,11}$/.test(text) ? Number(text) * 1000 : undefined;
}

/** Undefined where the record says nothing of mail of the domain. */
function rowOf(record: Texts, signatures: readonly Signature[], domain: string | undefined): DmarcRow | undefined {
  const [digits = ''] = /^\d{1,10}$/.exec(record.get('row/count') ?? '') ?? [];
  const count = Number(digits);
  const source = record.get('row/source_ip') ?? '';
  if (domain === undefined || count < 1 || count > MAX_COUNT || isIP(source) === 0) return undefined;
  const from = parseDomain(record.get('identifiers/header_from') ?? '') ?? domain;
  if (from !== domain && !from.endsWith(`.${domain}`)) return undefined;
  const signature = bestOf(signatures, from);
  const spf = record.get('auth_results/spf/result')?.toLowerCase();
  return {
    from,
    source: source.toLowerCase(),
    disposition: dispositionOf(record.get('row/policy_evaluated/disposition')),
    dkim: alignmentOf(record.get('row/policy_evaluated/dkim'), signature?.result),
    spf: alignmentOf(record.get('row/policy_evaluated/spf'), spf),
    dkim_domain: parseDomain(signature?.domain ?? '') ?? '',
    spf_domain: parseDomain(record.get('auth_results/spf/domain') ?? '') ?? '',
    count,
  };
}

/** A signature that is valid, of the author's domain if there is one. */
function bestOf(signatures: readonly Signature[], from: string): Signature | undefined {
  const valid = signatures.filter(({ result }) => result.toLowerCase() === 'pass');
  const near = valid.find(({ domain }) => {
    const name = domain.toLowerCase();
    return name === from || from.endsWith(`.${name}`) || name.endsWith(`.${from}`);
  });
  return near ?? valid[0] ?? signatures[0];
}

/** `pass` (RFC 9990) is mail that passed, to which no policy applied. */
function dispositionOf(text = ''): Disposition {
  const word = text.toLowerCase();
  return word === 'quarantine' || word === 'reject' ? word : 'none';
}

/** `evaluated`: with alignment. `result`: of the check itself (RFC 8601 §2.7). */
function alignmentOf(evaluated = '', result = ''): Alignment {
  if (evaluated.toLowerCase() === 'pass') return 'aligned';
  const word = result.toLowerCase();
  if (word === 'pass') return 'unaligned';
  return word === '' || word === 'none' ? 'none' : 'failed';
}

function add(sums: Map<string, DmarcRow>, row: DmarcRow | undefined): void {
  if (row === undefined) return;
  const { count, ...kind } = row;
  const key = Object.values(kind).join(' ');
  const before = sums.get(key);
  if (before === undefined && sums.size >= MAX_DISTINCT) throw new ReportError('it has too many different records');
  sums.set(key, { ...row, count: Math.min(MAX_COUNT, count + (before?.count ?? 0)) });
}

/** The rows with the most mail, and the sums of the others without their source. */
function most(rows: readonly DmarcRow[], domain: string): DmarcRow[] {
  const sorted = [...rows].sort((one, other) => other.count - one.count);
  const rest = new Map<string, DmarcRow>();
  for (const row of sorted.slice(MAX_DMARC_ROWS))
    add(rest, { ...row, from: domain, source: '', dkim_domain: '', spf_domain: '' });
  return [...sorted.slice(0, MAX_DMARC_ROWS), ...rest.values()];
}

// The JSON of a TLS report (RFC 8460 §4): how often mail servers could or could not connect to a domain's by TLS.

/** Its parse tree takes many times as much memory. */
const MAX_TLS_REPORT_BYTES = 2 * 1024 * 1024;
const MAX_POLICIES = 100;
const MAX_FAILURES = 100;

const count = z.int().min(0).max(MAX_COUNT).catch(0);
const moment = z.string().transform((text, context) => {
  const at = Date.parse(text);
  if (!Number.isNaN(at)) return at;
  context.addIssue({ code: 'custom', message: 'must be a time' });
  return z.NEVER;
});

const report = z.object({
  'report-id': z.string().min(1),
  'date-range': z.object({ 'start-datetime': moment, 'end-datetime': moment }),
  policies: z.array(
    z.object({
      policy: z.object({
        'policy-type': z.enum(['tlsa', 'sts', 'no-policy-found']).catch('no-policy-found'),
        'policy-domain': z.string(),
      }),
      summary: z.object({ 'total-successful-session-count': count, 'total-failure-session-count': count }),
      'failure-details': z
        .array(
          z.object({
            'result-type': z
              .string()
              .regex(/^[a-z][a-z-]{1,50}$/)
              .catch('validation-failure'),
            'receiving-mx-hostname': z.string().catch(''),
            'failed-session-count': count,
          }),
        )
        .catch([]),
    }),
  ),
});

type Policy = z.output<typeof report>['policies'][number];

/** Reads it. Throws ReportError where it is none. */
function readTlsReport(content: Buffer): AggregateReport {
  if (content.length > MAX_TLS_REPORT_BYTES) throw new ReportError('it is too large when unpacked');
  const { data } = report.safeParse(parse(content));
  if (data === undefined) throw new ReportError('it is not a TLS report (RFC 8460)');
  const { 'start-datetime': begin, 'end-datetime': end } = data['date-range'];
  if (end < begin) throw new ReportError('it ends before it begins');
  const rows = data.policies.slice(0, MAX_POLICIES).flatMap(rowsOf);
  return { kind: 'tls', id: data['report-id'], begin, end, rows };
}

function parse(content: Buffer): unknown {
  try {
    return JSON.parse(content.toString('utf8').replace(/^\uFEFF/, ''));
  } catch {
    throw new ReportError('it is not valid JSON');
  }
}

/** Failures that it counts and does not explain are `unspecified`. */
function rowsOf({ policy, summary, 'failure-details': details }: Policy): TlsRow[] {
  const domain = parseDomain(policy['policy-domain']);
  if (domain === undefined) return [];
  const about = { domain, policy: policy['policy-type'] };
  const failures = details.slice(0, MAX_FAILURES).map((failure) => ({
    ...about,
    result: failure['result-type'],
    mx: parseDomain(failure['receiving-mx-hostname']) ?? '',
    count: failure['failed-session-count'],
  }));
  const explained = failures.reduce((sum, failure) => sum + failure.count, 0);
  const rest = summary['total-failure-session-count'] - explained;
  return [
    { ...about, result: 'success', mx: '', count: summary['total-successful-session-count'] },
    ...failures,
    { ...about, result: 'unspecified', mx: '', count: Math.max(0, rest) },
  ].filter((row) => row.count > 0);
}

// What an aggregate report of another mail system says, row by row: as it is read, and as it is kept.

/** What the domain's policy asked of mail that is counted in a row. */
const DISPOSITIONS = ['none', 'quarantine', 'reject'] as const;
/** `aligned`: it passed for the author's domain. `unaligned`: for another one. `none`: there was nothing to check. */
const ALIGNMENTS = ['aligned', 'unaligned', 'failed', 'none'] as const;

type Disposition = (typeof DISPOSITIONS)[number];
type Alignment = (typeof ALIGNMENTS)[number];

/** Mail of one kind from one address. */
interface DmarcRow {
  /** The author's domain: that of the report, or one below it. */
  readonly from: string;
  /** IP address; empty for all of the sources for which there was no room. */
  readonly source: string;
  readonly disposition: Disposition;
  readonly dkim: Alignment;
  readonly spf: Alignment;
  /** The domain of the signature; empty where there is none. */
  readonly dkim_domain: string;
  /** The domain that SPF was checked for; empty where there is none. */
  readonly spf_domain: string;
  readonly count: number;
}

/** Connections to a domain that ended in one way. */
interface TlsRow {
  readonly domain: string;
  /** `tlsa`, `sts` or `no-policy-found`. */
  readonly policy: string;
  /** `success`, or the type of the failure (RFC 8460 §4.3). */
  readonly result: string;
  /** The mail server that was connected to; empty where the report does not say. */
  readonly mx: string;
  readonly count: number;
}

interface About {
  /** As its sender names it, unique for the sender. */
  readonly id: string;
  /** The time that it is about, ms. */
  readonly begin: number;
  readonly end: number;
}

export type AggregateReport =
  | ({ readonly kind: 'dmarc'; readonly domain: string; readonly rows: readonly DmarcRow[] } & About)
  | ({ readonly kind: 'tls'; readonly rows: readonly TlsRow[] } & About)
  | { readonly kind: 'unreadable'; readonly reason: string };

/** Why a report cannot be read, in words. */
class ReportError extends Error {
  override readonly name = 'ReportError';
}
