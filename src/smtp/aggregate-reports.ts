/**
 * Aggregate reports that come to `reports@<hostname>`: on DMARC and on TLS, about domains of this server. A report is taken
 * with 250 and read later, in a thread of its own; that it was read and what it says are one unit, so that it counts once,
 * also after a crash.
 *
 * Anybody can send one, and make up what it says. It counts as the word of the domain that SPF or DKIM authenticates, and how
 * much there is of a domain and a day is bounded, in all and by reporter.
 */
import { createHash } from 'node:crypto';
import { clientBucket, type Limits } from '../accounts/rate-limits.ts';
import type { ServerConfig } from '../config/schema.ts';
import { parseAddress } from '../lib/addresses.ts';
import type { Clock } from '../lib/clock.ts';
import { errorFields } from '../lib/errors.ts';
import type { Log } from '../lib/log.ts';
import type { AggregateReport } from '../mail/aggregate-report.ts';
import { readAuthResults, type AuthResults } from '../mail/auth-results.ts';
import { fieldsOf, splitHeader, valueOf } from '../mail/header.ts';
import {
  addDmarcResult,
  addTlsResult,
  agedReportDays,
  claimUnreadReport,
  countReportRows,
  countUnreadReports,
  deleteUnreadReport,
  dropReportBytes,
  forgetReportDay,
  insertUnreadReport,
  noteReceivedReport,
} from '../store/aggregate-reports.ts';
import { domainOwners } from '../store/domains.ts';
import { findInbound, rawChunks } from '../store/inbound.ts';
import type { Statement } from '../store/statement.ts';
import { UnmetError, type Store } from '../store/store.ts';
import type { UnreadReportRow } from '../store/tables.ts';
import { OPERATOR } from '../store/tenants.ts';
import type { Intake } from './accept.ts';
import type { ReportReader } from './report-reader.ts';

/** The largest message that is read. */
const MAX_AGGREGATE_BYTES = 5 * 1024 * 1024;

const HOUR = 3_600_000;
const DAY = 24 * HOUR;

/** From one network. A large provider sends one for each domain and day, from many addresses. */
const MAX_TAKEN = { count: 300, windowMs: HOUR };
const MAX_UNREAD = 1000;

/** What a mail with an attachment, or a report alone, is; RFC 7489 §7.2.1.1, RFC 8460 §5.3. */
const REPORT_TYPE = /^\s*(?:multipart\/(?:mixed|report|related)|application\/[\w.+-]+|text\/xml)/i;

/** Takes what may be a report, to be read later. */
export function createReportIntake({
  store,
  limits,
}: {
  readonly store: Store;
  readonly limits: Pick<Limits, 'take'>;
}): Intake<'report'> {
  return async (mail) => {
    const { header } = await splitHeader(mail.pieces());
    const type = fieldsOf(header).find(({ name }) => name === 'content-type');
    if (type === undefined || !REPORT_TYPE.test(valueOf(type))) {
      const reply = '550 5.7.1 this address accepts only DMARC and TLS reports';
      return { refusal: { reply, reason: 'not_a_report' } };
    }
    if (mail.size > MAX_AGGREGATE_BYTES) {
      const reply = `552 5.3.4 a report may have at most ${MAX_AGGREGATE_BYTES} bytes`;
      return { refusal: { reply, reason: 'too_large' } };
    }
    const room = await limits.take(`reports:${clientBucket(mail.ip)}`, MAX_TAKEN);
    if (!room.allowed || (await countUnreadReports(store)) >= MAX_UNREAD) {
      const reply = '451 4.7.1 too many reports at the moment, try again later';
      return { refusal: { reply, reason: 'rate_limited' } };
    }
    const { id: inbound, at } = mail;
    return { keepsBytes: true, rows: [insertUnreadReport({ inbound, tries: 0, due: at, created_at: at })] };
  };
}

export interface ReportReadingParts {
  readonly store: Store;
  readonly clock: Clock;
  readonly log: Log;
  readonly config: () => Pick<ServerConfig, 'retention' | 'server'>;
  readonly reader: ReportReader<AggregateReport>;
}

const MAX_TRIES = 3;
const MAX_AT_ONCE = 1000;
/** When reading is begun again that never ended. */
const LEASE = 5 * 60_000;
/** How old a report may be: some senders retry for days. */
const MAX_AGE = 14 * DAY;
/** The longest time that one report may be about. */
const MAX_SPAN = 8 * DAY;
/** Rows of a domain and day. */
const MAX_ROWS = 5000;
/** Of these the rows of one reporter. */
const MAX_ROWS_OF_REPORTER = 1000;

