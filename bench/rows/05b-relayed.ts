/** Row 5: mail in by SMTP, judged, forwarded with SRS, with an ARC seal and without, and delivered to a sink. */
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
  number: '5b',
  measure: 'relayed (accepted, forwarded, delivered)',
  reference: 'Postfix that checks nothing',
  goals: [
    { name: 'a connection each', atLeast: 2 },
    { name: 'connections kept open', atLeast: 2 },
    { name: 'without a seal: a connection each', atLeast: 3 },
    { name: 'without a seal: connections kept open', atLeast: 3 },
  ],
  async run({ rounds }) {
    await using open = new AsyncDisposableStack();
    const mail = open.adopt(await writeMailFile(), (it) => it.remove());
    const sink = open.adopt(await startSmtpSink(), (it) => it.close());
    const relay = { takesMail: true, deliverTo: sink.port };
    const sealing = open.adopt(await startPostern(relay), (it) => it.close());
    const plain = open.adopt(await startPostern({ ...relay, seals: false }), (it) => it.close());
    const settings = { in_flow_delay: '0' };
    const postfix = open.adopt(
      await startPostfix({ relayTo: `127.0.0.1:${sink.port}`, relayConnections: 20, settings }),
      (it) => it.close(),
    );
    await sink.untilCount(2); // the mails of the daemons' own attempt posts
    const many = { count: COUNT, sessions: 20, messageFile: mail.path };
    return await alternate({
      rounds,
      async ours() {
        const sealed = await eachRate({ ...many, port: sealing.smtpPort, to: FORWARDED }, sink);
        return [...sealed, ...(await eachRate({ ...many, port: plain.smtpPort, to: FORWARDED }, sink))];
      },
      async reference() {
        const rates = await eachRate({ ...many, port: postfix.port }, sink);
        return [...rates, ...rates];
      },
    });
  },
};

async function eachRate(options: SourceOptions, sink: SmtpSink): Promise<number[]> {
  const rates: number[] = [];
  for (const keepOpen of [false, true])
    rates.push(await sendUntilDelivered(() => sendBySmtp({ ...options, keepOpen }), sink, options.count));
  return rates;
}
