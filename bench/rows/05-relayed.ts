/** Row 5: mail in by SMTP, judged, forwarded with SRS and ARC, and delivered to a sink. */
import { sendUntilDelivered } from '../lib/delivered.ts';
import { writeMailFile } from '../lib/five-kilobytes.ts';
import { FORWARDED, startPostern } from '../lib/postern.ts';
import { alternate } from '../lib/rounds.ts';
import type { Row } from '../lib/row.ts';
import { startSmtpSink, type SmtpSink } from '../lib/smtp-sink.ts';
import { sendBySmtp, type SourceOptions } from '../lib/smtp-source.ts';
import { startPostfix } from '../../test/harness/postfix.ts';

const COUNT = 2000;

export const row: Row = {
  number: 5,
  measure: 'relayed (accepted, forwarded, delivered)',
  reference: 'Postfix',
  goals: [
    { name: 'a connection each', atLeast: 4 },
    { name: 'connections kept open', atLeast: 7 },
  ],
  async run({ rounds }) {
    await using open = new AsyncDisposableStack();
    const mail = open.adopt(await writeMailFile(), (it) => it.remove());
    const sink = open.adopt(await startSmtpSink(), (it) => it.close());
    const daemon = open.adopt(await startPostern({ takesMail: true, deliverTo: sink.port }), (it) => it.close());
    const settings = { in_flow_delay: '0' };
    const postfix = open.adopt(
      await startPostfix({ relayTo: `127.0.0.1:${sink.port}`, relayConnections: 20, settings }),
      (it) => it.close(),
    );
    await sink.untilCount(1); // the mail of the daemon's own trial post
    const many = { count: COUNT, sessions: 20, messageFile: mail.path };
    return await alternate({
      rounds,
      ours: () => eachRate({ ...many, port: daemon.smtpPort, to: FORWARDED }, sink),
      reference: () => eachRate({ ...many, port: postfix.port }, sink),
    });
  },
};

async function eachRate(options: SourceOptions, sink: SmtpSink): Promise<number[]> {
  const rates: number[] = [];
  for (const keepOpen of [false, true])
    rates.push(await sendUntilDelivered(() => sendBySmtp({ ...options, keepOpen }), sink, options.count));
  return rates;
}
