/** The program among its signals, its files and its disk: what an operator and systemd do to it, and what must not come of that. */
import { once } from 'node:events';
import { existsSync, readdirSync } from 'node:fs';
import { readdir, readFile, rm, writeFile } from 'node:fs/promises';
import { request, type IncomingMessage } from 'node:http';
import { join } from 'node:path';
import { setImmediate } from 'node:timers/promises';
import { expect, test } from 'vitest';
import { codeOf } from '../../src/lib/errors.ts';
import { openAppliance, PROJECT, type Appliance, type Run } from '../harness/binary.ts';
import { startCatcher, type Catcher } from '../harness/catcher.ts';
import { answers, until } from '../harness/child.ts';
import { temporaryFolder } from '../harness/store.ts';
import { sendMany, startLoad, type Tally } from '../harness/load.ts';

const CONNECTIONS = 8;

async function world(): Promise<{ appliance: Appliance; catcher: Catcher }> {
  const catcher = await startCatcher();
  return { catcher, appliance: await openAppliance({ deliverTo: catcher.port }) };
}

/** Waits until all that was accepted has arrived and nothing waits; each came once, nothing that was refused did. */
async function expectOnce({ appliance, catcher }: Awaited<ReturnType<typeof world>>, load: Tally): Promise<void> {
  await until('the queue is empty', async () => (await appliance.waiting()) === 0);
  const arrived = catcher.mails.map(({ reference }) => reference);
  expect([...load.accepted].filter((reference) => !arrived.includes(reference))).toEqual([]);
  expect(arrived.filter((reference) => load.refused.has(reference))).toEqual([]);
  expect(new Set(arrived).size).toBe(arrived.length);
}

test('SIGTERM under load: what was accepted is kept, and it ends well within ten seconds', async () => {
  const { appliance, catcher } = await world();
  const run = await appliance.startVerified();
  const load = startLoad({ url: appliance.formUrl, connections: CONNECTIONS });
  await until('some are accepted', () => load.accepted.size > 100);
  const slow = await beginSlowly(appliance);
  const asked = Date.now();
  run.signal('SIGTERM');
  await until('nobody else comes in', () => appliance.probe().then(() => false, isRefused));
  expect(await slow.finish()).toBe(200);
  expect(await run.ended).toBe(0);
  expect(Date.now() - asked).toBeLessThan(10_000);
  await load.stop();
  expect([...load.refused.values()]).toEqual([]);
  await appliance.start();
  await expectOnce({ appliance, catcher }, load);
});

test('what it has compiled is kept for the next start, even if it is killed', async () => {
  const folder = join(await temporaryFolder(), 'cache');
  const appliance = await openAppliance({ deliverTo: 9, env: { NODE_COMPILE_CACHE: folder } });
  const run = await appliance.start();
  await until('it is written', () => existsSync(folder) && readdirSync(folder, { recursive: true }).length > 100);
  await run.end('SIGKILL');
  expect(readdirSync(folder, { recursive: true }).length).toBeGreaterThan(100);
});

test('a second SIGTERM ends it at once, in the middle of a delivery, and the mail is delivered later', async () => {
  const { appliance, catcher } = await world();
  const run = await appliance.startVerified();
  catcher.hang(true);
  const { accepted } = await sendMany({ url: appliance.formUrl, connections: 1, count: 1 });
  expect(accepted.size).toBe(1);
  await until('the mail is on its way', () => catcher.hung() === 1);
  run.signal('SIGTERM');
  await until('it takes nothing more', () => appliance.probe().then(() => false, isRefused));
  const asked = Date.now();
  expect(await run.end('SIGTERM')).toBe(1);
  expect(Date.now() - asked).toBeLessThan(10_000);
  catcher.hang(false);
  await appliance.start();
  await until('the mail arrives', () => catcher.count() === 1);
  expect([...accepted]).toEqual(catcher.mails.map(({ reference }) => reference));
});

test('once HTTP answers, mail is accepted on every port, too', async () => {
  const { appliance } = await world();
  const hosts = Array.from({ length: 200 }, (_, i) => `127.0.0.${i + 1}`);
  await appliance.configure({ server: { smtp: { listen: hosts.map((host) => `${host}:${appliance.smtpPort}`) } } });
  await appliance.launch();
  const port = Number(new URL(appliance.url).port);
  while (!(await answers(port))) await setImmediate();
  expect(await answers(appliance.smtpPort, hosts.at(-1))).toBe(true);
});

