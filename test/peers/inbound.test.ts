/** The real program takes mail from servers and clients that share no code with it, and a second Postfix gets the forwards. */
import { execFile } from 'node:child_process';
import { promisify } from 'node:util';
import { expect, onTestFinished, test } from 'vitest';
import { openAppliance, PROJECT, type Appliance, type Run } from '../harness/binary.ts';
import { until } from '../harness/child.ts';
import { needPackage } from '../harness/debian.ts';
import { startPostfix, type Postfix, type PostfixOptions } from '../harness/postfix.ts';
import { SmtpClient } from '../harness/inbound-smtp.ts';
import { swaks } from '../harness/swaks.ts';

const execute = promisify(execFile);
const DOMAIN = 'forms.test';
/** Else Postfix would add them, at the end. */
const DATED = 'From: ann@sender.test\r\nDate: Sat, 21 Nov 2026 12:00:00 +0000\r\nMessage-ID: <1@sender.test>\r\n';
const INFO = `info@${DOMAIN}`;

async function postfix(options?: PostfixOptions): Promise<Postfix> {
  const started = await startPostfix(options);
  onTestFinished(() => started.close());
  return started;
}

/** With one address that is forwarded to the given Postfix. */
async function start(mx: Postfix): Promise<{ appliance: Appliance; smtpPort: number; run: Run }> {
  const appliance = await openAppliance({ deliverTo: mx.port });
  const forms = PROJECT.domains[DOMAIN];
  await appliance.writeProject({
    ...PROJECT,
    domains: { [DOMAIN]: { ...forms, forwarding: { [INFO]: 'ana@inbox.test', [`no@${DOMAIN}`]: 'reject' } } },
  });
  const run = await appliance.startVerified();
  return { appliance, smtpPort: appliance.smtpPort, run };
}

test('swaks and Python’s smtplib hand in mail, which a Postfix gets byte for byte', async () => {
  const mx = await postfix();
  const { smtpPort } = await start(mx);
  const body = `${DATED}Subject: one\r\n\r\n.dot\r\nlast\r\n`;
  const one = await swaks(smtpPort, [
    '--from',
    'ann@sender.test',
    '--to',
    INFO,
    '--data',
    body.replaceAll('\r\n', '\\n'),
  ]);
  expect(one).toMatchObject({ code: 0 });
  const refused = await swaks(smtpPort, ['--from', 'ann@sender.test', '--to', `no@${DOMAIN}`]);
  expect(refused.code).toBe(24);
  expect(refused.transcript).toContain('550 5.1.1');
  const relayed = await swaks(smtpPort, ['--from', 'ann@sender.test', '--to', 'victim@elsewhere.test']);
  expect(relayed.transcript).toContain('550 5.7.1');
  needPackage('/usr/bin/python3', 'python3');
  const script = `
import smtplib
with smtplib.SMTP('127.0.0.1', ${smtpPort}) as client:
    client.sendmail('ann@sender.test', ['${INFO}'], b'${DATED.replaceAll('\r\n', '\\r\\n')}Subject: two\\r\\n\\r\\n.dot\\r\\n\\xe4\\r\\n', mail_options=['BODY=8BITMIME'])
`;
  await execute('/usr/bin/python3', ['-c', script]);
  const mails = await mx.untilMessages(2, 30_000);
  const raws = mails.map(({ raw }) => raw.toString('latin1').replaceAll('\r\n', '\n'));
  expect(raws.map((raw) => raw.slice(-60))).toContainEqual(expect.stringMatching(/Subject: one\n\n\.dot\nlast\n+$/));
  expect(raws.map((raw) => raw.slice(-60))).toContainEqual(expect.stringMatching(/Subject: two\n\n\.dot\n\xe4\n$/));
  expect(new Set(mails.map(({ recipient }) => recipient))).toEqual(new Set(['ana@inbox.test']));
  // Nothing vouched for the sender: bounces end here.
  expect(mails.every(({ sender }) => /^b\+[0-9a-z]{42}@mail\.postern\.test$/.test(sender))).toBe(true);
});

test('a Postfix sends through it to another, everything once', async () => {
  const mx = await postfix();
  const { smtpPort } = await start(mx);
  const from = await postfix({ relayTo: `127.0.0.1:${smtpPort}` });
  for (let i = 0; i < 50; i++) {
    const sent = await swaks(from.port, ['--from', 'ann@sender.test', '--to', INFO, '--header', `Subject: mail ${i}`]);
    expect(sent.code).toBe(0);
  }
  const mails = await mx.untilMessages(50, 60_000);
  const subjects = mails.map(({ raw }) => /^Subject: (.*?)\r?$/m.exec(raw.toString('latin1'))?.[1]);
  expect(new Set(subjects).size).toBe(50);
  await expect.poll(() => from.queued()).toBe(0);
});

test('a thousand clients that say nothing or drip hold up nobody', async () => {
  const mx = await postfix();
  const { smtpPort } = await start(mx);
  const idle: SmtpClient[] = [];
  for (let i = 0; i < 1000; i++) idle.push(await SmtpClient.raw(smtpPort, '127.0.0.1', `127.0.${1 + (i % 40)}.2`));
  const drip = setInterval(() => {
    for (const client of idle.slice(0, 200)) if (!client.socket.destroyed) client.write('N');
  }, 500);
  onTestFinished(() => clearInterval(drip));
  await until(
    'there is room again',
    async () => (await swaks(smtpPort, ['--from', 'ann@sender.test', '--to', INFO])).code === 0,
    30_000,
  );
  const began = performance.now();
  for (let i = 0; i < 10; i++) {
    const sent = await swaks(smtpPort, ['--from', 'ann@sender.test', '--to', INFO]);
    expect(sent.code).toBe(0);
  }
  expect(performance.now() - began).toBeLessThan(20_000);
  await mx.untilMessages(11, 30_000);
});

test('whatever kills it, what was answered 250 is forwarded', async () => {
  const mx = await postfix();
  const { appliance, run: first } = await start(mx);
  let run = first;
  const acknowledged = new Set<string>();
  let stop = false;

  async function feed(connection: number): Promise<void> {
    for (let i = 0; !stop; i++) {
      const name = `${connection}-${i}`;
      try {
        const client = await SmtpClient.open(appliance.smtpPort);
        const reply = await client.send(`From: a@sender.test\r\nSubject: ${name}\r\n\r\nx`, { to: [INFO] });
        if (reply.startsWith('250 2.0.0 accepted as ')) acknowledged.add(name);
        client.close();
      } catch {
        await new Promise((resolve) => setTimeout(resolve, 50));
      }
    }
  }

  const feeding = Promise.all([0, 1, 2, 3].map(feed));
  await until('it has begun', () => Promise.resolve(acknowledged.size > 20));
  for (let round = 0; round < 4; round++) {
    await run.end('SIGKILL');
    run = await appliance.start();
    const before = acknowledged.size;
    await until('it goes on', () => Promise.resolve(acknowledged.size > before + 20));
  }
  stop = true;
  await feeding;
  await until('the queue is empty', async () => (await appliance.waiting()) === 0, 60_000);
  // Postfix has taken all of it, and delivers in its own time.
  await expect.poll(missing, { timeout: 60_000 }).toEqual([]);

  async function missing(): Promise<string[]> {
    const mails = await mx.messages();
    const arrived = new Set(mails.map(({ raw }) => /^Subject: (.*?)\r?$/m.exec(raw.toString('latin1'))?.[1]));
    return [...acknowledged].filter((name) => !arrived.has(name));
  }
});
