/**
 * The XML of a DMARC aggregate report (RFC 7489 appendix C, RFC 9990 appendix A). It is read as a stream: what is kept is
 * one record and the sums, not the document. Entities beyond the five of XML are an error, and a document type is none of ours.
 */
import { isIP } from 'node:net';
import { SaxesParser } from 'saxes';
import { parseDomain } from '../lib/addresses.ts';
import {
  ReportError,
  type AggregateReport,
  type Alignment,
  type Disposition,
  type DmarcRow,
} from './aggregate-rows.ts';

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
export function readDmarcReport(content: Buffer): AggregateReport {
  const head: Texts = new Map();
  const sums = new Map<string, DmarcRow>();
  let record: Texts = new Map();
  let signatures: Signature[] = [];
  const path: string[] = [];
  let text = '';
  let elements = 0;

  const parser = new SaxesParser({ xmlns: false, position: false });
  parser.on('doctype', () => {
    throw new ReportError('it has a document type');
  });
  parser.on('opentag', ({ name }) => {
    if (++elements > MAX_ELEMENTS) throw new ReportError('it has too many elements');
    if (path.length >= MAX_DEPTH) throw new ReportError('its elements are nested too deep');
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
