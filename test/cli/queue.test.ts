import { setTimeout as sleep } from 'node:timers/promises';
import { expect, test } from 'vitest';
import { createClient } from '../../src/cli/client.ts';
import { act, VERBS } from '../../src/cli/queue.ts';
import { enqueue } from '../../src/queue/enqueue.ts';
import { insertAttempt } from '../../src/store/messages.ts';
import { OPERATOR } from '../../src/store/tenants.ts';
import { testClock } from '../harness/clock.ts';
import { startHttp, type TestHttp } from '../harness/http.ts';
import { runOperator as say, testTerminal } from '../harness/terminal.ts';

async function queued(
  http: TestHttp,
  now: number,
  recipients: string[],
): Promise<{ message: string; deliveries: string[] }> {
  const { id, unit } = enqueue(
    {
      tenant: OPERATOR,
      kind: 'system',
      submission: null,
      domain: 'example.com',
      source: {},
      recipients,
      ttl: 3_600_000,
    },
    now,
  );
  await http.store.write(unit);
  const rows = await http.store.read
    .selectFrom('deliveries')
    .select('id')
    .where('message', '=', id)
    .orderBy('id')
    .execute();
  return { message: id, deliveries: rows.map((row) => row.id) };
}

test('list shows a line per delivery, how many there are, and how to see more', async () => {
  const clock = testClock();
  const http = await startHttp({ clock });
  await queued(http, clock.now(), ['a@one.example']);
  const { deliveries } = await queued(http, clock.now() + 1, ['b@two.example']);
  const { code, out, err } = await say(http.socket, ['queue', 'list', '--limit', '1']);
  expect([code, err]).toEqual([0, '']);
  expect(out.split('\n')).toEqual([
    expect.stringMatching(/^DELIVERY +STATE +ATTEMPTS +NEXT ATTEMPT +RECIPIENT +LAST REPLY$/),
    `${deliveries[0]}  queued  0         2026-01-01T00:00:00Z  b@two.example`,
    `1 of 2; for more, add --cursor ${deliveries[0]}`,
    '',
  ]);
  const filtered = await say(http.socket, ['queue', 'list', '--state', 'bounced', '--domain', 'one.example']);
  expect(filtered.out).toBe('No matching deliveries.\n');
});

test('show tells every attempt; a foreign server’s words do nothing to the terminal', async () => {
  const clock = testClock();
  const http = await startHttp({ clock });
  const { message, deliveries } = await queued(http, clock.now(), ['a@one.example']);
  const attempt = {
    delivery: deliveries[0] ?? '',
    number: 1,
    at: clock.now(),
    host: 'mx.one.example',
    address: '192.0.2.1',
    tls: 'TLSv1.3',
  };
  await http.store.write([
    insertAttempt({ ...attempt, outcome: 'deferred', reply: '451 4.3.0 \u001b[2J later\nplease' }),
  ]);
  const { code, out } = await say(http.socket, ['queue', 'show', message]);
  expect(code).toBe(0);
  expect(out).toContain(`${message}  system from example.com\n`);
  expect(out).toContain(`${deliveries[0]}  a@one.example  queued, next attempt 2026-01-01T00:00:00Z\n`);
  expect(out).toContain('mx.one.example 192.0.2.1  TLSv1.3  451 4.3.0 \u{fffd}[2J later please\n');
  const json = await say(http.socket, ['queue', 'show', deliveries[0] ?? '', '--json']);
  expect(JSON.parse(json.out)).toMatchObject({
    message: { id: message },
    deliveries: [{ tries: [{ outcome: 'deferred' }] }],
  });
});

test('retry, cancel, hold and release say what they did; what cannot be done has exit code 1 and the reason', async () => {
  const clock = testClock();
  const http = await startHttp({ clock });
  const { message, deliveries } = await queued(http, clock.now(), ['a@one.example']);
  const done = [
    await say(http.socket, ['queue', 'hold', 'one.example']),
    await say(http.socket, ['queue', 'release', 'one.example']),
    await say(http.socket, ['queue', 'retry', message]),
    await say(http.socket, ['queue', 'cancel', message]),
  ];
  expect(done.map(({ code, out }) => [code, out])).toEqual([
    [0, 'Holding mail to one.example\n'],
    [0, 'Released mail to one.example\n'],
    [0, `${deliveries[0]} due now\n`],
    [0, `${deliveries[0]} cancelled\n`],
  ]);
  const refused = [
    await say(http.socket, ['queue', 'retry', message]),
    await say(http.socket, ['queue', 'show', '../../x']),
    await say(http.socket, ['queue', 'hold', 'no domain']),
  ];
  expect(refused.map(({ code, err }) => [code, err])).toEqual([
    [1, 'Nothing is waiting for delivery: cancelled.\n'],
    [1, 'There is no message or delivery ../../x.\n'],
    [1, 'domain must be a domain name such as example.com, or the ID of a webhook (whk_…).\n'],
  ]);
});

