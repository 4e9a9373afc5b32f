/** The figures for Prometheus, composed: those of the store, of HTTP, of mail, of the certificate. */
import type { AuthFailures } from './access/auth-failures.ts';
import { createMetrics, type Metrics, type MetricsParts } from './http/metrics.ts';
import type { CertificateKeeper } from './lib/certificate.ts';
import type { SmtpTallies } from './smtp/tallies.ts';
import { version } from './version.ts';

export interface OpenMetrics extends Pick<MetricsParts, 'store' | 'clock' | 'log'> {
  readonly certificate: CertificateKeeper | undefined;
  readonly tallies: SmtpTallies;
  readonly authFailures: Pick<AuthFailures, 'tally'>;
}

export function openMetrics({ certificate, tallies, authFailures, ...parts }: OpenMetrics): Metrics {
  return createMetrics({
    ...parts,
    version: version(),
    certificateEnds: () => certificate?.expiresAt(),
    tallies: [
      {
        name: 'postern_smtp_connections_total',
        help: 'Connections to the ports of mail, and those that were one too many.',
        tally: tallies.connections,
      },
      {
        name: 'postern_smtp_recipients_total',
        help: 'Recipients of mail that came in, by what was said of them.',
        tally: tallies.recipients,
      },
      {
        name: 'postern_auth_failures_total',
        help: 'API keys that were shown and opened nothing, by the reason.',
        tally: authFailures.tally,
      },
    ],
  });
}
