import { InvalidArgumentError } from 'commander';
import { describe, expect, test } from 'vitest';
import {
  dateOrTime,
  domainName,
  listOf,
  mailAddress,
  moment,
  month,
  oneOf,
  serverAddress,
  webAddress,
  wholeNumber,
} from '../../src/cli/values.ts';

const list = listOf(oneOf(['a', 'b']));

describe('values of options', () => {
  test.each([
    [wholeNumber(1), '500', 500],
    [wholeNumber(0, 3), '0', 0],
    [dateOrTime, '2026-01-31', '2026-01-31'],
    [dateOrTime, '2026-01-31T12:00Z', '2026-01-31T12:00Z'],
    [dateOrTime, '2026-01-31T12:00:00.5+02:00', '2026-01-31T12:00:00.5+02:00'],
    [moment, '2026-01-31', '2026-01-31T00:00:00.000Z'],
    [moment, '2026-01-31T12:00:00+02:00', '2026-01-31T10:00:00.000Z'],
    [month, '2026-12', '2026-12'],
    [mailAddress, ' ana@Example.COM ', 'ana@example.com'],
    [domainName, 'Bücher.example', 'xn--bcher-kva.example'],
    [webAddress, 'https://example.com/hook', 'https://example.com/hook'],
    [serverAddress, 'http://127.0.0.1:8025/', 'http://127.0.0.1:8025/'],
    [serverAddress, 'unix:/run/postern/admin.sock', 'unix:/run/postern/admin.sock'],
    [list, 'a, b,', ['a', 'b']],
  ] as const)('%o takes %j', (read, text, value) => {
    expect(read(text)).toEqual(value);
  });

  test.each([
    [wholeNumber(1), ['0', '-1', '1.5', '1e3', '', ' 1', 'one', '99999999999999999999'], 'a whole number of 1 or more'],
    [wholeNumber(1, 200), ['201'], 'a whole number from 1 to 200'],
    [
      dateOrTime,
      ['2026-02-30', '2026-13-01', '2026-1-1', 'yesterday', '2026-01-31T25:00Z', '2026-01-31T12:00', '1999-01-01', ''],
      'a date such as 2026-01-31',
    ],
    [moment, ['tomorrow'], 'a date such as 2026-01-31'],
    [month, ['2026', '2026-13', '2026-1'], 'a month such as 2026-01'],
    [mailAddress, ['ana', 'ana@', 'a b@example.com', ''], 'an email address such as'],
    [domainName, ['example', 'https://example.com', ''], 'a domain name such as'],
    [webAddress, ['example.com', 'ftp://example.com', 'https://'], 'a URL such as'],
    [
      serverAddress,
      ['mail.example.net', 'unix:', 'https://', '/run/postern/admin.sock'],
      'https://mail.example.net or unix:',
    ],
    [list, ['', ' , '], 'at least one'],
    [list, ['a,c'], '"c" is not one of a, b'],
  ] as const)('%o refuses %j', (read, texts, words) => {
    for (const text of texts) {
      expect(() => read(text), text).toThrow(InvalidArgumentError);
      expect(() => read(text), text).toThrow(words);
    }
  });

  test('a list that is given more than once goes on', () => {
    expect(list('b', list('a'))).toEqual(['a', 'b']);
  });
});
