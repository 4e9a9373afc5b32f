/** The listener under strain, in the real program: a crowd that dawdles, and many large messages at once. */
import { readFile } from 'node:fs/promises';
import { expect, onTestFinished, test } from 'vitest';
import { openAppliance, PROJECT, type Appliance, type Run } from '../harness/binary.ts';
import { startCatcher, type Catcher } from '../harness/catcher.ts';
import { until } from '../harness/child.ts';
import { SmtpClient } from '../harness/inbound-smtp.ts';

const DOMAIN = 'forms.test';
const INFO = `info@${DOMAIN}`;
const MIB = 1 << 20;
const CONNECTIONS = 1100;

interface World {
  readonly appliance: Appliance;
  readonly catcher: Catcher;
  readonly run: Run;
}

/** With one address that is forwarded. */
async function start(server: Record<string, Record<string, unknown>> = {}): Promise<World> {
  const catcher = await startCatcher();
  const appliance = await openAppliance({ deliverTo: catcher.port, server });
  const domains = { [DOMAIN]: { ...PROJECT.domains[DOMAIN], forwarding: { [INFO]: 'ana@inbox.test' } } };
  await appliance.writeProject({ ...PROJECT, domains });
  const run = await appliance.startVerified();
  return { appliance, catcher, run };
}

/** Resident memory: now, or the most since its start; bytes. */
async function memoryOf({ pid }: Run, what: 'VmRSS' | 'VmHWM'): Promise<number> {
  const status = await readFile(`/proc/${pid}/status`, 'utf8');
  return Number(new RegExp(`^${what}:\\s+(\\d+) kB$`, 'm').exec(status)?.[1]) * 1024;
}

function mail(reference: string): string {
  return `From: ann@sender.test\r\nSubject: ${reference}\r\nMessage-ID: <${reference}@sender.test>\r\n\r\nx`;
}

test('a thousand clients that say nothing or drip have to make room, and meanwhile mail flows', async () => {
  // Else the listener would turn most of them away.
  const { appliance, catcher } = await start({ limits: { smtp: { connections: CONNECTIONS } } });
  const { smtpPort: port } = appliance;
  const crowd: SmtpClient[] = [];

  async function connect(count: number): Promise<SmtpClient[]> {
    const clients: SmtpClient[] = [];
    for (let i = 0; i < count; i++) clients.push(await SmtpClient.raw(port, '127.0.0.1', `127.0.${1 + (i % 20)}.2`));
    crowd.push(...clients);
    return clients;
  }

  // These first: when it is crowded, they have ten seconds for a command.
  const messages = await connect(300);
  await Promise.all(
    messages.map(async (client) => {
      await client.reply();
      for (const command of ['EHLO slow.test', 'MAIL FROM:<a@slow.test>', `RCPT TO:<${INFO}>`, 'DATA'])
        await client.say(command);
    }),
  );
  const commands = await connect(300);
  await connect(400);
  const drip = setInterval(() => {
    for (const client of [...messages, ...commands]) if (!client.socket.destroyed) client.write('N');
  }, 300);
  onTestFinished(() => clearInterval(drip));
  const there = () => crowd.filter(({ socket }) => !socket.readableEnded && !socket.destroyed).length;
  expect(there()).toBe(1000);
  const took: number[] = [];
  for (let i = 0; i < 20; i++) {
    const client = await SmtpClient.open(port);
    const began = performance.now();
    expect(await client.send(mail(`ref-crowd-${i}`), { to: [INFO] })).toMatch(/^250 /);
    took.push(performance.now() - began);
    client.close();
  }
  expect(took.toSorted((a, b) => a - b)[took.length / 2]).toBeLessThan(2000);
  await until('all of it is delivered', () => catcher.count() === 20);
  // However often a byte of it comes, a command takes ten seconds at most until it is no longer crowded.
  await until('there is room again', () => there() <= CONNECTIONS * 0.7);
});

test('twenty messages of 25 MiB at once are never in memory whole, coming in or going out', async () => {
  const { appliance, catcher, run } = await start();
  const before = await memoryOf(run, 'VmRSS');
  const body = Buffer.alloc(24.9 * MIB, `${'x'.repeat(76)}\r\n`);
  const clients = await Promise.all(Array.from({ length: 20 }, () => SmtpClient.open(appliance.smtpPort)));
  const replies = clients.map(async (client, i) => {
    const head = Buffer.from(`${mail(`ref-large-${i}`)}\r\n`);
    return client.send(Buffer.concat([head, body]), { to: [INFO] });
  });
  for (const reply of await Promise.all(replies)) expect(reply).toMatch(/^250 /);
  await until('all of it is delivered', () => catcher.count() === 20);
  // Half a gigabyte has come in, and the garbage of so many pieces is not collected at once.
  expect(((await memoryOf(run, 'VmHWM')) - before) / MIB).toBeLessThan(350);
});
