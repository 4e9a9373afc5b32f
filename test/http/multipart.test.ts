import { Buffer } from 'node:buffer';
import { describe, expect, test } from 'vitest';
import { filesOf, readFile } from '../../src/store/submissions.ts';
import { startHttp, type TestHttp } from '../harness/http.ts';

const ADDRESS = '/example.com/contact';
const UPLOADS = { forms: { contact: { uploads: {} } } };
const B = 'XboundaryX';

/** A part as bytes; `text` is Latin-1, so that any byte can be written. */
function part(headers: string, text: string): string {
  return `--${B}\r\n${headers}\r\n\r\n${text}\r\n`;
}
const field = (name: string, value: string) => part(`Content-Disposition: form-data; name="${name}"`, value);
const file = (name: string, filename: string, content: string, type = 'text/plain') =>
  part(`Content-Disposition: form-data; name="${name}"; filename="${filename}"\r\nContent-Type: ${type}`, content);
const utf8 = (text: string) => Buffer.from(text).toString('latin1');

function send(http: TestHttp, parts: readonly string[], more: { end?: string; boundary?: string; type?: string } = {}) {
  const { end = `--${B}--\r\n`, type = `multipart/form-data; boundary=${more.boundary ?? B}` } = more;
  const body = Buffer.from(parts.join('') + end, 'latin1');
  return http.request(ADDRESS, { body, headers: { 'Content-Type': type, Accept: 'application/json' } });
}

async function received(http: TestHttp): Promise<{ fields: unknown; files: [string, string, string, string][] }> {
  const rows = await http.submissions();
  const row = rows.at(-1);
  const files = await filesOf(http.store, row?.id ?? '');
  return {
    fields: JSON.parse(row?.fields ?? 'null') as unknown,
    files: await Promise.all(
      files.map(async ({ id, field, filename, content_type }): Promise<[string, string, string, string]> => {
        return [field, filename, content_type, (await readFile(http.store, id)).toString('latin1')];
      }),
    ),
  };
}

async function leftovers(http: TestHttp): Promise<number> {
  return (await http.store.read.selectFrom('file_chunks').select('file').execute()).length;
}

