/** What the bench compares with does the same work: each server comes to the same verdicts about the same mail. */
import { readFile } from 'node:fs/promises';
import { expect, onTestFinished, test } from 'vitest';
import { startCheckingExim } from '../../bench/lib/checking-exim.ts';
import { startCheckingHaraka } from '../../bench/lib/checking-haraka.ts';
import { startCheckingPostfix, type Relaying } from '../../bench/lib/checking-postfix.ts';
import { DOMAIN, FORWARDED, startPostern } from '../../bench/lib/postern.ts';
import { SENDER, writeSignedMail } from '../../bench/lib/signed-mail.ts';
import { sendMail } from '../../bench/lib/smtp-client.ts';
import type { ZoneRecord } from '../../src/dev/dns-server.ts';
import { until } from '../harness/child.ts';
import { startSmtpPeer } from '../harness/smtp-peer.ts';

interface Server {
  readonly port: number;
  close(): Promise<void>;
}

async function postern(records: readonly ZoneRecord[], { port }: Relaying): Promise<Server> {
  const { smtpPort, close } = await startPostern({ takesMail: true, deliverTo: port, records });
  return { port: smtpPort, close };
}

test.for([
  ['Postern', postern],
  ['Postfix', startCheckingPostfix],
  ['Exim', startCheckingExim],
  ['Haraka', startCheckingHaraka],
] as const)('%s passes genuine mail on with its verdicts and SRS, and refuses what is forged', async ([, start]) => {
  const mail = await writeSignedMail();
  onTestFinished(() => mail.remove());
  const next = await startSmtpPeer();
  const server = await start(mail.records, { port: next.port, srsDomain: DOMAIN });
  onTestFinished(() => server.close());
  const genuine = (await readFile(mail.path, 'latin1')).replaceAll('\n', '\r\n');

  const isSent = () => next.messages.some(({ data }) => data.includes('five kilobytes'));
  const bytes = Buffer.from(genuine, 'latin1');
  expect(await sendMail({ port: server.port, from: SENDER, to: FORWARDED, bytes })).toMatch(/^250/);
  await until('the mail is passed on', isSent);
  const { from, data } = next.messages.find(({ data }) => data.includes('five kilobytes')) ?? { from: '', data: '' };
  expect(from).toMatch(/^SRS0[=+-].*@(?:forms|mail\.postern)\.test$/i);
  const header = data.slice(0, data.indexOf('\r\n\r\n')).replaceAll(/\r\n[ \t]/g, ' ');
  expect(header).toMatch(/^(?:authentication-results:.*dkim=pass|dkim: pass)/im);
  expect(header).toMatch(/^(?:authentication-results:.*spf=pass|received-spf: pass)/im);
  expect(header).toMatch(/^authentication-results:.*dmarc=pass/im);

  const altered = Buffer.from(genuine.replace('xxxxx', 'yyyyy'), 'latin1');
  const reply = await sendMail({ port: server.port, from: 'a@other.test', to: FORWARDED, bytes: altered });
  expect(reply).toMatch(/^550/);
});
