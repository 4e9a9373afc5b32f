/** Rows 4 and 5: signed mail that both sides check (SPF, DKIM, DMARC), accepted, or forwarded with SRS, against several servers. */
import type { ZoneRecord } from '../../src/dev/dns-server.ts';
import type { CheckingServer, Relaying } from './checking-postfix.ts';
import { sendUntilDelivered } from './delivered.ts';
import { DOMAIN, FORWARDED, startPostern } from './postern.ts';
import { alternate } from './rounds.ts';
import type { Row } from './row.ts';
import { SENDER, writeSignedMail } from './signed-mail.ts';
import { startSmtpSink } from './smtp-sink.ts';
import { SESSIONS, acceptedRates, sendBySmtp, type SourceOptions } from './smtp-source.ts';

interface Reference {
  readonly number: string;
  readonly reference: string;
  readonly atLeast: number;
  /** Messages of a round; default: 1000. */
  readonly count?: number;
  /** What it takes waits in its queue, as with us, or is relayed. */
  start(records: readonly ZoneRecord[], relaying?: Relaying): Promise<CheckingServer>;
}

/** Taken over SMTP and on the disk, a connection for each. */
export function acceptedRow({ number, reference, atLeast, count = 1000, start }: Reference): Row {
  return {
    number,
    measure: 'SMTP, 5 kB, checked, accepted durably',
    reference,
    goals: SESSIONS.map((sessions) => ({ name: `${sessions} sessions`, atLeast })),
    async run({ rounds }) {
      await using open = new AsyncDisposableStack();
      const mail = open.adopt(await writeSignedMail(), (it) => it.remove());
      const { records } = mail;
      const daemon = open.adopt(await startPostern({ takesMail: true, records }), (it) => it.close());
      const other = open.adopt(await start(records), (it) => it.close());
      const many = { count, from: SENDER, messageFile: mail.path };
      return await alternate({
        rounds,
        ours: () => acceptedRates({ ...many, port: daemon.smtpPort, to: FORWARDED }),
        reference: () => acceptedRates({ ...many, port: other.port }),
      });
    },
  };
}

/** In by SMTP, forwarded with SRS, ours also with an ARC seal, and delivered to a sink. */
export function relayedRow({ number, reference, atLeast, count = 1000, start }: Reference): Row {
  return {
    number,
    measure: 'checked and relayed, SRS (ours also sealed by ARC)',
    reference,
    goals: ['a connection each', 'connections kept open'].map((name) => ({ name, atLeast })),
    async run({ rounds }) {
      await using open = new AsyncDisposableStack();
      const mail = open.adopt(await writeSignedMail(), (it) => it.remove());
      const { records } = mail;
      const sink = open.adopt(await startSmtpSink(), (it) => it.close());
      const options = { takesMail: true, deliverTo: sink.port, records };
      const daemon = open.adopt(await startPostern(options), (it) => it.close());
      const other = open.adopt(await start(records, { port: sink.port, srsDomain: DOMAIN }), (it) => it.close());
      await sink.untilCount(1); // the mail of the daemon's own attempt post
      const many = { count, sessions: 20, from: SENDER, messageFile: mail.path };
      async function eachRate(options: SourceOptions): Promise<number[]> {
        const rates: number[] = [];
        for (const keepOpen of [false, true])
          rates.push(await sendUntilDelivered(() => sendBySmtp({ ...options, keepOpen }), sink, options.count));
        return rates;
      }
      return await alternate({
        rounds,
        ours: () => eachRate({ ...many, port: daemon.smtpPort, to: FORWARDED }),
        reference: () => eachRate({ ...many, port: other.port }),
      });
    },
  };
}
