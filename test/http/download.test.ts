import { expect, test } from 'vitest';
import { download } from '../../src/http/answer.ts';

async function* pieces(...texts: string[]) {
  for (const text of texts) yield await Promise.resolve(Buffer.from(text));
}

test.each([
  ['cv.pdf', 'attachment; filename="cv.pdf"'],
  ['a b.pdf', 'attachment; filename="a b.pdf"'],
  ['', 'attachment; filename="file"'],
  ['x".html', 'attachment; filename="x_.html"; filename*=UTF-8\'\'x%22.html'],
  ['100%.txt', 'attachment; filename="100_.txt"; filename*=UTF-8\'\'100%25.txt'],
  ['Größe (1).pdf', 'attachment; filename="Gr__e (1).pdf"; filename*=UTF-8\'\'Gr%C3%B6%C3%9Fe%20%281%29.pdf'],
  ['a\r\nX: y', 'attachment; filename="a__X: y"; filename*=UTF-8\'\'a%0D%0AX%3A%20y'],
  ['\ud800', 'attachment; filename="_"; filename*=UTF-8\'\'%EF%BF%BD'],
])('%j is saved under its name', (filename, disposition) => {
  const { headers } = download({ type: 'application/octet-stream', filename, stream: pieces() });
  expect(headers?.['Content-Disposition']).toBe(disposition);
});

test('a file that ends early is broken off', async () => {
  const read = async (size: number) => {
    const { stream } = download({ type: 'application/octet-stream', filename: 'a', size, stream: pieces('ab', 'cd') });
    let text = '';
    for await (const piece of stream ?? []) text += Buffer.from(piece).toString();
    return text;
  };
  expect(await read(4)).toBe('abcd');
  await expect(read(5)).rejects.toThrow('removed');
});