/** Answers the job that reads what is due, and forgets what is older than `retention.events`. */
export function createReportReading(parts: ReportReadingParts): () => Promise<void> {
  const { store, clock, log, reader, config } = parts;
  let sweptAt = -Infinity;

  async function readOne({ inbound, tries }: UnreadReportRow): Promise<void> {
    const row = await findInbound(store, inbound);
    if (row === undefined) return ignore(inbound, 'message_gone');
    const reporter = reporterOf(readAuthResults(row.verdicts));
    if (reporter === undefined) return ignore(inbound, 'not_authenticated');
    const report = await reader.read(await bytesOf(store, inbound));
    if (report === undefined) {
      log.warn('report.unreadable', { inbound, reporter, tries });
      return tries < MAX_TRIES ? undefined : ignore(inbound, 'unreadable');
    }
    if (report.kind === 'unreadable') return ignore(inbound, 'unreadable', { reporter, because: report.reason });
    const counted = await countedRows(report, reporter);
    if (typeof counted === 'string') return ignore(inbound, counted, { reporter });
    try {
      await store.write([...done(inbound), ...counted.rows]);
    } catch (error) {
      if (!(error instanceof UnmetError)) throw error;
      return ignore(inbound, 'duplicate', { reporter });
    }
    log.info('report.recorded', { inbound, reporter, kind: report.kind, domain: counted.domain });
  }

  /** What the report adds, or why it does not count. */
  async function countedRows(
    report: Exclude<AggregateReport, { kind: 'unreadable' }>,
    reporter: string,
  ): Promise<{ readonly domain: string; readonly rows: readonly Statement[] } | string> {
    const now = clock.now();
    // One that is about a day of another time zone counts for the UTC day that has most of it.
    const middle = (report.begin + report.end) / 2;
    const day = middle - (middle % DAY);
    if (report.end - report.begin > MAX_SPAN || day > now || day < now - MAX_AGE) return 'out_of_time';
    const owned = await ownedRows(report);
    const [first] = owned;
    if (first === undefined) return 'unknown_domain';
    const { tenant, domain } = first;
    for (const [each, rows] of Map.groupBy(owned, (row) => row.domain)) {
      const known = await countReportRows(store, { domain: each, day, reporter });
      if (known.all + rows.length > MAX_ROWS || known.own + rows.length > MAX_ROWS_OF_REPORTER) return 'too_many';
    }
    const hash = createHash('sha256')
      .update(JSON.stringify([reporter, report.kind, report.kind === 'dmarc' ? report.domain : '', report.id]))
      .digest('hex');
    const about = { day, reporter };
    return {
      domain,
      rows: [
        noteReceivedReport({ hash, tenant, domain, kind: report.kind, created_at: now, ...about }),
        ...owned.map(({ add }) => add(about)),
      ],
    };
  }

  /** The rows about domains of ours, with their statements. */
  async function ownedRows(report: Exclude<AggregateReport, { kind: 'unreadable' }>): Promise<OwnedRow[]> {
    const names =
      report.kind === 'dmarc' ? [report.domain, ...report.rows.map(({ from }) => from)] : report.rows.map(domainOf);
    const owners = new Map(await domainOwners(store, [...new Set(names)]));
    const { hostname } = config().server;
    if (!owners.has(hostname)) owners.set(hostname, OPERATOR);
    if (report.kind === 'tls') {
      return report.rows.flatMap((row) => {
        const tenant = owners.get(row.domain);
        return tenant === undefined
          ? []
          : [{ tenant, domain: row.domain, add: (about) => addTlsResult({ ...row, tenant, ...about }) }];
      });
    }
    return report.rows.flatMap(({ from, ...row }) => {
      const domain = owners.has(from) ? from : report.domain;
      const tenant = owners.get(domain);
      return tenant === undefined
        ? []
        : [{ tenant, domain, add: (about) => addDmarcResult({ ...row, tenant, domain, ...about }) }];
    });
  }

  async function ignore(inbound: string, reason: string, more: object = {}): Promise<void> {
    await store.write(done(inbound));
    log.info('report.ignored', { inbound, reason, ...more });
  }

  async function sweep(): Promise<void> {
    if (clock.monotonic() - sweptAt < HOUR) return;
    const before = clock.now() - config().retention.events;
    for (let days = await agedReportDays(store, before); days.length > 0; days = await agedReportDays(store, before))
      for (const day of days) await store.write(forgetReportDay(day));
    sweptAt = clock.monotonic();
  }

  return async () => {
    await sweep();
    try {
      for (let count = 0; count < MAX_AT_ONCE; count++) {
        const now = clock.now();
        const row = await claimUnreadReport(store, { now, until: now + LEASE });
        if (row === undefined) return;
        const { inbound } = row;
        await (row.tries > MAX_TRIES ? ignore(inbound, 'unreadable') : readOne(row)).catch((error: unknown) =>
          log.warn('report.failed', { inbound, ...errorFields(error) }),
        );
      }
    } finally {
      await reader.close();
    }
  };
}

interface OwnedRow {
  readonly tenant: string;
  readonly domain: string;
  readonly add: (about: { readonly day: number; readonly reporter: string }) => Statement;
}

function domainOf({ domain }: { readonly domain: string }): string {
  return domain;
}

/** The statements that end it: its bytes are not needed any more. */
function done(inbound: string): Statement[] {
  return [deleteUnreadReport({ inbound }), dropReportBytes({ inbound })];
}

/** The domain that vouches for it: the author's where DMARC passes, else that of a signature or of the envelope sender. */
function reporterOf({ dmarc, dkim, spf, from, vouched }: AuthResults): string | undefined {
  if (dmarc.result === 'pass' && dmarc.domain !== '') return dmarc.domain;
  const signed = dkim.find(({ result }) => result === 'pass')?.domain;
  // Of mail that this server sends itself SPF is not checked.
  return signed ?? (spf.result === 'pass' ? spf.domain : vouched ? parseAddress(from)?.domain : undefined);
}

async function bytesOf(store: Store, inbound: string): Promise<Uint8Array> {
  const pieces: Uint8Array[] = [];
  for await (const piece of rawChunks(store, inbound)) pieces.push(piece);
  return Buffer.concat(pieces).subarray(0, MAX_AGGREGATE_BYTES);
}
