/** Row 14: the whole way of a form post with everything on, against what one would build from parts. */
import { type Rates, postUntilDelivered } from '../lib/delivered.ts';
import { startPostern } from '../lib/postern.ts';
import { startReference } from '../lib/program.ts';
import { alternate } from '../lib/rounds.ts';
import type { Row } from '../lib/row.ts';
import { startSigningPostfix } from '../lib/signing-postfix.ts';
import { startSmtpSink } from '../lib/smtp-sink.ts';

const OURS = 5000;
const PARTS = 600;

export const row: Row = {
  number: '14',
  measure: 'form post through delivery, everything on',
  reference: 'Koa + koa-body + nodemailer → Postfix + OpenDKIM',
  goals: [
    { name: 'accepted', atLeast: 30 },
    { name: 'delivered', atLeast: 8 },
  ],
  async run({ rounds }) {
    await using open = new AsyncDisposableStack();
    const sink = open.adopt(await startSmtpSink(), (it) => it.close());
    const daemon = open.adopt(await startPostern({ deliverTo: sink.port }), (it) => it.close());
    const postfix = open.adopt(await startSigningPostfix(sink.port), (it) => it.close());
    const settings = { smtpPort: postfix.port, connections: 20 };
    const koa = open.adopt(await startReference('koa-nodemailer', settings), (it) => it.close());
    await sink.untilCount(1); // the mail of the daemon's own attempt post
    return await alternate({
      rounds,
      ours: async () => figures(await postUntilDelivered(daemon.formUrl, sink, OURS)),
      reference: async () =>
        figures(await postUntilDelivered(`http://127.0.0.1:${koa.port}/forms.test/contact`, sink, PARTS)),
    });
  },
};

function figures({ accepted, delivered }: Rates): number[] {
  return [accepted, delivered];
}
