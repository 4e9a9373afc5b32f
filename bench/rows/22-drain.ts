/** Row 22: how fast the mail of one domain leaves for which 900,000 have waited: the operator releases it, and it takes all. */
import { setTimeout as sleep } from 'node:timers/promises';
import { fillQueue } from '../lib/backlog.ts';
import { startPostern, type Daemon } from '../lib/postern.ts';
import { alternate } from '../lib/rounds.ts';
import type { Row } from '../lib/row.ts';
import { startSmtpSink, type SmtpSink } from '../lib/smtp-sink.ts';

const REVIVED = 'owner.test';
const MANY = 900_000;
/** More than leave in a round. */
const FEW = 20_000;
/** Counted from a second after the first, ms. */
const COUNTED = 5000;

export const row: Row = {
  number: '22',
  measure: `delivered to one domain, from a queue with ${MANY} for it`,
  reference: `from one with ${FEW} a round`,
  goals: [{ atLeast: 0.9 }],
  async run({ rounds }) {
    await using open = new AsyncDisposableStack();
    const many = await start(MANY);
    const few = await start(FEW * (rounds + 1));
    return await alternate({
      rounds,
      ours: async () => [await deliveredPerSecond(many)],
      reference: async () => [await deliveredPerSecond(few)],
    });

    async function start(count: number): Promise<Waiting> {
      const sink = open.adopt(await startSmtpSink(), (it) => it.close());
      const options = {
        deliverTo: sink.port,
        fill: (path: string) => fillQueue(path, [{ destination: REVIVED, count, isHeld: true }]),
      };
      const daemon = open.adopt(await startPostern(options), (it) => it.close());
      return { count, sink, daemon };
    }
  },
};

interface Waiting {
  /** So many waited at the beginning. */
  readonly count: number;
  readonly sink: SmtpSink;
  readonly daemon: Daemon;
}

/** Releases the mail for a while. */
async function deliveredPerSecond({ count, sink, daemon }: Waiting): Promise<number> {
  await daemon.release(REVIVED);
  await sink.untilCount(sink.count() + 1);
  await sleep(1000);
  const [before, began] = [sink.count(), performance.now()];
  await sleep(COUNTED);
  const perSecond = ((sink.count() - before) / (performance.now() - began)) * 1000;
  await daemon.hold(REVIVED);
  // What was on its way arrives.
  let taken = -1;
  while (taken !== sink.count()) {
    taken = sink.count();
    await sleep(500);
  }
  if (taken >= count) throw new Error(`all of ${count} have left: there was nothing to deliver in the end`);
  return perSecond;
}
