/** Row 10: how soon the mail of a form arrives at a live domain for which 10,000 wait, beside 1,000,000 for dead ones. */
import { setTimeout as sleep } from 'node:timers/promises';
import { fillQueue, type Backlog } from '../lib/backlog.ts';
import { startMailHosts } from '../lib/mail-hosts.ts';
import { startPostern } from '../lib/postern.ts';
import type { Row } from '../lib/row.ts';

const LIVE = 'live.healthy.test';
const WAITING = 10_000;
const DEAD_DOMAINS = 1000;
const FOR_EACH = 1000;
/** Between two posts, ms. */
const PAUSE = 300;
/** What has not arrived by then counts as late as that, ms. */
const PATIENCE = 120_000;

export const row: Row = {
  number: '10',
  measure: 'ms to the mail of a post to a live domain, 10,000 waiting for it, 1,000,000 for dead ones',
  reference: '(a limit)',
  goals: [{ atMost: 2000 }],
  async run({ rounds }) {
    await using open = new AsyncDisposableStack();
    const hosts = open.adopt(await startMailHosts(), (it) => it.close());
    const dead = Array.from({ length: DEAD_DOMAINS }, (_, i): Backlog => {
      return { destination: `d${i}.silent.test`, count: FOR_EACH, isHeld: false };
    });
    const backlogs = [...dead, { destination: LIVE, count: WAITING, isHeld: true }];
    const options = {
      mailPort: hosts.port,
      records: hosts.records,
      formTo: `office@${LIVE}`,
      fill: (path: string) => fillQueue(path, backlogs),
    };
    const daemon = open.adopt(await startPostern(options), (it) => it.close());
    await daemon.release(LIVE);
    const waits: Promise<number>[] = [];
    for (let round = 0; round < rounds; round++) {
      waits.push(waitOf(`Fresh${round}`, daemon.formUrl, hosts.arrivalOf(`Fresh${round}`)));
      await sleep(PAUSE);
    }
    return [{ ours: [Math.max(...(await Promise.all(waits)))], reference: [] }];
  },
};

/** Posts with this name; answers how long after the answer its mail was there. */
async function waitOf(name: string, url: string, arrival: Promise<number>): Promise<number> {
  const body = new URLSearchParams({ name, email: 'first@customer.test', message: 'Is anybody there?' });
  const answer = await fetch(url, { method: 'POST', body, headers: { accept: 'application/json' } });
  if (answer.status !== 200) throw new Error(`the form answers ${answer.status}`);
  await answer.arrayBuffer();
  const accepted = performance.now();
  const late = sleep(PATIENCE, accepted + PATIENCE, { ref: false });
  return Math.max(0, (await Promise.race([arrival, late])) - accepted);
}
