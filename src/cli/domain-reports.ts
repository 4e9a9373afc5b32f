/** `postern domains reports`: who sent mail in the name of a domain, and TLS failures of mail to it. */
import type { domains as routes } from '../contract/domains.ts';
import type { AnswerOf } from '../contract/route.ts';
import { counted, table, writeTable, type Columns } from './output.ts';
import { printable } from '../lib/printable.ts';
import type { Terminal } from './terminal.ts';

type Reports = AnswerOf<typeof routes.reports>;
type Source = Reports['sources'][number];
type TlsResult = Reports['tls']['results'][number];

/** Writes the reports of a domain: mail in its name, then TLS connections to it. */
export function writeReports(reports: Reports, terminal: Terminal): void {
  const { domain, messages, passed, sources, tls, reporters } = reports;
  const { write, writeError, style, width } = terminal;
  const days = `${reports.from.slice(0, 10)} to ${dayBefore(reports.to)}`;
  // What other programs read is one table.
  if (width === undefined) {
    if (reporters.length === 0) return writeError(nothing(domain, days));
    return writeTable(terminal, SOURCES, sources);
  }
  if (reporters.length === 0) return write(nothing(domain, days));
  write(`${style('bold', `Mail from ${domain}`)}, ${days}: ${shareText(messages, passed, 'passed DMARC')}\n`);
  if (sources.length > 0) {
    write('\n');
    writeTable(terminal, SOURCES, sources);
  }
  const foreign = sources.filter((row) => !row.this_server && !hasPassed(row));
  if (foreign.length > 0)
    write(
      `\nMail that failed is forged, or from a service that is not set up for\n${domain}: add the service to SPF, or let it sign with DKIM.\n`,
    );
  write(
    `\n${style('bold', `TLS connections to ${domain}`)}: ${shareText(tls.sessions, tls.sessions - tls.failures, 'succeeded')}\n`,
  );
  if (tls.results.length > 0) {
    write('\n');
    writeTable(terminal, TLS, tls.results);
  }
  write(`\n${style('bold', 'Reported by')}\n`);
  const rows = reporters.map(({ reporter, kind, reports: count }) => [
    `  ${printable(reporter)}`,
    counted(count, kind === 'dmarc' ? 'DMARC report' : 'TLS report'),
  ]);
  write(table(['', ''], rows, width).split('\n').slice(1).join('\n'));
}

const SOURCES: Columns<Source> = {
  SOURCE: ({ source, this_server: own }) => `${source === '' ? 'other' : source}${own ? ' (this server)' : ''}`,
  COUNT: 'messages',
  DMARC: (row) => (hasPassed(row) ? 'pass' : 'fail'),
  ACTION: ({ disposition }) => (disposition === 'none' ? 'accepted' : disposition),
  DKIM: ({ dkim }) => RESULTS[dkim],
  SPF: ({ spf }) => RESULTS[spf],
  'OTHER DOMAIN': otherDomains,
};

const TLS: Columns<TlsResult> = {
  RESULT: 'result',
  SESSIONS: 'sessions',
  POLICY: ({ policy }) => POLICIES.get(policy) ?? policy,
  'MAIL SERVER': ({ mx }) => mx || '-',
};

const POLICIES: ReadonlyMap<string, string> = new Map([
  ['sts', 'MTA-STS'],
  ['tlsa', 'DANE'],
  ['no-policy-found', 'none'],
]);

function hasPassed({ dkim, spf }: Pick<Source, 'dkim' | 'spf'>): boolean {
  return dkim === 'aligned' || spf === 'aligned';
}

/** `other`: passed, but for another domain, which is nothing for DMARC. */
const RESULTS = { aligned: 'pass', unaligned: 'other', failed: 'fail', none: '-' } as const;

function otherDomains({ dkim, dkim_domain: signer, spf, spf_domain: sender }: Source): string {
  const names = [...(dkim === 'unaligned' ? [signer] : []), ...(spf === 'unaligned' ? [sender] : [])];
  return [...new Set(names)].join(' ') || '-';
}

/** `1180 of 1200 passed DMARC (98 %)` */
function shareText(all: number, good: number, what: string): string {
  if (all === 0) return 'none reported';
  return `${good} of ${all} ${what} (${Math.floor((good / all) * 100)} %)`;
}

function nothing(domain: string, days: string): string {
  return `No reports about ${domain}, ${days}.\nReceivers send them daily to the address in its DMARC record. To see it, run:\npostern domains setup ${domain}\n`;
}

function dayBefore(end: string): string {
  return new Date(Date.parse(end) - 1).toISOString().slice(0, 10);
}
