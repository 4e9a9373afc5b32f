/** Row 4: mail taken over SMTP and on the disk, a connection for each. */
import { writeMailFile } from '../lib/five-kilobytes.ts';
import { FORWARDED, startPostern } from '../lib/postern.ts';
import { alternate } from '../lib/rounds.ts';
import type { Row } from '../lib/row.ts';
import { SESSIONS, acceptedRates } from '../lib/smtp-source.ts';
import { startPostfix } from '../../test/harness/postfix.ts';

const COUNT = 3000;

export const row: Row = {
  number: '4b',
  measure: 'SMTP, 5 kB, accepted durably',
  reference: 'Postfix that checks nothing',
  goals: [
    { name: `${SESSIONS[0]} sessions`, atLeast: 1.5 },
    { name: `${SESSIONS[1]} sessions`, atLeast: 2.5 },
  ],
  async run({ rounds }) {
    await using open = new AsyncDisposableStack();
    const mail = open.adopt(await writeMailFile(), (it) => it.remove());
    const daemon = open.adopt(await startPostern({ takesMail: true }), (it) => it.close());
    // What it takes waits, as with us: only the taking is measured.
    const settings = { defer_transports: 'virtual', in_flow_delay: '0' };
    const postfix = open.adopt(await startPostfix({ settings }), (it) => it.close());
    const many = { count: COUNT, messageFile: mail.path };
    return await alternate({
      rounds,
      ours: () => acceptedRates({ ...many, port: daemon.smtpPort, to: FORWARDED }),
      reference: () => acceptedRates({ ...many, port: postfix.port }),
    });
  },
};
