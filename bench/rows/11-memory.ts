/** Row 11: resident memory of the daemon, idle and at its busiest; what limits it is a figure, not somebody else's. */
import { setTimeout as sleep } from 'node:timers/promises';
import { postUntilDelivered } from '../lib/delivered.ts';
import { forgetPeak, residentNow, residentPeak } from '../lib/memory.ts';
import { FORWARDED, startPostern, type Daemon } from '../lib/postern.ts';
import type { Row, Samples } from '../lib/row.ts';
import { sendMail } from '../lib/smtp-client.ts';
import { startSmtpSink, type SmtpSink } from '../lib/smtp-sink.ts';

const POSTS = 5000;
const LARGE = 100;
const MIB = 1 << 20;
/** After this nothing of the start is left to do, and the delivery thread has ended, ms. */
const SETTLED = 75_000;

export const row: Row = {
  number: '11',
  measure: 'resident memory, MiB',
  reference: '(a limit)',
  goals: [
    { name: 'idle', atMost: 110 },
    { name: 'at full load', atMost: 200 },
    { name: '100 mails of 25 MiB in and out', atMost: 256 },
  ],
  async run({ rounds }) {
    const all: number[][] = [];
    for (let round = 0; round < rounds; round++) all.push(await figures());
    return [0, 1, 2].map((goal): Samples => ({ ours: all.map((each) => each[goal] ?? Number.NaN), reference: [] }));
  },
};

/** Of daemons that have done nothing before: memory is seldom given back. */
async function figures(): Promise<number[]> {
  await using open = new AsyncDisposableStack();
  const sink = open.adopt(await startSmtpSink(), (it) => it.close());
  const posted = await withDaemon(sink, async (daemon) => {
    await sleep(SETTLED);
    const idle = await residentNow(daemon.pid);
    await forgetPeak(daemon.pid);
    await postUntilDelivered(daemon.formUrl, sink, POSTS);
    return [idle, await residentPeak(daemon.pid)];
  });
  const large = await withDaemon(sink, async (daemon) => {
    await forgetPeak(daemon.pid);
    const before = sink.count();
    await Promise.all(Array.from({ length: LARGE }, () => sendLarge(daemon.smtpPort)));
    await sink.untilCount(before + LARGE, 600_000);
    return residentPeak(daemon.pid);
  });
  return [...posted, large];
}

async function withDaemon<T>(sink: SmtpSink, measure: (daemon: Daemon) => Promise<T>): Promise<T> {
  const before = sink.count();
  const daemon = await startPostern({ takesMail: true, deliverTo: sink.port });
  try {
    await sink.untilCount(before + 1); // the mail of the daemon's own attempt post
    return await measure(daemon);
  } finally {
    await daemon.close();
  }
}

const HEADER = 'From: <forms@forms.test>\r\nTo: <info@forms.test>\r\nSubject: large\r\n\r\n';
const BODY = Buffer.concat([Buffer.from(HEADER), Buffer.alloc(24.9 * MIB, `${'x'.repeat(76)}\r\n`)]);

async function sendLarge(port: number): Promise<void> {
  const reply = await sendMail({ port, to: FORWARDED, bytes: BODY });
  if (!reply.startsWith('250')) throw new Error(`a large mail was not taken: ${reply}`);
}
