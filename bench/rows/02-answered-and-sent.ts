/** Row 2: a durable answer against the usual one, which waits for a mail server. */
import { startPostern } from '../lib/postern.ts';
import { urlencodedPost } from '../lib/posts.ts';
import { startReference } from '../lib/program.ts';
import { alternate } from '../lib/rounds.ts';
import type { Row } from '../lib/row.ts';
import { startSmtpSink } from '../lib/smtp-sink.ts';
import { postsPerSecond } from '../lib/wrk.ts';

export const row: Row = {
  number: '2',
  measure: 'the same',
  reference: 'Koa + koa-body + nodemailer that sends before it answers',
  goals: [{ atLeast: 25 }],
  async run({ rounds }) {
    await using open = new AsyncDisposableStack();
    const sink = open.adopt(await startSmtpSink(), (it) => it.close());
    const daemon = open.adopt(await startPostern(), (it) => it.close());
    const settings = { smtpPort: sink.port, connections: 20 };
    const koa = open.adopt(await startReference('koa-nodemailer', settings), (it) => it.close());
    const post = urlencodedPost();
    return await alternate({
      rounds,
      ours: async () => [await postsPerSecond(daemon.formUrl, post)],
      reference: async () => [await postsPerSecond(`http://127.0.0.1:${koa.port}/forms.test/contact`, post)],
    });
  },
};
