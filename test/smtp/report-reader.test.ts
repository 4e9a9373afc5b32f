import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { pathToFileURL } from 'node:url';
import { expect, onTestFinished, test } from 'vitest';
import { systemClock } from '../../src/lib/clock.ts';
import { silentLog } from '../../src/lib/log.ts';
import { createBounceReader, createReportReader } from '../../src/smtp/report-reader.ts';
import { temporaryFolder } from '../harness/store.ts';
import { POSTFIX, VACATION } from '../mail/report-fixtures.ts';

/** What no report makes the real thread do. */
const WILD = `
import { parentPort } from 'node:worker_threads';
parentPort.on('message', (head) => {
  const order = Buffer.from(head).toString();
  if (order === 'spin') for (;;);
  if (order === 'eat') for (const all = []; ; ) all.push(new Array(1e5).fill({}));
  if (order === 'throw') throw new Error('broken');
  parentPort.postMessage({ kind: order });
});
parentPort.postMessage('ready');
`;

test('reports are read in a thread of their own, which is started again after it was ended', async () => {
  const reader = createBounceReader({ clock: systemClock, log: silentLog });
  onTestFinished(() => reader.close());
  expect(await reader.read(Buffer.from(POSTFIX))).toMatchObject({ kind: 'bounce', recipients: [{ status: '5.1.1' }] });
  expect(await reader.read(Buffer.from(VACATION))).toEqual({ kind: 'automatic' });
  await reader.close();
  expect(await reader.read(Buffer.from(''))).toEqual({ kind: 'unknown' });
});

test.each([
  ['spin', 1000],
  ['eat', 3000],
  ['throw', 3000],
])('one that would %s costs its thread, and the next is read', async (order, mostMs) => {
  const file = join(await temporaryFolder(), 'wild.mjs');
  await writeFile(file, WILD);
  const reader = createReportReader<{ kind: string }>({
    clock: systemClock,
    log: silentLog,
    file: pathToFileURL(file),
    mostMs,
  });
  onTestFinished(() => reader.close());
  expect(await reader.read(Buffer.from('automatic'))).toEqual({ kind: 'automatic' });
  for (let i = 0; i < 2; i++) {
    expect(await reader.read(Buffer.from(order))).toBeUndefined();
    expect(await reader.read(Buffer.from('unknown'))).toEqual({ kind: 'unknown' });
  }
});
