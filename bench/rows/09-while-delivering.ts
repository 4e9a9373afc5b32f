/** Row 9: how long visitors wait while the queue delivers at full speed. */
import { postExactly } from '../lib/post-exactly.ts';
import { startPostern } from '../lib/postern.ts';
import { urlencodedPost } from '../lib/posts.ts';
import { alternate } from '../lib/rounds.ts';
import type { Row } from '../lib/row.ts';
import { startSmtpSink } from '../lib/smtp-sink.ts';
import { postsWait } from '../lib/wrk.ts';

const DESTINATION = 'owner.test';
/** More than are delivered meanwhile. */
const WAITING = 5000;
const LOAD = { connections: 4, seconds: 3 };

export const row: Row = {
  number: '9',
  measure: 'answers a second that 99 of 100 visitors would get one after the other, while mail is delivered',
  reference: 'the same while nothing is delivered',
  goals: [{ atLeast: 0.5 }],
  async run({ rounds }) {
    await using open = new AsyncDisposableStack();
    const sink = open.adopt(await startSmtpSink(), (it) => it.close());
    const daemon = open.adopt(await startPostern({ deliverTo: sink.port }), (it) => it.close());
    await sink.untilCount(1); // the mail of the daemon's own attempt post
    const post = urlencodedPost();
    return await alternate({
      rounds,
      async ours() {
        await daemon.hold(DESTINATION);
        await postExactly(daemon.formUrl, post, { count: WAITING });
        await daemon.release(DESTINATION);
        return [1000 / (await postsWait(daemon.formUrl, post, LOAD))];
      },
      async reference() {
        await daemon.hold(DESTINATION);
        return [1000 / (await postsWait(daemon.formUrl, post, LOAD))];
      },
    });
  },
};