test('signals in the middle of the start are obeyed once it runs', async () => {
  const { appliance } = await world();
  const begun = async (run: Run): Promise<Run> => {
    await until('the start has begun', () => existsSync(join(appliance.folder, 'postern.db.lock')));
    return run;
  };
  const reloaded = await begun(await appliance.launch());
  reloaded.signal('SIGHUP');
  await reloaded.ready();
  expect(await reloaded.end('SIGTERM')).toBe(0);
  await rm(join(appliance.folder, 'postern.db.lock'));
  const ended = await begun(await appliance.launch());
  expect(await ended.end('SIGTERM')).toBe(0);
});

test('SIGUSR1 and SIGUSR2 change nothing: no debugger opens, and it goes on; ps shows its name', async () => {
  const { appliance } = await world();
  const run = await appliance.start();
  run.signal('SIGUSR1');
  run.signal('SIGUSR2');
  run.signal('SIGHUP');
  expect((await appliance.probe()).status).toBe(403);
  expect(run.output()).not.toContain('Debugger');
  expect(await readFile(`/proc/${run.pid}/comm`, 'utf8')).toBe('postern\n');
  expect(await run.end('SIGTERM')).toBe(0);
});

test('nor do they end the processes in which templates are rendered; ps shows what each is', async () => {
  const { appliance, catcher } = await world();
  const own = { mine: { subject: 'Hello', text: 'Hello {{ form.name }}' } };
  const { contact } = PROJECT.domains['forms.test'].forms;
  const forms = { contact: { ...contact, template: 'mine' } };
  await appliance.writeProject({ ...PROJECT, templates: own, domains: { 'forms.test': { forms } } });
  const run = await appliance.startVerified();
  await sendMany({ url: appliance.formUrl, connections: 1, count: 1 });
  await until('the mail arrives', () => catcher.mails.length === 1);
  const tasks = await readdir(`/proc/${run.pid}/task`);
  const lists = await Promise.all(tasks.map((id) => readFile(`/proc/${run.pid}/task/${id}/children`, 'utf8')));
  const children = lists.flatMap((list) => list.split(' ').filter(Boolean).map(Number));
  expect(children.length).toBeGreaterThan(0);
  const names = await Promise.all(children.map(async (pid) => (await readFile(`/proc/${pid}/cmdline`, 'utf8')).trim()));
  expect(names.map((name) => name.replaceAll('\0', ''))).toContain('postern: render');
  for (const pid of children) for (const signal of ['SIGUSR1', 'SIGUSR2'] as const) process.kill(pid, signal);
  await sendMany({ url: appliance.formUrl, connections: 1, count: 1 });
  await until('the next mail arrives', () => catcher.mails.length === 2);
  for (const pid of children) expect(() => process.kill(pid, 0)).not.toThrow();
  const threads = await readdir(`/proc/${run.pid}/task`);
  const named = await Promise.all(threads.map((id) => readFile(`/proc/${run.pid}/task/${id}/comm`, 'utf8')));
  expect(named.map((name) => name.trim())).toEqual(expect.arrayContaining(['postern', 'store', 'delivery']));
  expect(await run.end('SIGTERM')).toBe(0);
});

test('SIGHUP under load takes over the new configuration and drops nothing', async () => {
  const { appliance, catcher } = await world();
  await appliance.configure({ server: { watch: false } });
  const run = await appliance.startVerified();
  const load = startLoad({ url: appliance.formUrl, connections: CONNECTIONS, pauseMs: 50 });
  for (const words of ['Thank you one.', 'Thank you two.', 'Thank you three.']) {
    await appliance.writeProject(thanking(words));
    run.signal('SIGHUP');
    await until('the new words are said', async () => (await thanks(appliance)).includes(words));
    const { size } = load.accepted;
    await until('more are accepted', () => load.accepted.size > size + 20);
  }
  await load.stop();
  expect({ refused: [...load.refused], unanswered: [...load.unanswered] }).toEqual({ refused: [], unanswered: [] });
  await until('the queue is empty', async () => (await appliance.waiting()) === 0);
  const arrived = catcher.mails.map(({ reference }) => reference);
  expect(arrived.filter((reference) => load.accepted.has(reference)).sort()).toEqual([...load.accepted].sort());
  expect(await run.end('SIGTERM')).toBe(0);
});

