/** What visitors write, however odd, leaves signed so that verifiers of other people agree, after Postfix has carried it. */
import { execFile } from 'node:child_process';
import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { expect, onTestFinished, test } from 'vitest';
import { openAppliance, PROJECT, type Published } from '../harness/binary.ts';
import { needPackage } from '../harness/debian.ts';
import { verifyWithDkimpy } from '../harness/dkimpy.ts';
import { startPostfix } from '../harness/postfix.ts';
import { temporaryFolder } from '../harness/store.ts';

const run = promisify(execFile);

const MESSAGES: readonly string[] = [
  'x',
  'こんにちは。\n山田です。',
  '.\n..\n.leading\n\n.\n',
  'From nobody\nFrom: nobody\n\nBcc: nobody@other.test',
  `${'long '.repeat(2000)}end`,
  'w'.repeat(5000).replaceAll(/.{9}/g, 'word=2Cand'),
  'trailing blanks   \t \n\t\nand\u00a0a no-break one\u00a0\n   \n\n\n',
  'bare\rcarriage\rreturns\r\nand\u2028separators\u2029and\u0085more',
  '🦉 ‮rtl‬ \u0000 nul \u001b[31m and \ufeff marks',
  '<b>html</b> & {{ form.message }} {% if %} "quotes" \'single\' \\back',
  '=3D =\n==\n=20',
];

const FILES = [
  { name: '写真 "1".bin', bytes: Buffer.from(Array.from({ length: 300_000 }, (_, i) => (i * 7919) % 256)) },
  { name: 'empty.txt', bytes: Buffer.alloc(0) },
  { name: 'lines.txt', bytes: Buffer.from('.\r\n\r.\n\n..\r\nno end') },
];

test('dkimpy and OpenDKIM verify each signature of each mail', async () => {
  needPackage('/usr/sbin/opendkim', 'opendkim');
  const mx = await startPostfix();
  onTestFinished(() => mx.close());
  const appliance = await openAppliance({ deliverTo: mx.port });
  await appliance.writeProject(projectWithBothKeys());
  await appliance.startVerified();
  for (const [i, message] of MESSAGES.entries()) {
    const body = new FormData();
    body.set('name', `Ann “${i}” Example, Ph.D.`);
    body.set('email', `ann${i}@inbox.test`);
    body.set('message', message);
    const file = FILES[i];
    if (file !== undefined) body.set('plan', new Blob([file.bytes]), file.name);
    const answer = await fetch(appliance.formUrl, { method: 'POST', body, headers: { Accept: 'application/json' } });
    expect({ i, status: answer.status, text: await answer.text() }).toMatchObject({ i, status: 200 });
  }
  // One to the owner and one to the visitor.
  const mails = await mx.untilMessages(2 * MESSAGES.length, 60_000);
  expect(mails.length).toBe(2 * MESSAGES.length);
  const raws = mails.map(({ raw }) => raw);
  expect(await verifyWithDkimpy(raws, appliance.published())).toEqual(raws.map(() => ['pass', 'pass']));
  expect(await verifyWithOpendkim(raws, appliance.published())).toEqual(raws.map(() => ['succeeded', 'succeeded']));
});

function projectWithBothKeys(): object {
  const project = structuredClone(PROJECT);
  const domain = project.domains['forms.test'];
  Object.assign(domain, { dkim: { algorithms: ['rsa', 'ed25519'] } });
  // Texts that look like attacks are what a signature has to survive.
  const form = { acknowledgment: { enabled: true }, spam_protection: { content_filter: false } };
  Object.assign(domain.forms.contact, form);
  return project;
}

/** The verdict of each signature: OpenDKIM says one word for a message, so that each is shown alone. */
async function verifyWithOpendkim(raws: readonly Buffer[], records: readonly Published[]): Promise<string[][]> {
  const folder = await temporaryFolder();
  await writeFile(join(folder, 'records'), records.map(({ name, value }) => `${name} ${value}\n`).join(''));
  await writeFile(join(folder, 'opendkim.conf'), `Mode v\nTestDNSData file:${join(folder, 'records')}\n`);
  const verdicts: string[][] = [];
  for (const raw of raws) {
    const alone = eachSignatureAlone(raw);
    for (const [i, message] of alone.entries()) await writeFile(join(folder, `${i}.eml`), message);
    const files = alone.map((_, i) => `${i}.eml`).join(',');
    const options = { cwd: folder };
    const { stdout, stderr } = await run(
      '/usr/sbin/opendkim',
      ['-x', 'opendkim.conf', '-b', 'v', '-t', files],
      options,
    );
    verdicts.push((stdout + stderr).match(/(?<=^opendkim: \S+: verification .*)\w+$/gm) ?? []);
  }
  return verdicts;
}

/** The message as often as it has signatures, each time with one. They come first and do not sign each other. */
function eachSignatureAlone(raw: Buffer): Buffer[] {
  const text = raw.toString('latin1');
  const signatures = text.match(/^DKIM-Signature:.*\r\n(?:[ \t].*\r\n)*/gim) ?? [];
  const rest = signatures.reduce((left, signature) => left.replace(signature, ''), text);
  return signatures.map((signature) => Buffer.from(signature + rest, 'latin1'));
}
