/** Row 16: how soon the first mail to a domain arrives while a thousand other destinations hang, in DNS or after connecting. */
import { setTimeout as sleep } from 'node:timers/promises';
import { until } from '../../test/harness/child.ts';
import { startMailHosts, type MailHosts } from '../lib/mail-hosts.ts';
import { startPostern, type Daemon } from '../lib/postern.ts';
import type { Row } from '../lib/row.ts';

const SILENT = 800;
const DARK = 200;
const FIRST_CONTACTS = 100;
/** In which they are sent, at random times, ms. */
const SPAN = 20_000;
/** Who has not arrived by then counts as late as that, ms. */
const PATIENCE = 60_000;

export const row: Row = {
  number: '16',
  measure: 'ms to a first contact (p99) beside 1,000 hanging destinations',
  reference: '(a limit)',
  goals: [{ atMost: 2000 }],
  async run({ rounds }) {
    await using open = new AsyncDisposableStack();
    const hosts = open.adopt(await startMailHosts(), (it) => it.close());
    const daemon = open.adopt(await startPostern({ mailPort: hosts.port, records: hosts.records }), (it) => it.close());
    const headers = { ...(await daemon.authorization()), 'content-type': 'application/json' };
    function send(to: string): Promise<number> {
      return sendMail(daemon, headers, to);
    }
    const hanging = [
      ...Array.from({ length: SILENT }, (_, i) => `a@h${i}.silent.test`),
      ...Array.from({ length: DARK }, (_, i) => `a@h${i}.dark.test`),
    ];
    // The first round sees them hang, the others see them tried again.
    await Promise.all(hanging.map(send));
    await until('they hang', () => hosts.hanging() >= SILENT, 60_000);
    const figures: number[] = [];
    for (let round = 0; round < rounds; round++) figures.push(await p99(round, hosts, send));
    return [{ ours: [Math.max(...figures)], reference: [] }];
  },
};

async function p99(round: number, hosts: MailHosts, send: (to: string) => Promise<number>): Promise<number> {
  const waits = await Promise.all(
    Array.from({ length: FIRST_CONTACTS }, async (_, i) => {
      await sleep(Math.random() * SPAN);
      const to = `a@n${round}x${i}.healthy.test`;
      const accepted = await send(to);
      const late = sleep(PATIENCE, accepted + PATIENCE, { ref: false });
      return (await Promise.race([hosts.arrival(to), late])) - accepted;
    }),
  );
  return waits.toSorted((one, other) => one - other)[Math.ceil(waits.length * 0.99) - 1] ?? Number.NaN;
}

/** Answers when it was accepted, on the monotonic clock. */
async function sendMail(daemon: Daemon, headers: Record<string, string>, to: string): Promise<number> {
  const body = JSON.stringify({ from: 'office@forms.test', to, subject: 'Hello', text: 'Hello.' });
  const answer = await fetch(`http://127.0.0.1:${daemon.port}/email/send`, { method: 'POST', headers, body });
  if (answer.status !== 200) throw new Error(`the daemon answers ${answer.status}: ${await answer.text()}`);
  await answer.arrayBuffer();
  return performance.now();
}
