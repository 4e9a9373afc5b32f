/** The JSON of a TLS report (RFC 8460 §4): how often mail servers could or could not connect to a domain's by TLS. */
import * as z from 'zod';
import { parseDomain } from '../lib/addresses.ts';
import { ReportError, type AggregateReport, type TlsRow } from './aggregate-rows.ts';

/** Its parse tree takes many times as much memory. */
const MAX_BYTES = 2 * 1024 * 1024;
const MAX_POLICIES = 100;
const MAX_FAILURES = 100;
const MAX_COUNT = 1_000_000_000;

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
export function readTlsReport(content: Buffer): AggregateReport {
  if (content.length > MAX_BYTES) throw new ReportError('it is too large when unpacked');
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
