/** A program: sends `count` notifications by nodemailer's pool, signed by its own DKIM, and prints `{"microseconds":N}`. */
import { createTransport } from 'nodemailer';
import { z } from 'zod';
import { notification } from '../lib/notification.ts';

const job = z
  .object({
    smtpPort: z.number(),
    connections: z.number(),
    count: z.number(),
    dkim: z.object({ domainName: z.string(), keySelector: z.string(), privateKey: z.string() }),
  })
  .parse(JSON.parse(process.argv[2] ?? ''));

const transport = createTransport({
  host: '127.0.0.1',
  port: job.smtpPort,
  pool: true,
  maxConnections: job.connections,
  maxMessages: 100,
  ignoreTLS: true,
  dkim: job.dkim,
});
const fields = {
  name: 'Ágnes Kovács',
  email: 'agnes.kovacs@customer.test',
  message: 'Are you open at nine?\n'.repeat(12),
};
const start = performance.now();
await Promise.all(Array.from({ length: job.count }, () => transport.sendMail(notification(fields))));
console.log(JSON.stringify({ microseconds: Math.round((performance.now() - start) * 1000) }));
transport.close();
