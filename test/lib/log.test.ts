import { spawnSync } from 'node:child_process';
import { closeSync, openSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { setImmediate as turn } from 'node:timers/promises';
import { expect, test } from 'vitest';
import { createLog } from '../../src/lib/log.ts';
import { temporaryFolder } from '../harness/store.ts';

async function lines(options: { redact_addresses: boolean; level: 'info' | 'debug' }): Promise<unknown[]> {
  const path = join(await temporaryFolder(), 'log');
  const fd = openSync(path, 'w');
  const log = createLog({ ...options, format: 'json', fd });
  log.debug('worker.idle');
  log.info('delivery.delivered', {
    message: 'msg_1',
    recipient: 'owner@example.com',
    reply: '250 <owner@example.com>\r\nok',
  });
  await turn();
  closeSync(fd);
  return readFileSync(path, 'utf8')
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
    },
  ]);
});

test('the level decides what is said, and addresses are masked on demand', async () => {
  const [idle, delivered] = await lines({ redact_addresses: true, level: 'debug' });
  expect(idle).toMatchObject({ event: 'worker.idle', level: 'debug' });
  expect(delivered).toMatchObject({ recipient: 'o***@example.com', reply: '250 <o***@example.com>\r\nok' });
});

test('keys, secrets and the tokens of links stand in no line, wherever they are', async () => {
  const path = join(await temporaryFolder(), 'log');
  const fd = openSync(path, 'w');
  const log = createLog({ level: 'info', redact_addresses: false, format: 'json', fd });
  const [live, restricted, secret] = ['svc_sk_live_4fGh12Ab9', 'svc_rk_Zz81kk2Q7p', 'whsec_MfKQ9r8GKYqrTwjUPD8='];
  const token = 'dGhpcyBpcyBhIHRva2Vu_of-a.link';
  log.info('a', { path: `/forms/${live}/x`, query: `key=${restricted}&a=1`, encoded: 'svc%5Fsk%5Ftest%5FQq12' });
  log.info('b', { error: `Bearer ${live} refused`, stack: `Error: ${secret}\n    at x`, cause: new Error(secret) });
  log.info('c', {
    url: `https://mail.example.net/confirm/${token}`,
    list: [{ at: `/unsubscribe/${token}` }],
    s: `/s/${token}`,
  });
  await turn();
  closeSync(fd);
  const text = readFileSync(path, 'utf8');
  for (const hidden of ['4fGh12Ab9', 'Zz81kk2Q7p', 'MfKQ9r8', 'Qq12', 'dGhpcyB', 'of-a.link'])
    expect(text).not.toContain(hidden);
  expect(text).toContain('svc_sk_live_…');
  expect(text).toContain('&a=1');
});

test('level and redaction can change while it runs', async () => {
  const path = join(await temporaryFolder(), 'log');
  const fd = openSync(path, 'w');
  const log = createLog({ level: 'error', redact_addresses: false, format: 'json', fd });
  log.info('unsaid');
  log.adjust({ level: 'info', redact_addresses: true });
  log.info('said', { to: ['you@example.com'] });
  await turn();
  closeSync(fd);
  expect(JSON.parse(readFileSync(path, 'utf8'))).toMatchObject({ event: 'said', to: ['y***@example.com'] });
});

test('what was said right before the end of the process is written', async () => {
  const module = new URL('../../src/lib/log.ts', import.meta.url).href;
  const script = `import { createLog } from '${module}';
    createLog({ level: 'info', format: 'json', redact_addresses: false }).info('last.words');
    process.exit(3);`;
  const ended = spawnSync(process.execPath, ['--input-type=module', '-e', script], { encoding: 'utf8' });
  expect(ended.status).toBe(3);
  expect(ended.stdout).toContain('"event":"last.words"');
});
