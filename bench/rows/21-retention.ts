/** Row 21: how long visitors wait while what is too old is deleted. */
import Database from 'better-sqlite3';
import { fillDatabase } from '../lib/fill.ts';
import { startPostern } from '../lib/postern.ts';
import { urlencodedPost } from '../lib/posts.ts';
import type { Row } from '../lib/row.ts';
import { postsWait } from '../lib/wrk.ts';

/** Of a year: three quarters are too old, far more than are deleted meanwhile. */
const SUBMISSIONS = 400_000;
/** `retention.submissions` by default. */
const AGE_MS = 90 * 86_400_000;
const LOAD = { connections: 4, seconds: 8 };
const NEVER = { submissions: '1000d', events: '1000d', message_bodies: '1000d' };

export const row: Row = {
  number: '21',
  measure: 'answers a second that 99 of 100 visitors would get one after the other, while old submissions are deleted',
  reference: 'the same while nothing is deleted',
  goals: [{ atLeast: 0.5 }],
  async run({ rounds }) {
    const quiet = await measure(rounds, NEVER);
    const busy = await measure(rounds, {});
    // Else it is another measure.
    if (quiet.left < quiet.before || busy.left === 0 || busy.left === busy.before)
      throw new Error(
        `deleted were ${quiet.before - quiet.left} and ${busy.before - busy.left}, ${busy.left} are left`,
      );
    return [{ reference: quiet.answers, ours: busy.answers }];
  },
};

interface Measured {
  readonly answers: readonly number[];
  /** Submissions that are too old: at the beginning, and at the end. */
  readonly before: number;
  readonly left: number;
}

/** Of one daemon after the other, each with a database of its own: deleting goes on between the rounds. */
async function measure(rounds: number, retention: object): Promise<Measured> {
  let path = '';
  async function fill(empty: string): Promise<void> {
    path = empty;
    await fillDatabase(`sqlite:${path}`, SUBMISSIONS);
  }
  const daemon = await startPostern({ fill, retention });
  const post = urlencodedPost();
  try {
    await postsWait(daemon.formUrl, post, LOAD);
    const before = countOld(path);
    const answers: number[] = [];
    for (let round = 0; round < rounds; round++) answers.push(1000 / (await postsWait(daemon.formUrl, post, LOAD)));
    return { answers, before, left: countOld(path) };
  } finally {
    await daemon.close();
  }
}

function countOld(path: string): number {
  const database = new Database(path, { readonly: true });
  try {
    const count = database.prepare('select count(*) from submissions where created_at < ?').pluck();
    return Number(count.get(Date.now() - AGE_MS));
  } finally {
    database.close();
  }
}
