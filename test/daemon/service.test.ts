/** What systemd is told, by a `systemd-notify` that writes it down in the order in which it came. */
import { readFile, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { expect, onTestFinished, test } from 'vitest';
import type { Snapshot } from '../../src/config/snapshot.ts';
import { silentLog, type Log } from '../../src/lib/log.ts';
import { startService, type Served, type Service } from '../../src/daemon/systemd.ts';
import { inboundSnapshot } from '../harness/inbound-smtp.ts';
import { temporaryFolder } from '../harness/store.ts';

const NOTIFY = `#!/bin/sh
printf '%s\\n' "$*" >> "$NOTIFY_SOCKET"
`;

interface Told {
  readonly service: Service;
  /** Every message so far. */
  readonly lines: () => Promise<string[]>;
}

async function startTold(daemon: Partial<Served>, env: Record<string, string> = {}): Promise<Told> {
  const folder = await temporaryFolder();
  const told = join(folder, 'told');
  await writeFile(join(folder, 'systemd-notify'), NOTIFY, { mode: 0o755 });
  const snapshot: Snapshot = inboundSnapshot();
  const served: Served = {
    log: silentLog,
    snapshot: () => snapshot,
    queueProblem: () => undefined,
    isStuck: () => false,
    reload: () => Promise.resolve({ applied: true, changes: [], problems: [] }) as never,
    close: () => Promise.resolve(),
    ...daemon,
  };
  const path = `${folder}:${process.env['PATH']}`;
  const service = await startService(() => Promise.resolve(served), { PATH: path, NOTIFY_SOCKET: told, ...env });
  onTestFinished(() => service.close());
  return { service, lines: async () => (await readFile(told, 'utf8')).trimEnd().split('\n') };
}

test('ready, reloading, ready again and stopping, in this order and at the right time', async () => {
  const order: string[] = [];
  const { service, lines } = await startTold({
    async reload() {
      order.push((await lines()).at(-1) ?? '');
      return undefined as never;
    },
    async close() {
      order.push((await lines()).at(-1) ?? '');
    },
  });
  await service.reload();
  await service.close();
  const ready = 'READY=1 STATUS=1 domain served';
  expect(order).toEqual(['RELOADING=1', 'STOPPING=1']);
  expect(await lines()).toEqual([ready, 'RELOADING=1', ready, 'STOPPING=1']);
});

test('a reload that fails leaves the service ready', async () => {
  const { service, lines } = await startTold({ reload: () => Promise.reject(new Error('no')) });
  await expect(service.reload()).rejects.toThrow('no');
  expect((await lines()).at(-1)).toMatch(/^READY=1/);
});

test('the watchdog is fed while the queue is looked through, with what is wrong beside', async () => {
  let stuck = false;
  const errors: string[] = [];
  const log: Log = { ...silentLog, error: (event) => errors.push(event) };
  const { lines } = await startTold(
    { isStuck: () => stuck, queueProblem: () => 'the queue cannot be processed:\ndisk full', log },
    { WATCHDOG_USEC: '60000', WATCHDOG_PID: String(process.pid) },
  );
  await expect.poll(lines).toContain('WATCHDOG=1 STATUS=the queue cannot be processed: disk full');
  stuck = true;
  await expect.poll(() => errors.length).toBeGreaterThan(2);
  const { length } = await lines();
  const { length: reported } = errors;
  await expect.poll(() => errors.length).toBeGreaterThan(reported + 2);
  expect(await lines()).toHaveLength(length);
});

test('the watchdog of another process is not ours to feed', async () => {
  const { service, lines } = await startTold({}, { WATCHDOG_USEC: '10000', WATCHDOG_PID: '1' });
  await service.reload();
  expect((await lines()).filter((line) => line.startsWith('WATCHDOG'))).toEqual([]);
});

test('without systemd-notify the log says so, once, and the daemon runs', async () => {
  const errors: unknown[] = [];
  const { service } = await startTold(
    { log: { ...silentLog, error: (...said) => errors.push(said) } },
    { PATH: '/nowhere' },
  );
  await service.reload();
  expect(errors).toEqual([['service_manager.not_told', expect.objectContaining({ code: 'ENOENT' })]]);
});
