/**
 * `npm run bench:hour [-- --minutes N]`: posts with and without a file, mail that comes in, and requests of the API, a few dozen a
 * second for an hour; prints the daemon's memory every five minutes. What is kept of them grows, its memory should not.
 */
import { parseArgs } from 'node:util';
import { setTimeout as sleep } from 'node:timers/promises';
import { proportionalNow, residentNow } from './lib/memory.ts';
import { FORWARDED, startPostern } from './lib/postern.ts';
import { multipartPost, type Post, urlencodedPost } from './lib/posts.ts';
import { sendMail } from './lib/smtp-client.ts';
import { startSmtpSink } from './lib/smtp-sink.ts';

const MINUTE_MS = 60_000;
const PRINT_MS = 5 * MINUTE_MS;
const MAIL = Buffer.from(
  `From: <ann@customer.test>\r\nTo: <${FORWARDED}>\r\nSubject: hello\r\n\r\n${'A line of a mail.\r\n'.repeat(200)}`,
);

const { values } = parseArgs({ options: { minutes: { type: 'string', default: '60' } } });
await using open = new AsyncDisposableStack();
const sink = open.adopt(await startSmtpSink(), (it) => it.close());
const daemon = open.adopt(await startPostern({ takesMail: true, deliverTo: sink.port }), (it) => it.close());
const authorization = await daemon.authorization();
const began = performance.now();
const end = began + Number(values.minutes) * MINUTE_MS;
let done = 0;
console.log('minute  resident MiB  proportional MiB  posts, mails and requests');
await Promise.all([
  again(50, () => post(urlencodedPost())),
  again(500, () => post(multipartPost())),
  again(100, takeMail),
  again(200, list),
  print(),
]);

/** Does it every so many ms, until the end. */
async function again(everyMs: number, work: () => Promise<void>): Promise<void> {
  while (performance.now() < end) {
    const next = performance.now() + everyMs;
    await work();
    done++;
    await sleep(Math.max(0, next - performance.now()));
  }
}

async function post({ contentType, body }: Post): Promise<void> {
  const headers = { 'Content-Type': contentType, Accept: 'application/json' };
  await expectOk(await fetch(daemon.formUrl, { method: 'POST', headers, body: new Uint8Array(body) }));
}

async function takeMail(): Promise<void> {
  const reply = await sendMail({ port: daemon.smtpPort, to: FORWARDED, bytes: MAIL });
  if (!reply.startsWith('250')) throw new Error(`a mail was not taken: ${reply}`);
}

async function list(): Promise<void> {
  await expectOk(await fetch(`http://127.0.0.1:${daemon.port}/submissions?limit=20`, { headers: authorization }));
}

async function expectOk(answer: Response): Promise<void> {
  const text = await answer.text();
  if (!answer.ok) throw new Error(`${answer.url} answers ${answer.status}: ${text}`);
}

async function print(): Promise<void> {
  for (let at = began; at <= end; at += PRINT_MS) {
    await sleep(Math.max(0, at - performance.now()));
    const figures = [await residentNow(daemon.pid), await proportionalNow(daemon.pid), done];
    console.log([Math.round((at - began) / MINUTE_MS), ...figures.map(Math.round)].join('  '));
  }
}
