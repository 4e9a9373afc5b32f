/**
 * Reports about TLS to the domains that mail was sent to (RFC 8460): the sessions of a UTC day, in the hours after it, to whom
 * the domain names in DNS. However many daemons share the store, each report is made once: what it is made of is forgotten in the
 * unit that queues it. A report that was posted just before a crash may be posted again.
 */
import { createHash } from 'node:crypto';
import { promisify } from 'node:util';
import { gzip } from 'node:zlib';
import { z } from 'zod';
import type { ServerConfig } from '../config/schema.ts';
import type { HttpClient } from '../dns/guarded-fetch.ts';
import { tlsReportTargets } from '../dns/mta-sts.ts';
import { recordsOf, type Resolver } from '../dns/resolver.ts';
import { inRounds } from '../lib/batch.ts';
import { isoTime, type Clock } from '../lib/clock.ts';
import { errorFields } from '../lib/errors.ts';
import type { Log } from '../lib/log.ts';
import { composeMail, signMail, type Mail } from '../mail/compose.ts';
import type { SigningContext } from '../mail/dkim.ts';
import { messageIdOf } from '../mail/header.ts';
import { enqueue } from '../queue/enqueue.ts';
import type { Source, TlsResult } from '../queue/transport.ts';
import type { Statement } from '../store/statement.ts';
import { UnmetError, type Store } from '../store/store.ts';
import { OPERATOR } from '../store/tenants.ts';
import {
  addTlsSessions,
  deleteTlsReport,
  dropTlsSessions,
  dueTlsReports,
  insertTlsReport,
  nextTlsSessions,
  putOffTlsReport,
  tlsSessionsOf,
  type TlsReportRow,
  type TlsSessionsRow,
} from '../store/tls-reports.ts';
import type { AppliedTlsPolicy, PolicyFailure } from './route.ts';

interface TlsReportsParts {
  readonly store: Store;
  readonly clock: Clock;
  readonly log: Log;
  readonly config: () => ServerConfig;
  readonly resolver: Pick<Resolver, 'txt'>;
  readonly http: Pick<HttpClient, 'request'>;
  /** There is mail to send. */
  readonly wake: () => void;
}

type Counted = Pick<TlsSessionsRow, 'day' | 'domain'>;

const MINUTE = 60_000;
const HOUR = 60 * MINUTE;
const DAY = 24 * HOUR;
const compress = promisify(gzip);
/** RFC 8460 §4.1: not all at midnight. */
const SPREAD = 4 * HOUR;
/** What was counted is in the store by then. */
const LATE = 10 * MINUTE;
/** So long after the day a domain is given up whose DNS does not answer. */
const PATIENCE = 3 * DAY;
const STEPS = 50;
const MAX_POSTS = 20;
const JSON_TYPE = 'application/tlsrpt+gzip';

/** The job that makes and posts reports that are due. */
export function createTlsReports(parts: TlsReportsParts): () => Promise<void> {
  const { store, clock, log, config, resolver, http, wake } = parts;
  const make = inRounds<Counted>({
    clock,
    every: 10 * MINUTE,
    steps: STEPS,
    start: { day: 0, domain: '' },
    async step({ day, domain }) {
      const now = clock.now();
      const [next] = await nextTlsSessions(store, day, domain, now - (now % DAY));
      if (next !== undefined && now >= next.day + DAY + LATE + delayOf(next)) await report(next, now);
      return next;
    },
  });

  async function report({ day, domain }: Counted, now: number): Promise<void> {
    const { server, delivery } = config();
    const answer = delivery.tls_reports ? await resolver.txt(`_smtp._tls.${domain}`) : undefined;
    if (answer?.kind === 'failed' && now < day + PATIENCE) return;
    const { mails, urls } = tlsReportTargets(answer === undefined ? [] : recordsOf(answer));
    const rows = await tlsSessionsOf(store, day, domain);
    const text = JSON.stringify(reportOf({ day, domain }, rows, server.hostname));
    const unit: Statement[] = [dropTlsSessions({ day, domain }, rows.length)];
    if (mails.length > 0) unit.push(...reportMail({ day, domain, to: mails, text }, server.hostname, now));
    if (urls.length > 0) {
      const body = await compress(text);
      // RFC 8460 §5.4
      const times = { due_at: now, expires_at: now + DAY };
      const ids = urls.map((url, i) => ({ id: `${dateOf(day)} ${domain} ${i}`, domain, url, body, ...times }));
      unit.push(...ids.map((row) => insertTlsReport(row)));
    }
    try {
      await store.write(unit);
    } catch (error) {
      // Another daemon was faster.
      if (error instanceof UnmetError) return;
      throw error;
    }
    if (mails.length + urls.length === 0) return;
    log.info('tls_report.queued', { domain, day: dateOf(day), to: [...mails, ...urls] });
    wake();
  }

  async function post(row: TlsReportRow): Promise<void> {
    const { id, domain, url, body, due_at, expires_at } = row;
    const next = clock.now() + HOUR;
    try {
      await store.write([putOffTlsReport({ id, due_at, next }, 1)]);
    } catch (error) {
      if (error instanceof UnmetError) return;
      throw error;
    }
    const reply = await http.request({ method: 'POST', url, headers: { 'content-type': JSON_TYPE }, bytes: body });
    const isTaken = reply.kind === 'answered' && reply.status >= 200 && reply.status < 300;
    if (!isTaken && reply.kind !== 'refused' && next < expires_at) return;
    await store.write([deleteTlsReport({ id })]);
    const reason = reply.kind === 'answered' ? `it replied ${reply.status}` : reply.reason;
    if (isTaken) log.info('tls_report.posted', { domain, url });
    else log.info('tls_report.given_up', { domain, url, reason });
  }

  return async () => {
    await make();
    for (const row of await dueTlsReports(store, clock.now(), MAX_POSTS)) await post(row);
  };
}

