/** The virus scanner against a clamd over real sockets. */
import { expect, test } from 'vitest';
import { createScanner, type ScannedFile } from '../../src/forms/scanner.ts';
import { silentLog } from '../../src/lib/log.ts';
import { EICAR, startClamd } from '../harness/clamd.ts';

async function* piecesOf(pieces: readonly string[]): AsyncGenerator<Uint8Array> {
  for (const piece of pieces) yield Promise.resolve(Buffer.from(piece));
}

function file(...pieces: string[]): ScannedFile {
  return { id: 'fil_1', filename: 'a.txt', content: piecesOf(pieces) };
}

function scannerAt(place: string | null, timeoutMs?: number) {
  return createScanner({ log: silentLog, clamd: () => place, ...(timeoutMs !== undefined && { timeoutMs }) });
}

test.each(['unix', 'tcp'] as const)('%s: a file goes over whole, and the verdict is heard', async (kind) => {
  const clamd = await startClamd({ kind });
  const large = 'x'.repeat(300_000);
  const scan = scannerAt(clamd.place);
  expect(await scan([file('one', '', large), file(), file(EICAR.slice(0, 20), EICAR.slice(20))])).toEqual([
    'passed',
    'passed',
    'infected',
  ]);
  expect(clamd.streams.map(String)).toEqual([`one${large}`, '', EICAR]);
});

test('without a scanner every file passes', async () => {
  expect(await scannerAt(null)([file(EICAR)])).toEqual(['passed']);
});

test.each([
  ['a scanner that is not there', 'unix:/nowhere/clamd.ctl'],
  ['a port that nobody listens on', '127.0.0.1:1'],
])('%s fails, and throws nothing', async (_, place) => {
  expect(await scannerAt(place)([file('x'), file('y')])).toEqual(['failed', 'failed']);
});

test('a scanner that goes away, or takes no file of this size, fails', async () => {
  const gone = await startClamd({ fault: 'gone' });
  const small = await startClamd({ limit: 3 });
  expect(await scannerAt(gone.place)([file('x')])).toEqual(['failed']);
  expect(await scannerAt(small.place)([file('long')])).toEqual(['failed']);
});

test('a scanner that never answers costs one deadline for all files, and holds no connection', async () => {
  const clamd = await startClamd({ fault: 'silent' });
  const scan = scannerAt(clamd.place, 100);
  const posts = Array.from({ length: 20 }, () => scan([file('x'), file('y')]));
  expect(await Promise.all(posts)).toEqual(Array.from({ length: 20 }, () => ['failed', 'failed']));
  await expect.poll(clamd.open).toBe(0);
});

test('many files at once take turns', async () => {
  const clamd = await startClamd();
  const scan = scannerAt(clamd.place);
  const results = await Promise.all(Array.from({ length: 50 }, (_, i) => scan([file(`${i}`)])));
  expect(results.flat()).toEqual(Array.from({ length: 50 }, () => 'passed'));
});
