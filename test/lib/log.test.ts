import { spawn, spawnSync } from 'node:child_process';
import { once } from 'node:events';
import { closeSync, fstatSync, openSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { text as textOf } from 'node:stream/consumers';
import { expect, test } from 'vitest';
import { z } from 'zod';
import { LOG_EVENTS } from '../../src/lib/log-events.ts';
import { createLog } from '../../src/lib/log.ts';
import { ROOT } from '../docs/markdown.ts';
import { readSources } from '../structure/sources.ts';
import { cpuSeconds } from '../harness/cpu.ts';
import { temporaryFolder } from '../harness/store.ts';

/** The file, once it has so many lines. */
async function written(path: string, count: number): Promise<string> {
  await expect.poll(() => readFileSync(path, 'utf8').split('\n')).toHaveLength(count + 1);
  return readFileSync(path, 'utf8');
}

async function lines(options: { redact_addresses: boolean; level: 'info' | 'debug' }): Promise<unknown[]> {
  const path = join(await temporaryFolder(), 'log');
  const fd = openSync(path, 'w');
  const log = await createLog({ ...options, format: 'json', fd });
  log.debug('dns.failed');
  log.info('delivery.delivered', {
    message: 'msg_1',
    recipient: 'owner@example.com',
    reply: '250 <owner@example.com>\r\nok',
  });
  const text = await written(path, options.level === 'debug' ? 2 : 1);
  closeSync(fd);
  return text
    .trim()
    .split('\n')
    .map((line): unknown => JSON.parse(line));
}

test('one line per event, with its name, level and time; control characters stay inside their string', async () => {
  expect(await lines({ redact_addresses: false, level: 'info' })).toEqual([
    {
      level: 'info',
      time: expect.stringMatching(/^\d{4}-.*Z$/),
      event: 'delivery.delivered',
      message: 'msg_1',
      recipient: 'owner@example.com',
      reply: '250 <owner@example.com>\r\nok',
      msg: 'A delivery was accepted by its destination.',
    },
  ]);
});

test('the level decides what is said, and addresses are masked on demand', async () => {
  const [idle, delivered] = await lines({ redact_addresses: true, level: 'debug' });
  expect(idle).toMatchObject({ event: 'dns.failed', level: 'debug' });
  expect(delivered).toMatchObject({ recipient: 'o***@example.com', reply: '250 <o***@example.com>\r\nok' });
});

test('masking addresses is linear', async () => {
  const path = join(await temporaryFolder(), 'log');
  const fd = openSync(path, 'w');
  const log = await createLog({ level: 'info', redact_addresses: true, format: 'json', fd });
  const reply = 'a'.repeat(100_000);
  expect(cpuSeconds(() => log.info('delivery.delivered', { message: 'msg_1', reply }))).toBeLessThan(0.5);
  expect(await written(path, 1)).toContain(reply);
  closeSync(fd);
});

test('keys, secrets and the tokens of links stand in no line, wherever they are', async () => {
  const path = join(await temporaryFolder(), 'log');
  const fd = openSync(path, 'w');
  const log = await createLog({ level: 'info', redact_addresses: false, format: 'json', fd });
  const [live, restricted, secret] = ['svc_sk_live_4fGh12Ab9', 'svc_rk_Zz81kk2Q7p', 'whsec_MfKQ9r8GKYqrTwjUPD8='];
  const token = 'dGhpcyBpcyBhIHRva2Vu_of-a.link';
  log.info('http.refused', {
    path: `/forms/${live}/x`,
    query: `key=${restricted}&a=1`,
    encoded: 'svc%5Fsk%5Ftest%5FQq12',
  });
  log.info('http.failed', {
    error: `Bearer ${live} refused`,
    stack: `Error: ${secret}\n    at x`,
    cause: new Error(secret),
  });
  log.info('http.refused', {
    url: `https://mail.example.net/confirm/${token}`,
    list: [{ at: `/unsubscribe/${token}` }],
    s: `/s/${token}`,
  });
  const text = await written(path, 3);
  closeSync(fd);
  for (const hidden of ['4fGh12Ab9', 'Zz81kk2Q7p', 'MfKQ9r8', 'Qq12', 'dGhpcyB', 'of-a.link'])
    expect(text).not.toContain(hidden);
  expect(text).toContain('svc_sk_live_…');
  expect(text).toContain('&a=1');
});

test('level and redaction can change while it runs', async () => {
  const path = join(await temporaryFolder(), 'log');
  const fd = openSync(path, 'w');
  const log = await createLog({ level: 'error', redact_addresses: false, format: 'json', fd });
  log.info('config.applied');
  log.adjust({ level: 'info', redact_addresses: true });
  log.info('auth.failed', { to: ['you@example.com'] });
  const text = await written(path, 1);
  closeSync(fd);
  expect(JSON.parse(text)).toMatchObject({ event: 'auth.failed', to: ['y***@example.com'] });
});

test('lines for the journal begin with their priority; elsewhere, also beside a journal, they are JSON alone', async () => {
  const folder = await temporaryFolder();
  async function said(name: string, journal: (own: string) => string): Promise<string> {
    const path = join(folder, name);
    const fd = openSync(path, 'w');
    const { dev, ino } = fstatSync(fd);
    const own = journal(`${dev}:${ino}`);
    const log = await createLog({ level: 'debug', redact_addresses: false, format: 'json', fd, journal: own });
    log.error('job.failed');
    log.warn('clock.stepped');
    log.info('tls.renewed', { cert: '{"level":"error"' });
    log.debug('dns.failed');
    const text = await written(path, 4);
    closeSync(fd);
    return text;
  }

  const priorities = (text: string) =>
    text
      .trim()
      .split('\n')
      .map((line) => line.slice(0, line.indexOf('{')));
  expect(priorities(await said('journal', (own) => own))).toEqual(['<3>', '<4>', '<6>', '<7>']);
  expect(priorities(await said('pipe', () => '8:1'))).toEqual(['', '', '', '']);
});

test('every event has a message for people, and is one that the program logs', () => {
  const code = readSources('src')
    .filter(({ path }) => path !== 'src/lib/log-events.ts')
    .map((file) => file.code)
    .join('');
  // Those whose name is made of an outcome: `delivery.${state}`, `${name}.failed`.
  const made = /^(?:delivery|domain|inbound|submission)\.|\.adopt_failed$/;
  for (const [event, message] of Object.entries(LOG_EVENTS)) {
    expect(message, event).toMatch(/^[A-Z].{10,90}\.$/);
    if (!made.test(event)) expect(code.includes(`'${event}'`), event).toBe(true);
  }
});

test('docs/log-events.md lists every event with its message (npm run docs)', () => {
  const rows = [...readFileSync(join(ROOT, 'docs/log-events.md'), 'utf8').matchAll(/^\| `(\S+)` +\| (.+?) +\|$/gm)];
  expect(Object.fromEntries(rows.map(([, event, message]) => [event, message]))).toEqual(LOG_EVENTS);
});

test('what was said right before the end of the process is written', async () => {
  const module = new URL('../../src/lib/log.ts', import.meta.url).href;
  const script = `import { createLog } from '${module}';
    (await createLog({ level: 'info', format: 'json', redact_addresses: false })).info('last.words');
    process.exit(3);`;
  const ended = spawnSync(process.execPath, ['--input-type=module', '-e', script], { encoding: 'utf8' });
  expect(ended.status).toBe(3);
  expect(ended.stdout).toContain('"event":"last.words"');
});

/** Says 3 and 30 MB into a pipe that nobody reads until it tells that it goes on. */
const TALKER = `import { createLog } from '${new URL('../../src/lib/log.ts', import.meta.url).href}';
  const log = await createLog({ level: 'info', format: 'json', redact_addresses: false });
  for (let i = 0; i < Number(process.argv[1]); i++) log.info('said', { i, text: 'x'.repeat(1000) });
  setTimeout(() => process.send('goes on'), 50);
  process.once('message', () => process.disconnect());`;

test.each([
  [3000, 0],
  [30_000, 1],
])('a reader that is slow holds up nobody; of %d lines too many are dropped, and counted', async (count, notes) => {
  const child = spawn(process.execPath, ['--input-type=module', '-e', TALKER, String(count)], {
    stdio: ['ignore', 'pipe', 'inherit', 'ipc'],
  });
  await once(child, 'message');
  child.send('read');
  const { stdout } = child;
  if (stdout === null) throw new Error('there is no pipe');
  const said = (await textOf(stdout))
    .trim()
    .split('\n')
    .map((line) => z.object({ event: z.string(), lines: z.int().optional() }).parse(JSON.parse(line)));
  const dropped = said.filter(({ event }) => event === 'log.dropped');
  expect(dropped).toHaveLength(notes);
  expect(said.length - notes + (dropped[0]?.lines ?? 0)).toBe(count);
});