/** Between 0 and 4 hours, the same for the domain each day. */
function delayOf({ domain }: Counted): number {
  return (createHash('sha256').update(domain).digest().readUInt32BE() / 2 ** 32) * SPREAD;
}

const policySchema = z.object({
  type: z.string(),
  strings: z.array(z.string()),
  domain: z.string(),
  hosts: z.array(z.string()),
});

/** RFC 8460 §4.4 */
function reportOf({ day, domain }: Counted, rows: readonly TlsSessionsRow[], hostname: string): object {
  return {
    'organization-name': hostname,
    'date-range': { 'start-datetime': secondsOf(day), 'end-datetime': secondsOf(day + DAY - 1000) },
    'contact-info': `postmaster@${hostname}`,
    'report-id': reportId({ day, domain }, hostname),
    policies: [...Map.groupBy(rows, ({ policy }) => policy)].map(([policy, some]) => policyOf(policy, some)),
  };
}

function policyOf(json: string, rows: readonly TlsSessionsRow[]): object {
  const { type, strings, domain, hosts } = policySchema.parse(JSON.parse(json));
  const [succeeded, failed] = [true, false].map((isSuccess) =>
    rows.filter(({ result }) => (result === 'success') === isSuccess),
  );
  return {
    policy: {
      'policy-type': type,
      ...(strings.length === 0 ? {} : { 'policy-string': strings }),
      'policy-domain': domain,
      ...(hosts.length === 0 ? {} : { 'mx-host': hosts }),
    },
    summary: {
      'total-successful-session-count': sumOf(succeeded),
      'total-failure-session-count': sumOf(failed),
    },
    'failure-details': (failed ?? []).map(({ result, local, host, address, count, reason }) => ({
      'result-type': result,
      ...(local === '' ? {} : { 'sending-mta-ip': local }),
      ...(host === '' ? {} : { 'receiving-mx-hostname': host }),
      ...(address === '' ? {} : { 'receiving-ip': address }),
      'failed-session-count': count,
      ...(reason === '' ? {} : { 'failure-reason-code': reason }),
    })),
  };
}

function sumOf(rows: readonly TlsSessionsRow[] = []): number {
  return rows.reduce((sum, { count }) => sum + count, 0);
}

function reportId({ day, domain }: Counted, hostname: string): string {
  return `${dateOf(day)}.${domain}@${hostname}`;
}

function dateOf(day: number): string {
  return isoTime(day).slice(0, 10);
}

function secondsOf(at: number): string {
  return `${isoTime(at).slice(0, 19)}Z`;
}

// Reports as mail (RFC 8460 §5.3), from `postern@<server.hostname>` and signed with its key.

const source = z.object({ day: z.int(), domain: z.string(), to: z.array(z.string()).readonly(), text: z.string() });
type ReportMail = z.output<typeof source>;

function reportMail(report: ReportMail, hostname: string, now: number): Statement[] {
  const about = { tenant: OPERATOR, kind: 'tls_report', submission: null, domain: hostname } as const;
  return enqueue({ ...about, source: report, recipients: report.to, ttl: DAY }, now).unit;
}

/** `messages.source` of the kind `tls_report` without the report. */
export function withoutReport(json: string): string {
  return JSON.stringify({ ...source.parse(JSON.parse(json)), text: '' });
}