describe('what arrives', () => {
  test('fields and files in the order sent, byte by byte', async () => {
    const http = await startHttp(UPLOADS);
    const bytes = Array.from({ length: 256 }, (_, i) => String.fromCharCode(i)).join('');
    const answer = await send(http, [
      field('b', '1'),
      file('cv', 'a.bin', bytes, 'application/pdf; x=y'),
      field('a', 'x\r\ny'),
      file('cv', 'b.txt', ''),
    ]);
    expect(answer.status).toBe(200);
    expect(await received(http)).toEqual({
      fields: [
        ['b', '1'],
        ['a', 'x\r\ny'],
      ],
      files: [
        ['cv', 'a.bin', 'application/pdf', bytes],
        ['cv', 'b.txt', 'text/plain', ''],
      ],
    });
  });

  test('a large file, in pieces, with what looks like boundaries in it', async () => {
    const http = await startHttp(UPLOADS);
    const content = `\r\n--${B.slice(0, -1)}\r\n--Xb\r\r\n-`.repeat(40_000);
    const answer = await send(http, [file('f', 'big.bin', content, 'application/octet-stream')]);
    expect(answer.status).toBe(200);
    const { files } = await received(http);
    expect(files[0]?.[3] === content).toBe(true);
  });

  test('names in UTF-8, as browsers escape them, and in Latin-1', async () => {
    const http = await startHttp(UPLOADS);
    await send(http, [field(utf8('größe'), utf8('日本')), file('f', utf8('履歴書 %22x%22.pdf'), 'x')]);
    expect(await received(http)).toMatchObject({
      fields: [['größe', '日本']],
      files: [['f', '履歴書 "x".pdf', 'text/plain', 'x']],
    });
    await send(http, [field('name', 'Jos\xe9'), file('f', 'r\xe9sum\xe9.txt', '\xe9')]);
    expect(await received(http)).toMatchObject({
      fields: [['name', 'José']],
      files: [['f', 'résumé.txt', 'text/plain', '\xe9']],
    });
  });

  test('a charset that a field, a part or the body declares is used; an unknown one is 415', async () => {
    const http = await startHttp(UPLOADS);
    await send(http, [field('_charset_', 'shift_jis'), field('name', '\x93\xfa\x96\x7b')]);
    expect((await received(http)).fields).toEqual([['name', '日本']]);
    await send(http, [
      part('Content-Disposition: form-data; name="n"\r\nContent-Type: text/plain; charset=iso-8859-1', '\xe9'),
      field('m', utf8('é')),
    ]);
    expect((await received(http)).fields).toEqual([
      ['n', 'é'],
      ['m', 'é'],
    ]);
    expect(
      (
        await send(http, [
          part('Content-Disposition: form-data; name="n"\r\nContent-Type: text/plain; charset=klingon', 'x'),
        ])
      ).status,
    ).toBe(415);
    expect(
      (await send(http, [field('n', 'x')], { type: `multipart/form-data; charset=klingon; boundary=${B}` })).status,
    ).toBe(415);
  });

  test('file names are names: no paths, no control characters; filename* is understood', async () => {
    const http = await startHttp(UPLOADS);
    await send(http, [
      file('f', '../../etc/passwd', 'x'),
      file('f', 'C:\\\\Users\\\\me\\\\cv.pdf', 'x'),
      file('f', 'a\x07\x1b[31m.txt', 'x'),
      file('f', '..', 'x'),
      part("Content-Disposition: form-data; name=f; filename*=UTF-8''%e6%97%a5.txt\r\nContent-Type: text/plain", 'x'),
    ]);
    expect((await received(http)).files.map(([, filename]) => filename)).toEqual([
      'passwd',
      'cv.pdf',
      'a[31m.txt',
      'file',
      '日.txt',
    ]);
  });

  test('file inputs where nothing was chosen are ignored', async () => {
    const http = await startHttp();
    expect((await send(http, [field('a', '1'), file('f', '', '', 'application/octet-stream')])).status).toBe(200);
    expect(await received(http)).toEqual({ fields: [['a', '1']], files: [] });
  });

  test('names that are properties of every object are names', async () => {
    const http = await startHttp();
    await send(http, [field('__proto__', '1'), field('toString', '2'), field('a', '3'), field('a', '4')]);
    expect((await received(http)).fields).toEqual([
      ['__proto__', '1'],
      ['toString', '2'],
      ['a', ['3', '4']],
    ]);
  });
});

