/** Row 5: signed mail in by SMTP, checked, forwarded with SRS and an ARC seal, and delivered to a sink. */
import { startCheckingPostfix } from '../lib/checking-postfix.ts';
import { sendUntilDelivered } from '../lib/delivered.ts';
import { DOMAIN, FORWARDED, startPostern } from '../lib/postern.ts';
import { alternate } from '../lib/rounds.ts';
import type { Row } from '../lib/row.ts';
import { SENDER, writeSignedMail } from '../lib/signed-mail.ts';
import { startSmtpSink } from '../lib/smtp-sink.ts';
import { sendBySmtp, type SourceOptions } from '../lib/smtp-source.ts';

const COUNT = 1000;

export const row: Row = {
  number: '5',
  measure: 'checked and relayed, SRS (ours also sealed by ARC)',
  reference: 'Postfix + policyd-spf + OpenDKIM + OpenDMARC + postsrsd',
  goals: [
    { name: 'a connection each', atLeast: 5 },
    { name: 'connections kept open', atLeast: 5 },
  ],
  async run({ rounds }) {
    await using open = new AsyncDisposableStack();
    const mail = open.adopt(await writeSignedMail(), (it) => it.remove());
    const { records } = mail;
    const sink = open.adopt(await startSmtpSink(), (it) => it.close());
    const daemon = open.adopt(await startPostern({ takesMail: true, deliverTo: sink.port, records }), (it) =>
      it.close(),
    );
    const relay = { relayTo: `127.0.0.1:${sink.port}`, relayConnections: 20, settings: { in_flow_delay: '0' } };
    const postfix = open.adopt(await startCheckingPostfix(records, { ...relay, srsDomain: DOMAIN }), (it) =>
      it.close(),
    );
    await sink.untilCount(1); // the mail of the daemon's own attempt post
    const many = { count: COUNT, sessions: 20, from: SENDER, messageFile: mail.path };
    async function eachRate(options: SourceOptions): Promise<number[]> {
      const rates: number[] = [];
      for (const keepOpen of [false, true])
        rates.push(await sendUntilDelivered(() => sendBySmtp({ ...options, keepOpen }), sink, options.count));
      return rates;
    }
    return await alternate({
      rounds,
      ours: () => eachRate({ ...many, port: daemon.smtpPort, to: FORWARDED }),
      reference: () => eachRate({ ...many, port: postfix.port }),
    });
  },
};
