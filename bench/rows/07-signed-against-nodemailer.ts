/** Row 7: accepted, rendered, composed, signed with RSA-2048 and delivered, against nodemailer that only does the last three. */
import { execFile } from 'node:child_process';
import { promisify } from 'node:util';
import { postUntilDelivered, sendUntilDelivered } from '../lib/delivered.ts';
import { DOMAIN, startPostern } from '../lib/postern.ts';
import { alternate } from '../lib/rounds.ts';
import type { Row } from '../lib/row.ts';
import { newDkimKey } from '../lib/signing-postfix.ts';
import { startSmtpSink } from '../lib/smtp-sink.ts';

const run = promisify(execFile);
const OURS = 5000;
const NODEMAILER = 1500;

export const row: Row = {
  number: '7',
  measure: 'form post to delivered (rendered, composed, signed)',
  reference: "nodemailer's pool with its DKIM",
  goals: [{ atLeast: 4 }],
  async run({ rounds }) {
    await using open = new AsyncDisposableStack();
    const sink = open.adopt(await startSmtpSink(), (it) => it.close());
    const daemon = open.adopt(await startPostern({ deliverTo: sink.port }), (it) => it.close());
    await sink.untilCount(1); // the mail of the daemon's own attempt post
    const dkim = { domainName: DOMAIN, keySelector: 'bench', privateKey: newDkimKey() };
    const job = JSON.stringify({ smtpPort: sink.port, connections: 20, count: NODEMAILER, dkim });
    return await alternate({
      rounds,
      ours: async () => [(await postUntilDelivered(daemon.formUrl, sink, OURS)).delivered],
      reference: async () => [await sendUntilDelivered(() => poolProgram(job), sink, NODEMAILER)],
    });
  },
};

async function poolProgram(job: string): Promise<void> {
  await run(process.execPath, [`${import.meta.dirname}/../references/nodemailer-pool.ts`, job]);
}
