/**
 * A program: posts the same form exactly `count` times over `connections` kept-open connections and prints
 * `{"microseconds":N}`, from the first byte sent to the last answer. Anything but 2xx ends it with an error.
 */
import { readFileSync } from 'node:fs';
import { connect } from 'node:net';
import { z } from 'zod';

const job = z
  .object({
    port: z.number(),
    path: z.string(),
    bodyFile: z.string(),
    contentType: z.string(),
    headers: z.record(z.string(), z.string()),
    count: z.number(),
    connections: z.number(),
  })
  .parse(JSON.parse(process.argv[2] ?? ''));

const body = readFileSync(job.bodyFile);
const head = [
  `POST ${job.path} HTTP/1.1`,
  `Host: 127.0.0.1:${job.port}`,
  'Accept: application/json',
  `Content-Type: ${job.contentType}`,
  ...Object.entries(job.headers).map(([name, value]) => `${name}: ${value}`),
  `Content-Length: ${body.length}`,
];
const request = Buffer.concat([Buffer.from(`${head.join('\r\n')}\r\n\r\n`), body]);

let left = job.count;
const start = performance.now();
await Promise.all(Array.from({ length: Math.min(job.connections, job.count) }, postInTurn));
console.log(JSON.stringify({ microseconds: Math.round((performance.now() - start) * 1000) }));

/** One connection: the next post goes out as soon as the last is answered. */
function postInTurn(): Promise<void> {
  return new Promise((resolve, reject) => {
    const socket = connect({ port: job.port, host: '127.0.0.1', noDelay: true });
    let answer = '';
    socket.setEncoding('latin1').on('data', (text: string) => {
      answer += text;
      const end = answer.indexOf('\r\n\r\n');
      if (end === -1) return;
      const length = Number(/^content-length: *(\d+)/im.exec(answer.slice(0, end))?.[1]);
      if (answer.length < end + 4 + length) return;
      if (!answer.startsWith('HTTP/1.1 2')) reject(new Error(answer));
      answer = '';
      next();
    });
    socket.on('error', reject);
    socket.on('close', () => reject(new Error('the server closed a connection')));
    next();
    function next(): void {
      if (left-- > 0) {
        socket.write(request);
        return;
      }
      socket.removeAllListeners('close');
      socket.end();
      resolve();
    }
  });
}
