/** Row 4: signed mail taken over SMTP, checked (SPF, DKIM, DMARC) and on the disk, a connection for each. */
import { startCheckingPostfix } from '../lib/checking-postfix.ts';
import { FORWARDED, startPostern } from '../lib/postern.ts';
import { alternate } from '../lib/rounds.ts';
import type { Row } from '../lib/row.ts';
import { SENDER, writeSignedMail } from '../lib/signed-mail.ts';
import { sendBySmtp, type SourceOptions } from '../lib/smtp-source.ts';

const COUNT = 1000;
const SESSIONS = [10, 50];

export const row: Row = {
  number: '4',
  measure: 'SMTP, 5 kB, checked, accepted durably',
  reference: 'Postfix + policyd-spf + OpenDKIM + OpenDMARC',
  goals: [
    { name: '10 sessions', atLeast: 5 },
    { name: '50 sessions', atLeast: 5 },
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
      ours: () => eachRate({ ...many, port: daemon.smtpPort, to: FORWARDED }),
      reference: () => eachRate({ ...many, port: postfix.port }),
    });
  },
};

async function eachRate(options: Omit<SourceOptions, 'sessions'>): Promise<number[]> {
  const rates: number[] = [];
  for (const sessions of SESSIONS) {
    const began = performance.now();
    await sendBySmtp({ ...options, sessions });
    rates.push(options.count / ((performance.now() - began) / 1000));
  }
  return rates;
}
