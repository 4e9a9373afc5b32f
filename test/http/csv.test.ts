import { expect, test } from 'vitest';
import { csv, csvLine } from '../../src/http/answer.ts';

test.each([
  { cells: ['a', 'b c', ''], line: 'a,b c,\r\n' },
  { cells: ['a,b', 'say "hi"', 'two\r\nlines'], line: '"a,b","say ""hi""","two\r\nlines"\r\n' },
  { cells: [null, 0, -5, 1.5], line: ',0,-5,1.5\r\n' },
  { cells: ['=1+1', '+49 30 1234', '-1', '@SUM(A1)'], line: "'=1+1,'+49 30 1234,'-1,'@SUM(A1)\r\n" },
  { cells: ['\t=1', '\r=1', '\n=1'], line: `'\t=1,"'\r=1","'\n=1"\r\n` },
  { cells: ['=HYPERLINK("http://x","y")'], line: `"'=HYPERLINK(""http://x"",""y"")"\r\n` },
  { cells: ['＝1', 'a=b', "O'Neil", 'Grüße 😀'], line: "'＝1,a=b,O'Neil,Grüße 😀\r\n" },
])('$cells is $line', ({ cells, line }) => {
  expect(csvLine(cells)).toBe(line);
});

test('a table is a download of its columns and rows', () => {
  expect(csv(['day', 'requests'], [['2026-01-01', 3]], 'usage.csv')).toEqual({
    status: 200,
    type: 'text/csv; charset=utf-8',
    body: 'day,requests\r\n2026-01-01,3\r\n',
    headers: { 'Content-Disposition': 'attachment; filename="usage.csv"' },
  });
});
