import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { partsOf, type PartHead } from '../../src/http/multipart.ts';

interface Parsed {
  readonly parts: { readonly head: PartHead; readonly data: string }[];
  readonly fault: unknown;
}

/** Parses a body that comes in chunks of these sizes, over and over. */
async function parse(boundary: string, body: string, sizes: readonly number[] = [body.length + 1]): Promise<Parsed> {
  const parts: { head: PartHead; data: string }[] = [];
  const bytes = Buffer.from(body, 'latin1');
  async function* chunks(): AsyncGenerator<Buffer, void> {
    for (let at = 0, i = 0; at < bytes.length; i++) {
      const size = sizes[i % sizes.length] ?? 1;
      yield bytes.subarray(at, at + size);
      at += size;
    }
  }
  try {
    for await (const item of partsOf(chunks(), boundary)) {
      const last = parts.at(-1);
      if (!Buffer.isBuffer(item)) parts.push({ head: item, data: '' });
      else if (last !== undefined) last.data += item.toString('latin1');
    }
    return { parts, fault: undefined };
  } catch (error) {
    return { parts, fault: error };
  }
}

const part = (data: string, headers = 'Content-Disposition: form-data; name="a"') =>
  `--B\r\n${headers}\r\n\r\n${data}\r\n`;
const headOf = async (headers: string) => (await parse('B', `${part('x', headers)}--B--`)).parts[0]?.head;

test('gives back what was put in, however the bytes are cut and whatever they look like', async () => {
  const tricky = fc
    .stringMatching(/^[\r\n\-Bx]*$/, { maxLength: 60 })
    .filter((data) => !`\r\n${data}`.includes('\r\n--B'));
  const cuts = fc.array(fc.integer({ min: 1, max: 9 }), { minLength: 1, maxLength: 5 });
  await fc.assert(
    fc.asyncProperty(fc.array(tricky, { minLength: 1, maxLength: 4 }), cuts, async (datas, sizes) => {
      const body = `${datas.map((data) => part(data)).join('')}--B--\r\n`;
      const { parts, fault } = await parse('B', body, sizes);
      expect(fault).toBeUndefined();
      expect(parts.map(({ data }) => data)).toEqual(datas);
    }),
    { numRuns: 400 },
  );
});

test('whatever comes in, it ends with parts or a fault, the same for every way to cut it', async () => {
  const noise = fc.array(
    fc.constantFrom('--B', '\r\n', '--', 'Content-Disposition: form-data; name="a"', 'x', ' ', ':', '\r', '\n'),
    { maxLength: 25 },
  );
  await fc.assert(
    fc.asyncProperty(noise, fc.integer({ min: 1, max: 7 }), async (pieces, size) => {
      const body = pieces.join('');
      expect(await parse('B', body, [size])).toEqual(await parse('B', body));
    }),
    { numRuns: 400 },
  );
});

describe('what the standards allow', () => {
  test.each([
    ['a preamble and an epilogue', `before\r\n${part('x')}--B--\r\nafter --B\r\n`, ['x']],
    ['blanks after the boundary', `--B \t\r\n\r\nx\r\n--B--`, ['x']],
    ['a part without headers', '--B\r\n\r\nx\r\n--B--', ['x']],
    ['an empty part', '--B\r\n\r\n\r\n--B--', ['']],
    ['no parts', '--B--\r\n', []],
    ['a longer boundary in the data', `${part('1\r\n--Bx\r\n2')}--B--`, ['1\r\n--Bx\r\n2']],
    ['a boundary in the middle of a line', `${part('1--B\r2')}--B--`, ['1--B\r2']],
  ])('%s', async (_, body, datas) => {
    for (const sizes of [[body.length], [1], [3]]) {
      const { parts, fault } = await parse('B', body, sizes);
      expect([fault, parts.map(({ data }) => data)]).toEqual([undefined, datas]);
    }
  });

  test.each([
    ['form-data; name="a b"; filename="c;d.txt"', { name: 'a b', filename: 'c;d.txt' }],
    ['form-data; name=a; filename=b.txt', { name: 'a', filename: 'b.txt' }],
    ['form-data; filename="x"; name="y"', { name: 'y', filename: 'x' }],
    ['form-data; name="q\\"uote"; filename="C:\\dir\\f.txt"', { name: 'q"uote', filename: 'C:\\dir\\f.txt' }],
    ["form-data; name=a; filename*=UTF-8'en'%c3%a9.txt", { name: 'a', filename: '\xc3\xa9.txt' }],
    ["form-data; name=a; filename=x; filename*=UTF-8''y", { name: 'a', filename: 'y' }],
    ['form-data; name=a; filename=x; filename*=', { name: 'a', filename: 'x' }],
    ["form-data; name=a; filename=x; filename*=nothing''y", { name: 'a', filename: 'x' }],
    ['form-data; NAME="a"; FileName=""', { name: 'a', filename: '' }],
    ['form-data', { name: undefined, filename: undefined }],
    ['form-data; name="never closed', { name: 'never closed', filename: undefined }],
  ])('Content-Disposition: %s', async (value, expected) => {
    expect(await headOf(`content-disposition: ${value}`)).toEqual({ ...expected, type: '' });
  });
});

const INVALID = { code: 'BODY_MALFORMED', message: 'The body is not valid multipart/form-data.' };
const ENCODED = { code: 'BODY_MALFORMED', message: 'Send the parts without a Content-Transfer-Encoding.' };
const TOO_LONG = { code: 'BODY_TOO_LARGE', message: 'The headers of a part are too large.' };

test.each([
  ['no end', part('x'), INVALID],
  ['nothing', '', INVALID],
  ['a line that is no header', part('x', 'nonsense'), INVALID],
  ['a transfer encoding', part('x', 'Content-Transfer-Encoding: base64'), ENCODED],
  ['headers without end', `--B\r\nX: ${'x'.repeat(20_000)}`, TOO_LONG],
  ['too many headers', part('x', `X: ${'x'.repeat(20_000)}`), TOO_LONG],
])('%s is a fault', async (_, body, refusal) => {
  for (const sizes of [[body.length + 1], [1000]]) {
    expect((await parse('B', body, sizes)).fault).toMatchObject({ refusal });
  }
});

test('more lines that begin like a boundary than an honest body has are a fault, soon', async () => {
  const near = '\r\n--Bx';
  expect((await parse('B', `${part(near.repeat(1000))}--B--`)).fault).toBeUndefined();
  let lines = 0;
  async function* endless(): AsyncGenerator<Buffer, void> {
    yield Buffer.from(part('x').slice(0, -'\r\n'.length));
    for (; ; lines += 1000) yield Buffer.from(near.repeat(1000));
  }
  await expect(Array.fromAsync(partsOf(endless(), 'B'))).rejects.toMatchObject({ refusal: INVALID });
  expect(lines).toBeLessThan(10_000);
});

test('hostile bytes cost no more than others', async () => {
  const boundary = '-'.repeat(70);
  const MiB = 1024 ** 2;
  for (const bytes of ['\r', '\r\n', '\r\n-', '-', `\r\n-${'-'.repeat(69)}x`]) {
    const body = `--${boundary}\r\nContent-Disposition: form-data; name="a"\r\n\r\n${bytes.repeat((4 * MiB) / bytes.length)}x\r\n--${boundary}--`;
    const before = process.threadCpuUsage();
    expect((await parse(boundary, body, [65_536])).fault).toBeUndefined();
    expect(process.threadCpuUsage(before).user / 1e6).toBeLessThan(1);
  }
});
