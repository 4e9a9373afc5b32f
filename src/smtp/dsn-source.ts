/** Where the bytes of our own delivery reports come from: signed as mail of the server itself, with the null sender. */
import { z } from 'zod';
import { needsSmtpUtf8 } from '../lib/addresses.ts';
import { signDkim } from '../mail/dkim.ts';
import { deliveryReport } from '../mail/dsn.ts';
import type { Desk } from '../mail/finish.ts';
import type { Source } from '../queue/interfaces.ts';

const report = z.object({
  to: z.string(),
  failed: z.array(z.object({ address: z.string(), reply: z.string(), remote: z.string().nullable(), at: z.int() })),
  arrived: z.int(),
  headers: z.string(),
});

/** `messages.source` of the kind `dsn`; mail/dsn.ts says what it means. */
export type ReportSource = z.output<typeof report>;

/** The same without the header lines of the message that it tells of. */
export function withoutHeaders(json: string): string {
  return JSON.stringify({ ...report.parse(JSON.parse(json)), headers: '' });
}

/** The source of messages of the kind `dsn`. */
export function createDsnSource(desk: Desk): Source {
  return {
    async prepare({ id, domain, tenant, source, created_at: date }) {
      const what = report.parse(JSON.parse(source));
      const messageId = `<${id.slice(id.indexOf('_') + 1)}@${domain}>`;
      const bytes = deliveryReport({ ...what, hostname: domain, date, messageId });
      const keys = await desk.keysOf(domain, tenant);
      if (keys.length === 0) throw new Error(`there is no DKIM key for ${domain}`);
      const signature = await signDkim([bytes], keys, desk.now());
      const size = signature.length + bytes.length;
      return { kind: 'ready', sender: '', content: [signature, bytes], size, smtpUtf8: needsSmtpUtf8(what.to) };
    },
  };
}
