import { writeFileSync } from 'node:fs';
import { readFile, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { describe, expect, test } from 'vitest';
import { topLines, type Status } from '../../src/cli/top.ts';
import { enqueue } from '../../src/queue/enqueue.ts';
import { pauseDestination, setHeld } from '../../src/store/destinations.ts';
import { OPERATOR } from '../../src/store/tenants.ts';
import { LAUNCHER } from '../harness/command.ts';
import { startHttp, type TestHttp } from '../harness/http.ts';
import { runInTerminal, typeIn } from '../harness/pseudo-terminal.ts';
import { temporaryFolder } from '../harness/store.ts';
import { runOperator } from '../harness/terminal.ts';
import { person } from './cli-world.ts';

/** A server with mail for three domains, of which one fails and one is held. */
async function busy(): Promise<TestHttp> {
  const http = await startHttp();
  const now = Date.now();
  const mail = { tenant: OPERATOR, kind: 'system', submission: null, domain: 'example.com', source: {} } as const;
  const recipients = ['a@one.example', 'b@one.example', 'c@two.example', 'd@three.example'];
  await http.store.write(enqueue({ ...mail, recipients, ttl: 3_600_000 }, now).unit);
  const failing = { failures: 6, pauses: 2, paused_until: now + 600_000, last_error: 'connection timed out', line: '' };
  await http.store.write([
    pauseDestination({ name: 'one.example', ...failing }),
    setHeld({ name: 'two.example', held: 1 }),
  ]);
  return http;
}

test('--json is what the API answers, --once a screen of text', async () => {
  const http = await busy();
  const { code, out } = await runOperator(http.socket, ['top', '--json']);
  expect(code).toBe(0);
  expect(JSON.parse(out)).toMatchObject({
    queue: { queued: 4, sending: 0, deferred: 0, paused: 1, held: 1 },
    accepted_last_minute: 4,
    deliveries: { delivered: 0, deferred: 0, bounced: 0, expired: 0 },
    destinations: [
      {
        destination: 'one.example',
        waiting: 2,
        held: false,
        failures: 6,
        paused_until: expect.stringMatching(/Z$/),
        reason: 'connection timed out',
      },
      { destination: 'two.example', waiting: 1, held: true, paused_until: null, reason: null },
      { destination: 'three.example', waiting: 1, held: false, failures: 0 },
    ],
    problems: [],
  });
  const once = await runOperator(http.socket, ['top', '--once', '--interval', '1']);
  expect(once.code).toBe(0);
  expect(once.out).toMatch(/^Queue +queued 4 +sending 0 +deferred 0 /m);
  expect(once.out).toMatch(/^Per minute +accepted 4 +delivered 0 /m);
  expect(once.out).toMatch(/^one\.example +2 +paused until \d\d:\d\d +connection timed out$/m);
  expect(once.out).toMatch(/^two\.example +1 +held$/m);
  expect(once.out).not.toContain('\u001b');
});

test('without a terminal it says how to go on', async () => {
  const http = await startHttp();
  const { say } = await person();
  expect(await say(['top', '--url', `unix:${http.socket}`])).toEqual({
    code: 2,
    out: '',
    err: 'postern: The live view needs a terminal. To print one screen, add --once\n',
  });
});

describe('in a terminal', () => {
  const ENTER = '\u001b[?1049h';
  const LEAVE = '\u001b[?1049l';

  test('keys pause, refresh and quit, and the terminal is given back', async () => {
    const http = await busy();
    const folder = await temporaryFolder();
    const keys = [
      ['q quit', 'p'],
      ['Paused', 'r'],
      ['Paused', 'p'],
      ['q quit', 'q'],
    ] as const;
    const seen = await runInTerminal(['top', '--url', `unix:${http.socket}`], { folder, keys });
    expect(seen.code).toBe(0);
    expect(seen.text).toContain('paused until');
    expect(seen.raw.split(ENTER)).toHaveLength(2);
    expect(seen.raw.split(LEAVE)).toHaveLength(2);
    expect(seen.raw.slice(seen.raw.lastIndexOf(LEAVE))).not.toContain('Queue');
  });

  test.each(['Ctrl-C', 'a signal'])('%s ends it as well, with the settings of the terminal as before', async (how) => {
    const http = await busy();
    const folder = await temporaryFolder();
    const byKey = how === 'Ctrl-C';
    const end = byKey ? '' : '(while ! [ -e now ]; do sleep 0.1; done; kill -TERM $$) &';
    await writeFile(join(folder, 'top.sh'), `${end} exec '${LAUNCHER}' top --url unix:${http.socket}`);
    const act = byKey ? '\u0003' : () => writeFileSync(join(folder, 'now'), '');
    const command = 'stty -a > before; sh top.sh; stty -a > after';
    const { raw } = await typeIn(['sh', '-c', command], { folder, keys: [['q quit', act]] });
    expect(raw.split(ENTER)).toHaveLength(2);
    expect(raw.split(LEAVE)).toHaveLength(2);
    expect(await readFile(join(folder, 'after'), 'utf8')).toBe(await readFile(join(folder, 'before'), 'utf8'));
  });

  test('it follows the size of the terminal', async () => {
    const http = await busy();
    const folder = await temporaryFolder();
    const resize = '(while ! [ -e now ]; do sleep 0.1; done; stty rows 12 cols 44 < /dev/tty)';
    const command = `${resize} & exec '${LAUNCHER}' top --interval 1 --url unix:${http.socket}`;
    const keys = [
      ['q quit', () => writeFileSync(join(folder, 'now'), '')],
      ['…', 'q'],
    ] as const;
    const seen = await typeIn(['sh', '-c', command], { folder, keys });
    const frames = seen.raw.split('\u001b[H').map((frame) => frame.split('\r\n').length);
    expect([frames.at(1), frames.at(-1)]).toEqual([40, 12]);
  });
});

describe('the screen', () => {
  const latency = { buckets: [{ le: 1, count: 0 }], count: 0 };
  const base: Status = {
    hostname: 'mail.example.net',
    version: '1.0.0',
    now: '2026-01-31T12:00:00.000Z',
    started_at: '2026-01-29T09:00:00.000Z',
    memory: 100 * 1024 * 1024,
    cpu_seconds: 10,
    queue: { queued: 1, sending: 2, deferred: 3, oldest_due_seconds: 4, paused: 5, held: 6 },
    accepted_last_minute: 7,
    deliveries: { delivered: 100, deferred: 10, bounced: 1, expired: 0 },
    latencies: { form: latency, smtp: latency, delivery: latency },
    destinations: Array.from({ length: 20 }, (_, i) => ({
      destination: `a-very-long-name-of-a-domain-that-nobody-would-type-${i}.example`,
      waiting: 500,
      held: false,
      failures: 1,
      paused_until: '2026-01-31T12:10:00.000Z',
      reason: '451 4.7.1 \u001b[2J a reply of many words that does not fit into any line of any terminal at all',
    })),
    problems: Array.from({ length: 30 }, (_, i) => `problem ${i} of a server of which everything is broken`),
  };
  const style = (_format: unknown, text: string): string => text;

  test.each([
    [80, 24],
    [120, 40],
    [40, 10],
    [20, 3],
    [1, 1],
  ])('fits %i × %i, whatever there is to show', (columns, rows) => {
    const lines = topLines({ samples: [base], notice: 'Paused', keys: true }, { columns, rows, style });
    expect(lines).toHaveLength(rows);
    expect(lines.filter((line) => line.length > columns)).toEqual([]);
    expect(lines.join('')).not.toContain('\u001b');
  });

  test('has at 80 × 24 room for figures, problems, destinations and keys', () => {
    const text = topLines({ samples: [base], notice: undefined, keys: true }, { columns: 80, rows: 24, style });
    expect(text.join('\n')).toMatch(
      /^! problem 0 .*^! \d+ more: run postern doctor$.*^a-very-long-name\S*… +500\+ +paused until/ms,
    );
    expect(text.at(-1)).toMatch(/^q quit/);
  });

  test('rates and latencies are of the time between the samples', () => {
    const bucket = (le: number | null, count: number) => ({ le, count });
    const later: Status = {
      ...base,
      now: '2026-01-31T12:00:30.000Z',
      cpu_seconds: 25,
      deliveries: { delivered: 160, deferred: 10, bounced: 2, expired: 0 },
      latencies: {
        form: { buckets: [bucket(0.1, 90), bucket(1, 100), bucket(null, 100)], count: 100 },
        smtp: { buckets: [bucket(1, 0), bucket(null, 5)], count: 5 },
        delivery: latency,
      },
    };
    const text = topLines(
      { samples: [base, later], notice: undefined, keys: false },
      { columns: 100, rows: 60, style },
    ).join('\n');
    expect(text).toContain('cpu 50 %');
    expect(text).toMatch(/^Per minute +accepted 7 +delivered 120 +deferred 0 +bounced 2 +expired 0$/m);
    expect(text).toMatch(/form post 56 ms \/ 550 ms +SMTP > 1\.0 s \/ > 1\.0 s +delivery - \/ -$/m);
    expect(text).toContain('up 2 d 3 h');
  });
});