describe('what is refused, with nothing left behind', () => {
  const many = (count: number, make: (i: number) => string) => Array.from({ length: count }, (_, i) => make(i));
  const cases: [string, () => string[], number, string, object?][] = [
    ['5,000 fields', () => many(5000, (i) => field(`f${i}`, '1')), 413, 'BODY_TOO_LARGE'],
    ['2,000 files', () => many(2000, (i) => file(`f${i}`, 'a', 'x')), 413, 'TOO_MANY_FILES'],
    ['2,000 empty file inputs', () => many(2000, (i) => file(`f${i}`, '', '')), 413, 'TOO_MANY_FILES'],
    ['a field that is too long', () => [field('message', 'x'.repeat(70_000))], 413, 'TYPE_TEXT'],
    ['a file that is too big', () => [file('f', 'a', 'x'.repeat(300_000))], 413, 'FILES_TOO_BIG', { file: '200KiB' }],
    [
      'files that are too big together',
      () => many(3, () => file('f', 'a', 'x'.repeat(100_000))),
      413,
      'FILES_TOO_BIG',
      { files_total: '200KiB' },
    ],
    ['too many files', () => many(11, () => file('f', 'a', 'x')), 413, 'TOO_MANY_FILES'],
    ['a body that is too big', () => [file('f', 'a', 'x'.repeat(300_000))], 413, 'BODY_TOO_LARGE', { body: '200KiB' }],
    [
      'endless headers',
      () => [part(`Content-Disposition: form-data; name="a"; ${'filename=""'.repeat(30_000)}x`, '1')],
      413,
      'BODY_TOO_LARGE',
    ],
    ['a part without a name', () => [part('Content-Disposition: form-data', '1')], 400, 'BODY_MALFORMED'],
    [
      'an odd transfer encoding',
      () => [part('Content-Disposition: form-data; name="a"\r\nContent-Transfer-Encoding: rot13', '1')],
      400,
      'BODY_MALFORMED',
    ],
  ];
  test.each(cases)('%s', async (_, parts, status, code, limits = {}) => {
    const http = await startHttp({ ...UPLOADS, limits });
    const began = performance.now();
    const answer = await send(http, [field('first', 'kept'), ...parts()]);
    expect(answer.status).toBe(status);
    expect(answer.json()).toMatchObject({ errors: [{ code }] });
    expect(performance.now() - began).toBeLessThan(20_000);
    expect(await http.submissions()).toEqual([]);
    expect(await leftovers(http)).toBe(0);
  });

  test('no end, no boundary, another boundary', async () => {
    const http = await startHttp(UPLOADS);
    expect((await send(http, [field('a', '1')], { end: '' })).status).toBe(400);
    expect((await send(http, [file('a', 'f', 'x'.repeat(600_000))], { end: '--Xbound' })).status).toBe(400);
    expect((await send(http, [field('a', '1')], { boundary: 'other' })).status).toBe(400);
    expect((await send(http, [field('a', '1')], { type: 'multipart/form-data; charset=utf-8' })).status).toBe(400);
    expect((await send(http, [field('a', '1')], { type: 'multipart/form-data' })).status).toBe(415);
    expect((await send(http, [field('a', '1')], { boundary: 'x'.repeat(80) })).status).toBe(400);
    expect(await leftovers(http)).toBe(0);
  });

  test('files where the form takes none', async () => {
    const http = await startHttp();
    const answer = await send(http, [field('a', '1'), file('f', 'a.txt', 'x'.repeat(600_000))]);
    expect([answer.status, answer.json()]).toEqual([
      400,
      expect.objectContaining({ errors: [expect.objectContaining({ code: 'NO_FILE_UPLOADS' })] }),
    ]);
    expect(await leftovers(http)).toBe(0);
  });

  test('files of a submission that is refused for something else', async () => {
    const http = await startHttp({ forms: { contact: { uploads: {}, required: ['name'] } } });
    expect((await send(http, [file('f', 'a.txt', 'x'.repeat(600_000))])).status).toBe(400);
    expect(await leftovers(http)).toBe(0);
  });

  test('a client that goes away in the middle', async () => {
    const http = await startHttp(UPLOADS);
    const head = `POST ${ADDRESS} HTTP/1.1\r\nHost: x\r\nContent-Type: multipart/form-data; boundary=${B}\r\nContent-Length: 5000000\r\n\r\n`;
    const begun = file('f', 'a.bin', 'x'.repeat(700_000)).slice(0, -2);
    await http.raw(Buffer.from(head + begun, 'latin1'), (socket) => setTimeout(() => socket.destroy(), 150));
    await expect.poll(() => leftovers(http)).toBe(0);
    expect(await http.submissions()).toEqual([]);
    expect((await http.request('/healthz')).status).toBe(200);
  });

  test('a store that fails in the middle of a file is 503', async () => {
    const { StoreError } = await import('../../src/store/store.ts');
    const http = await startHttp({
      ...UPLOADS,
      options: {
        files: {
          begin: () => ({
            write: () => Promise.reject(new StoreError('disk full', 'SQLITE_FULL')),
            end: () => {
              throw new Error('never written');
            },
            abort: () => Promise.resolve(),
          }),
          scan: (uploads) => Promise.resolve({ files: uploads, infected: [] }),
          discard: () => Promise.resolve(),
          sweep: () => Promise.resolve(),
        },
      },
    });
    const answer = await send(http, [field('a', '1'), file('f', 'a', 'x'.repeat(100_000)), field('b', '2')]);
    expect(answer.status).toBe(503);
    expect(answer.text).not.toContain('disk full');
  });
});

test('hostile bytes block nobody', async () => {
  const http = await startHttp(UPLOADS);
  // Of this thread's own time: another program that has the CPU blocks nobody here.
  let worst = 0;
  let last = process.threadCpuUsage();
  const timer = setInterval(() => {
    const { user, system } = process.threadCpuUsage(last);
    last = process.threadCpuUsage();
    worst = Math.max(worst, (user + system) / 1000);
  }, 1);
  const bodies = ['\r', '\r\n', '\r\n-', '\r\n--Xboundary'].map((bytes) => bytes.repeat(200_000 / bytes.length));
  for (const content of bodies) expect((await send(http, [file('f', 'a', content)])).status).toBe(200);
  clearInterval(timer);
  expect(worst).toBeLessThan(250);
});