test('an edit that is invalid changes nothing while it runs, and stops the next start with file, line and column', async () => {
  const { appliance } = await world();
  const run = await appliance.start();
  const file = join(appliance.folder, 'server.yml');
  await writeFile(file, 'server:\n  hostname: mail.postern.test\n  operator: nobody\n');
  run.signal('SIGHUP');
  await until('it complains', () => run.output().includes(`${file}:3:13`));
  expect((await appliance.probe()).status).toBe(403);
  expect(await run.end('SIGTERM')).toBe(0);
  const next = await appliance.launch();
  expect(await next.ended).toBe(78);
  expect(next.output()).toMatch(/server\.yml:3:13.*operator/);
});

test('a port that is taken ends the start with its address, and is worth another try', async () => {
  const first = await world();
  const run = await first.appliance.start();
  const { host } = new URL(first.appliance.url);
  const second = await openAppliance({
    deliverTo: first.catcher.port,
    dns: first.appliance.dns,
    server: { server: { http: { listen: [host] } } },
  });
  const other = await second.launch();
  expect(await other.ended).toBe(1);
  expect(other.output()).toMatch(/^postern: cannot listen on 127\.0\.0\.1:\d+: another program is listening there/m);
  expect(other.output()).not.toContain('    at ');
  expect(await run.end('SIGTERM')).toBe(0);
});

test('a second daemon on the same database is told so, and the first goes on', async () => {
  const first = await world();
  const run = await first.appliance.start();
  const second = await openAppliance({
    deliverTo: first.catcher.port,
    dns: first.appliance.dns,
    server: { database: { url: first.appliance.database } },
  });
  const other = await second.launch();
  // Not 78: the first may be about to end, and then systemd's next try goes well.
  expect(await other.ended).toBe(1);
  expect(other.output()).toContain('another daemon is using it');
  expect(other.output()).not.toContain('    at ');
  expect((await first.appliance.probe()).status).toBe(403);
  expect(await run.end('SIGTERM')).toBe(0);
});

test('a disk with too little room is 503 with Retry-After, and over as soon as there is room again', async () => {
  const { appliance, catcher } = await world();
  await appliance.configure({ server: { watch: false } });
  const run = await appliance.startVerified();
  await appliance.configure({ limits: { free_disk: '9999999GiB' } });
  run.signal('SIGHUP');
  await until('it is full', async () => (await appliance.probe()).status === 503);
  const refusal = await appliance.probe();
  expect(Number(refusal.headers['retry-after'])).toBeGreaterThan(0);
  const during = await sendMany({
    url: appliance.formUrl,
    connections: 2,
    count: 10,
    kind: (n) => (n % 2 ? 'file' : 'plain'),
  });
  expect([...during.refused.values()]).toEqual(Array.from({ length: 10 }, () => 503));
  expect((await appliance.admin('/readyz')).status).toBe(503);
  await appliance.configure({ limits: { free_disk: '1MiB' } });
  run.signal('SIGHUP');
  await until('there is room', async () => (await appliance.probe()).status === 400);
  const after = await sendMany({ url: appliance.formUrl, connections: 2, count: 10 });
  expect(after.accepted.size).toBe(10);
  await expectOnce({ appliance, catcher }, { ...after, refused: during.refused });
  expect(await run.end('SIGTERM')).toBe(0);
});

function isRefused(error: unknown): boolean {
  return codeOf(error) === 'ECONNREFUSED';
}

/** A post whose headers the daemon has read and whose body is still to come. */
async function beginSlowly(appliance: Appliance): Promise<{ finish(): Promise<number> }> {
  const body = 'message=I+am+slow';
  const headers = {
    Accept: 'application/json',
    'Content-Type': 'application/x-www-form-urlencoded',
    'Content-Length': body.length,
    Expect: '100-continue',
  };
  const sent = request(appliance.formUrl, { method: 'POST', headers, agent: false });
  const answered = once(sent, 'response') as Promise<[IncomingMessage]>;
  sent.flushHeaders();
  await once(sent, 'continue');
  return {
    async finish() {
      sent.end(body);
      const [response] = await answered;
      response.resume();
      return response.statusCode ?? 0;
    },
  };
}

function thanking(words: string): object {
  const project = structuredClone(PROJECT);
  Object.assign(project.domains['forms.test'].forms.contact, { thank_you: words });
  return project;
}

/** What a visitor is told. */
async function thanks(appliance: Appliance): Promise<string> {
  const body = new URLSearchParams({ message: 'Are you open on Friday?' });
  const answer = await fetch(appliance.formUrl, { method: 'POST', body, headers: { Accept: 'application/json' } });
  return answer.text();
}
