/** Row 21: how long visitors wait while what is too old is deleted. */
import { fillDatabase } from '../lib/fill.ts';
import { startPostern } from '../lib/postern.ts';
import { urlencodedPost } from '../lib/posts.ts';
import type { Row } from '../lib/row.ts';
import { postsWait } from '../lib/wrk.ts';

/** Of a year: three quarters are too old, far more than are deleted meanwhile. */
const SUBMISSIONS = 400_000;
const LOAD = { connections: 4, seconds: 8 };
const NEVER = { submissions: '1000d', events: '1000d', message_bodies: '1000d' };

export const row: Row = {
  number: '21',
  measure: 'answers a second that 99 of 100 visitors would get one after the other, while old submissions are deleted',
  reference: 'the same while nothing is deleted',
  goals: [{ atLeast: 0.5 }],
  async run({ rounds }) {
    return [{ reference: await answers(rounds, NEVER), ours: await answers(rounds, {}) }];
  },
};

/** Of one daemon after the other, each with a database of its own: deleting goes on between the rounds. */
async function answers(rounds: number, retention: object): Promise<number[]> {
  const daemon = await startPostern({ fill: (path) => fillDatabase(`sqlite:${path}`, SUBMISSIONS), retention });
  const post = urlencodedPost();
  try {
    await postsWait(daemon.formUrl, post, LOAD);
    const result: number[] = [];
    for (let round = 0; round < rounds; round++) result.push(1000 / (await postsWait(daemon.formUrl, post, LOAD)));
    return result;
  } finally {
    await daemon.close();
  }
}
