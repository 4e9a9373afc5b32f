/**
 * Aggregate reports of other mail systems: on mail in the name of a domain (DMARC, RFC 7489 §7.2 and RFC 9990) and on TLS of
 * mail to it (TLSRPT, RFC 8460). Anybody can send one, so everything is bounded: parts, archive entries, bytes after
 * decompression and their ratio, elements, and the rows that come out. It is read in a thread that may be ended at any time.
 */
import { Readable } from 'node:stream';
import { createGunzip } from 'node:zlib';
import yauzl from 'yauzl';
import { messageOf } from '../lib/errors.ts';
import { ReportError, type AggregateReport } from './aggregate-rows.ts';
import { readDmarcReport } from './dmarc-report.ts';
import { contentOf, partsOf, withLf } from './report-parts.ts';
import { readTlsReport } from './received-tls-report.ts';

const MAX_CANDIDATES = 5;
const MAX_ENTRIES = 10;
const MAX_BYTES = 20 * 1024 * 1024;
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
  throw new ReportError('the archive has no report in it');
}

/** All that the stream gives, where it is not too much for so many packed bytes. */
async function inflated(stream: Readable, packed: number): Promise<Buffer> {
  const most = Math.min(MAX_BYTES, Math.max(MIN_BYTES, packed * MAX_RATIO));
  const chunks: Buffer[] = [];
  let size = 0;
  for await (const chunk of stream as AsyncIterable<Buffer>) {
    size += chunk.length;
    if (size > most) throw new ReportError('it is too large when unpacked');
    chunks.push(chunk);
  }
  return Buffer.concat(chunks);
}