test('what is held is told: in the list, with the delivery, and where it is to be tried', async () => {
  const clock = testClock();
  const http = await startHttp({ clock });
  const { message, deliveries } = await queued(http, clock.now(), ['a@one.example']);
  await say(http.socket, ['queue', 'hold', 'one.example']);
  const list = await say(http.socket, ['queue', 'list']);
  expect(list.out).toContain(`${deliveries[0]}  queued  0         held          a@one.example`);
  const shown = await say(http.socket, ['queue', 'show', message]);
  expect(shown.out).toContain('queued, held; to release it, run: postern queue release one.example\n');
  expect(await say(http.socket, ['queue', 'retry', message])).toEqual({
    code: 0,
    out: `${deliveries[0]} due now\n`,
    err: 'Mail to one.example is held. To release it, run: postern queue release one.example\n',
  });
  const json = await say(http.socket, ['queue', 'retry', message, '--json']);
  expect(JSON.parse(json.out)).toEqual({ deliveries, held: ['one.example'] });
  const gone = await say(http.socket, ['queue', 'cancel', message]);
  expect(gone).toEqual({ code: 0, out: `${deliveries[0]} cancelled\n`, err: '' });
  const after = await say(http.socket, ['queue', 'list']);
  expect(after.out).toMatch(/cancelled +0 +- +a@one\.example/);
});

test('without a daemon the exit code is 3, with a question that helps', async () => {
  const http = await startHttp();
  const missing = await say('/nowhere/admin.sock', ['queue', 'list']);
  expect(missing).toEqual({
    code: 3,
    out: '',
    err: 'Cannot connect to the daemon: no socket at /nowhere/admin.sock (server.admin_socket). Is the daemon running? Find out with: postern doctor\n',
  });
  await http.close();
  expect((await say(http.socket, ['queue', 'list'])).code).toBe(3);
});

test('cancel, retry, hold and release do it to all that matches, after a question', async () => {
  const clock = testClock();
  const http = await startHttp({ clock });
  await queued(http, clock.now(), ['a@one.example', 'b@one.example', 'c@two.example']);
  const many = (...args: string[]) => say(http.socket, ['queue', ...args]);
  const domain = 'one.example';
  expect(await many('hold', '--domain', domain, '--dry-run')).toMatchObject({
    code: 0,
    out: '2 deliveries would be held\n',
  });
  await expect(many('hold', '--domain', domain)).rejects.toThrow(
    'Hold 2 deliveries? Standard input is not a terminal: add --yes to confirm.',
  );
  expect(await many('hold', '--domain', domain, '--yes')).toMatchObject({ code: 0, out: '2 deliveries held\n' });
  const list = await say(http.socket, ['queue', 'list', '--tenant', OPERATOR, '--older-than', '1s']);
  expect(list.out).toBe('No matching deliveries.\n');
  const held = await say(http.socket, ['queue', 'list', '--sender', 'example.com', '--domain', domain]);
  expect(held.out.match(/ held /g)).toHaveLength(2);
  expect(await many('release', '--domain', domain, '--yes')).toMatchObject({ out: '2 deliveries released\n' });
  // One needs no question.
  expect(await many('cancel', '--domain', 'two.example')).toMatchObject({ code: 0, out: '1 delivery cancelled\n' });
  expect(await many('retry', '--domain', 'nowhere.example')).toMatchObject({ out: '0 deliveries due now\n' });
  for (const args of [[], ['msg_x', '--domain', domain], ['msg_x', '--dry-run']])
    await expect(many('cancel', ...args)).rejects.toThrow('Specify what to cancel, or a filter');
});

test('what the daemon takes long for is waited for', async () => {
  const clock = testClock();
  const http = await startHttp({ clock });
  await queued(http, clock.now(), ['a@one.example']);
  const { write } = http.store;
  Object.assign(http.store, {
    async write(unit: Parameters<typeof write>[0]) {
      await sleep(1000);
      return write(unit);
    },
  });
  const terminal = testTerminal({ width: 200 });
  const address = `unix:${http.socket}`;
  const client = createClient({ address, idleMs: 300 });
  const api = { client, terminal, json: false, target: { address, addressFrom: '--url' } };
  for (const verb of VERBS.filter(({ verb: name }) => name === 'cancel'))
    await act(api, verb, { domain: 'one.example', dryRun: false, yes: true });
  expect(terminal.out()).toBe('1 delivery cancelled\n');
});