/** The source of messages of the kind `tls_report`. */
export function createTlsReportSource(signing: SigningContext): Source {
  return {
    async prepare({ id, domain: hostname, tenant, source: json, created_at: date }) {
      const { day, domain, to, text } = source.parse(JSON.parse(json));
      const [begin, end] = [day, day + DAY - 1000].map((at) => Math.floor(at / 1000));
      const mail: Mail = {
        from: { name: 'Postern', address: `postern@${hostname}` },
        to: to.map((address) => ({ address })),
        subject: `Report Domain: ${domain} Submitter: ${hostname} Report-ID: <${reportId({ day, domain }, hostname)}>`,
        text: `This is a TLS report about mail from ${hostname} to ${domain} on ${dateOf(day)} (RFC 8460).\n`,
        date,
        messageId: messageIdOf({ id, domain: hostname }),
        headers: [
          ['TLS-Report-Domain', domain],
          ['TLS-Report-Submitter', hostname],
          // RFC 8689 §5: it gets through whatever it reports.
          ['TLS-Required', 'No'],
          ['Auto-Submitted', 'auto-generated'],
        ],
        reportType: 'tlsrpt',
        attachments: [
          {
            filename: `${hostname}!${domain}!${begin}!${end}.json.gz`,
            contentType: JSON_TYPE,
            content: await compress(text),
          },
        ],
      };
      return signMail({ id, domain: hostname, tenant, mail, bytes: await composeMail(mail) }, signing);
    },
  };
}

// How many sessions with mail hosts got the TLS that the recipients' domain wants, and why others did not, for reports to the
// domain (RFC 8460): counted in memory, so that no delivery waits for it, and added to the store within seconds and at the
// end. A crash forgets those seconds.

/** A session with a mail host, or what kept us from one. */
export interface TlsSession {
  /** Whose mail it is. */
  readonly domain: string;
  readonly policy: AppliedTlsPolicy;
  readonly result: TlsResult | PolicyFailure['result'];
  readonly host: string | null;
  readonly address: string | null;
  /** Our address. */
  readonly local: string | null;
  /** Why it failed, in words. */
  readonly reason: string;
}

/** So many rows go into one commit, so that they never hold up what is written beside them. */
const BATCH = 250;
const MAX_ROWS = 20_000;
const MAX_REASON = 200;

export class TlsSessions {
  readonly #parts: { readonly store: Store; readonly clock: Clock; readonly log: Log };
  #rows = new Map<string, TlsSessionsRow>();
  /** Sessions for which there was no room. */
  #dropped = 0;
  #flushing = Promise.resolve();

  constructor(parts: { readonly store: Store; readonly clock: Clock; readonly log: Log }) {
    this.#parts = parts;
  }

  count({ domain, policy, result, host, address, local, reason }: TlsSession): void {
    const now = this.#parts.clock.now();
    const isFailure = result !== 'success';
    this.#add({
      day: now - (now % DAY),
      domain,
      policy: JSON.stringify(policy),
      result,
      // Of those that succeed only the number is told.
      host: (isFailure && host) || '',
      address: (isFailure && address) || '',
      local: (isFailure && local) || '',
      reason: isFailure ? reason.slice(0, MAX_REASON) : '',
      count: 1,
    });
  }

  /** Adds to the store what was counted before the call. What it does not take is logged and kept for the next time. */
  flush(): Promise<void> {
    this.#flushing = this.#flushing.then(() => this.#save());
    return this.#flushing;
  }

  #add(row: TlsSessionsRow): void {
    const key = JSON.stringify([row.day, row.domain, row.policy, row.result, row.host, row.address]);
    const known = this.#rows.get(key);
    // While the store takes nothing, what is counted is bounded.
    if (known === undefined && this.#rows.size >= MAX_ROWS) return void (this.#dropped += row.count);
    this.#rows.set(key, known === undefined ? row : { ...known, count: known.count + row.count });
  }

  async #save(): Promise<void> {
    const { store, log } = this.#parts;
    // In one order everywhere: daemons that share a store lock the same rows.
    const rows = [...this.#rows].sort(([a], [b]) => (a < b ? -1 : 1)).map(([, row]) => row);
    this.#rows = new Map();
    if (this.#dropped > 0) log.warn('tls_sessions.dropped', { sessions: this.#dropped });
    this.#dropped = 0;
    for (let i = 0; i < rows.length; i += BATCH) {
      const some = rows.slice(i, i + BATCH);
      await store.write(some.map((row) => addTlsSessions(row))).catch((error: unknown) => {
        log.warn('tls_sessions.not_saved', errorFields(error));
        for (const row of some) this.#add(row);
      });
    }
  }
}
