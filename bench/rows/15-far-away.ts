/** Row 15: mail to a server that is 40 ms away, over 20 connections. */
import { startPostfix } from '../../test/harness/postfix.ts';
import { sendUntilDelivered } from '../lib/delivered.ts';
import { writeMailFile } from '../lib/five-kilobytes.ts';
import { FORWARDED, startPostern } from '../lib/postern.ts';
import { alternate } from '../lib/rounds.ts';
import type { Row } from '../lib/row.ts';
import { startSlowLine } from '../lib/slow-line.ts';
import { startSmtpSink } from '../lib/smtp-sink.ts';
import { sendBySmtp } from '../lib/smtp-source.ts';

const COUNT = 400;
const ROUND_TRIP_MS = 40;

export const row: Row = {
  number: '15',
  measure: `relayed to a server ${ROUND_TRIP_MS} ms away, without a seal`,
  reference: 'Postfix that checks nothing',
  goals: [{ atLeast: 2.8 }],
  async run({ rounds }) {
    await using open = new AsyncDisposableStack();
    const mail = open.adopt(await writeMailFile(), (it) => it.remove());
    const sink = open.adopt(await startSmtpSink(), (it) => it.close());
    const line = open.adopt(await startSlowLine(sink.port, ROUND_TRIP_MS), (it) => it.close());
    const options = { takesMail: true, deliverTo: line.port, seals: false };
    const daemon = open.adopt(await startPostern(options), (it) => it.close());
    const relay = { relayTo: `127.0.0.1:${line.port}`, relayConnections: 20, settings: { in_flow_delay: '0' } };
    const postfix = open.adopt(await startPostfix(relay), (it) => it.close());
    await sink.untilCount(1); // the mail of the daemon's own attempt post
    const many = { count: COUNT, sessions: 20, messageFile: mail.path, to: FORWARDED };
    return await alternate({
      rounds,
      ours: async () => [await sendUntilDelivered(() => sendBySmtp({ ...many, port: daemon.smtpPort }), sink, COUNT)],
      reference: async () => [await sendUntilDelivered(() => sendBySmtp({ ...many, port: postfix.port }), sink, COUNT)],
    });
  },
};
