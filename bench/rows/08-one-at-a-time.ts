/** Row 8: from the answer to one message until it is delivered, while nothing else is to be done. */
import { readFile } from 'node:fs/promises';
import { startPostfix } from '../../test/harness/postfix.ts';
import { writeMailFile } from '../lib/five-kilobytes.ts';
import { FORWARDED, startPostern } from '../lib/postern.ts';
import { alternate, median } from '../lib/rounds.ts';
import type { Row } from '../lib/row.ts';
import { sendMail } from '../lib/smtp-client.ts';
import { startSmtpSink } from '../lib/smtp-sink.ts';

const COUNT = 50;

export const row: Row = {
  number: '8',
  measure: 'one message after the other, from its acceptance to its delivery (median)',
  reference: 'Postfix that checks nothing',
  // In messages a second: at most 0.6 of Postfix's time.
  goals: [{ atLeast: 1 / 0.6 }],
  async run({ rounds }) {
    await using open = new AsyncDisposableStack();
    const mail = open.adopt(await writeMailFile(), (it) => it.remove());
    const bytes = Buffer.from((await readFile(mail.path, 'latin1')).replaceAll('\n', '\r\n'), 'latin1');
    const sink = open.adopt(await startSmtpSink(), (it) => it.close());
    const options = { takesMail: true, deliverTo: sink.port, seals: false };
    const daemon = open.adopt(await startPostern(options), (it) => it.close());
    const postfix = open.adopt(await startPostfix({ relayTo: `127.0.0.1:${sink.port}` }), (it) => it.close());
    await sink.untilCount(1); // the mail of the daemon's own attempt post

    async function perSecond(port: number): Promise<number> {
      const times: number[] = [];
      for (let i = 0; i < COUNT; i++) {
        const before = sink.count();
        const reply = await sendMail({ port, to: FORWARDED, bytes });
        if (!reply.startsWith('250')) throw new Error(`the message was not taken: ${reply}`);
        const accepted = performance.now();
        times.push(Math.max(0, (await sink.untilCount(before + 1)) - accepted));
      }
      return 1000 / median(times);
    }

    return await alternate({
      rounds,
      ours: async () => [await perSecond(daemon.smtpPort)],
      reference: async () => [await perSecond(postfix.port)],
    });
  },
};
