/** Row 6: the same mails, signed with RSA-2048 and delivered; Postfix gets them ready-made over kept-open connections. */
import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import MailComposer from 'nodemailer/lib/mail-composer';
import { postUntilDelivered, sendUntilDelivered } from '../lib/delivered.ts';
import { notification } from '../lib/notification.ts';
import { startPostern } from '../lib/postern.ts';
import { alternate } from '../lib/rounds.ts';
import type { Row } from '../lib/row.ts';
import { startSigningPostfix } from '../lib/signing-postfix.ts';
import { startSmtpSink } from '../lib/smtp-sink.ts';
import { sendBySmtp } from '../lib/smtp-source.ts';

const OURS = 5000;
const POSTFIX = 1000;

export const row: Row = {
  number: '6',
  measure: 'delivered with DKIM RSA-2048 (from form posts)',
  reference: 'Postfix + OpenDKIM (the finished mail in by SMTP)',
  goals: [{ atLeast: 8 }],
  async run({ rounds }) {
    await using open = new AsyncDisposableStack();
    const folder = open.adopt(await mkdtemp(join(tmpdir(), 'postern-bench-')), (it) => rm(it, { recursive: true }));
    const messageFile = join(folder, 'mail');
    await writeFile(messageFile, await finishedMail());
    const sink = open.adopt(await startSmtpSink(), (it) => it.close());
    const daemon = open.adopt(await startPostern({ deliverTo: sink.port }), (it) => it.close());
    const postfix = open.adopt(await startSigningPostfix(sink.port), (it) => it.close());
    await sink.untilCount(1); // the mail of the daemon's own attempt post
    const mails = { port: postfix.port, count: POSTFIX, sessions: 20, messageFile };
    return await alternate({
      rounds,
      ours: async () => [(await postUntilDelivered(daemon.formUrl, sink, OURS)).delivered],
      reference: async () => [await sendUntilDelivered(() => sendBySmtp(mails), sink, POSTFIX)],
    });
  },
};

/** The notification as nodemailer writes it, with the line ends that smtp-source wants. */
async function finishedMail(): Promise<string> {
  const fields = {
    name: 'Ágnes Kovács',
    email: 'agnes.kovacs@customer.test',
    message: 'Are you open at nine?\n'.repeat(12),
  };
  const mail = await new MailComposer(notification(fields)).compile().build();
  return mail.toString().replaceAll('\r\n', '\n');
}
