/** Mail of five kilobytes that is signed, and the records that show that it is genuine: SPF, DKIM and DMARC of its sender pass. */
import { generateKeyPairSync } from 'node:crypto';
import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import nodemailer from 'nodemailer';
import type { ZoneRecord } from '../../src/dev/dns-server.ts';

const DOMAIN = 'sender.test';
export const SENDER = `news@${DOMAIN}`;
const SELECTOR = 'bench';

export interface SignedMail {
  /** With the line ends that smtp-source wants. */
  readonly path: string;
  readonly records: readonly ZoneRecord[];
  remove(): Promise<void>;
}

/** `text`: 70 lines of 70 letters. */
export async function writeSignedMail(text = `${'x'.repeat(70)}\n`.repeat(70)): Promise<SignedMail> {
  const { privateKey, publicKey } = generateKeyPairSync('rsa', {
    modulusLength: 2048,
    publicKeyEncoding: { type: 'spki', format: 'der' },
    privateKeyEncoding: { type: 'pkcs8', format: 'pem' },
  });
  const dkim = { domainName: DOMAIN, keySelector: SELECTOR, privateKey };
  const transport = nodemailer.createTransport({ streamTransport: true, newline: 'unix', dkim });
  const { message } = await transport.sendMail({
    from: SENDER,
    to: 'info@forms.test',
    subject: 'five kilobytes',
    text,
  });
  const folder = await mkdtemp(join(tmpdir(), 'postern-bench-'));
  const path = join(folder, 'mail');
  await writeFile(path, message);
  const key = publicKey.toString('base64');
  return {
    path,
    records: [
      { name: DOMAIN, type: 'TXT', value: 'v=spf1 ip4:127.0.0.1 -all' },
      { name: `${SELECTOR}._domainkey.${DOMAIN}`, type: 'TXT', value: `v=DKIM1; k=rsa; p=${key}` },
      { name: `_dmarc.${DOMAIN}`, type: 'TXT', value: 'v=DMARC1; p=reject' },
    ],
    remove: () => rm(folder, { recursive: true }),
  };
}
