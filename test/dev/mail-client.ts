/** A catching MX with a folder of its own, and a real SMTP client that talks to it. */
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import SMTPConnection, { type SMTPConnectionOptions } from 'nodemailer/lib/smtp-connection';
import { onTestFinished } from 'vitest';
import { type CatchingMx, type CatchingMxOptions, startCatchingMx } from '../../src/dev/catching-mx.ts';
import { silentLog } from '../../src/lib/log.ts';
import { startTestDns } from '../harness/dns.ts';
import type { ZoneRecord } from '../../src/dev/dns-server.ts';

export async function temporaryFolder(): Promise<string> {
  const folder = await mkdtemp(join(tmpdir(), 'postern-mx-'));
  onTestFinished(() => rm(folder, { recursive: true, force: true }));
  return folder;
}

export async function startMx(
  zone: readonly ZoneRecord[] = [],
  options: Partial<CatchingMxOptions> = {},
): Promise<CatchingMx> {
  const { resolver } = await startTestDns(zone);
  const folder = options.folder ?? (await temporaryFolder());
  const mx = await startCatchingMx({ folder, hostname: 'mx.there.test', resolver, log: silentLog, ...options });
  onTestFinished(() => mx.close());
  return mx;
}

/** One connection, with the client's own view of what happened. */
export async function connected(mx: CatchingMx, options: SMTPConnectionOptions = {}): Promise<SMTPConnection> {
  const client = new SMTPConnection({
    host: '127.0.0.1',
    port: mx.port,
    name: 'mail.example.test',
    tls: { rejectUnauthorized: false },
    ...options,
  });
  onTestFinished(() => client.close());
  await new Promise<void>((resolve, reject) => {
    client.once('error', reject);
    client.connect((error) => (error ? reject(error) : resolve()));
  });
  return client;
}

export interface Sent {
  readonly accepted: readonly string[];
  readonly rejected: readonly string[];
  readonly response: string;
}

export function send(client: SMTPConnection, to: string[], mail: Buffer): Promise<Sent> {
  return new Promise((resolve, reject) => {
    client.once('error', reject);
    client.send({ from: 'bounce@example.test', to }, mail, (error, info) => {
      if (error) reject(error);
      else resolve({ accepted: info.accepted, rejected: info.rejected, response: info.response });
    });
  });
}

/** Lines with canonical ends. */
export function lines(...text: string[]): Buffer {
  return Buffer.from([...text, ''].join('\r\n'));
}
