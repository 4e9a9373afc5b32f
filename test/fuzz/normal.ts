/**
 * What a site does all day, from a thread of its own, so that nothing but the daemon makes it wait: form posts, a look at
 * the forms over the operator's socket, mail in. Messages: in `NormalOrder` at the start and `'stop'`; out the samples.
 */
import { Agent, request, type RequestOptions } from 'node:http';
import { connect } from 'node:net';
import { setTimeout as sleep } from 'node:timers/promises';
import { parentPort, workerData } from 'node:worker_threads';
import type { NormalOrder, NormalSample } from './probes.ts';

const { formUrl, socketPath, smtpPort, alias }: NormalOrder = workerData;
const FORM = { 'Content-Type': 'application/x-www-form-urlencoded', Accept: 'application/json' };
const POST = 'name=Ann&message=Are+you+open+on+Friday%3F';
const MESSAGE = 'From: a@sender.test\r\nSubject: Hello\r\n\r\nHello.\r\n.';
const agent = new Agent({ keepAlive: true });
const samples: NormalSample[] = [];
let stopped = false;

parentPort?.once('message', () => (stopped = true));
await Promise.all([
  every(50, 'form post', () => ask(formUrl, { method: 'POST', agent, headers: FORM }, POST)),
  every(500, 'list of forms', () => ask(undefined, { socketPath, path: '/forms' })),
  every(500, 'mail in', mailIn),
]);
agent.destroy();
parentPort?.postMessage(samples);

async function every(ms: number, what: string, work: () => Promise<number>): Promise<void> {
  while (!stopped) {
    const at = performance.now();
    const status = await work();
    samples.push({ what, at, ms: performance.now() - at, status });
    await sleep(ms);
  }
}

/** The status of the answer; 0 where the connection was cut. */
function ask(url: string | undefined, options: RequestOptions, body = ''): Promise<number> {
  return new Promise((resolve) => {
    const sent = request(url ?? 'http://localhost', options, (response) => {
      response.resume();
      response.once('end', () => resolve(response.statusCode ?? 0));
    });
    sent.once('error', () => resolve(0));
    sent.end(body);
  });
}

/** One message on a connection of its own: the code of the last reply but that to QUIT, 0 where the connection was cut. */
function mailIn(): Promise<number> {
  const steps = ['EHLO client.test', 'MAIL FROM:<a@sender.test>', `RCPT TO:<${alias}>`, 'DATA', MESSAGE];
  return new Promise((resolve) => {
    let heard = '';
    let code = 0;
    const socket = connect(smtpPort, '127.0.0.1');
    socket.setEncoding('latin1').on('data', (text: string) => {
      heard += text;
      const done = /^(\d{3}) .*\r\n$/m.exec(heard);
      if (done === null || socket.writableEnded) return;
      code = Number(done[1]);
      heard = '';
      const step = steps.shift();
      if (step === undefined || code >= 400) socket.end('QUIT\r\n');
      else socket.write(`${step}\r\n`);
    });
    socket.once('error', () => resolve(0));
    socket.once('close', () => resolve(code));
  });
}
