/** Row 4: signed mail taken over SMTP, checked (SPF, DKIM, DMARC) and on the disk, a connection for each. */
import { startCheckingPostfix } from '../lib/checking-postfix.ts';
import { FORWARDED, startPostern } from '../lib/postern.ts';
import { alternate } from '../lib/rounds.ts';
import type { Row } from '../lib/row.ts';
import { SENDER, writeSignedMail } from '../lib/signed-mail.ts';
import { SESSIONS, acceptedRates } from '../lib/smtp-source.ts';

const COUNT = 1000;

export const row: Row = {
  number: '4',
  measure: 'SMTP, 5 kB, checked, accepted durably',
  reference: 'Postfix + policyd-spf + OpenDKIM + OpenDMARC',
  goals: [
    { name: `${SESSIONS[0]} sessions`, atLeast: 5 },
    { name: `${SESSIONS[1]} sessions`, atLeast: 5 },
  ],
  async run({ rounds }) {
    await using open = new AsyncDisposableStack();
    const mail = open.adopt(await writeSignedMail(), (it) => it.remove());
    const { records } = mail;
    const daemon = open.adopt(await startPostern({ takesMail: true, records }), (it) => it.close());
    // What it takes waits, as with us: only the taking is measured.
    const settings = { defer_transports: 'virtual', in_flow_delay: '0' };
    const postfix = open.adopt(await startCheckingPostfix(records, { settings }), (it) => it.close());
    const many = { count: COUNT, from: SENDER, messageFile: mail.path };
    return await alternate({
      rounds,
      ours: () => acceptedRates({ ...many, port: daemon.smtpPort, to: FORWARDED }),
      reference: () => acceptedRates({ ...many, port: postfix.port }),
    });
  },
};
