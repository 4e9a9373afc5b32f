import fc from 'fast-check';
import { expect, test } from 'vitest';
import { checkSubmission, createMatching, hashOfBody, type SubmittedBody } from '../../src/forms/fields.ts';
import { localized, translationOf } from '../../src/languages/languages.ts';
import { formOf, upload, type WorldConfig } from './world.ts';
import { cpuSeconds } from '../harness/cpu.ts';

type Entries = SubmittedBody['entries'];

function check(form: WorldConfig['form'], entries: Entries, files: SubmittedBody['files'] = []) {
  return checkSubmission(formOf({ form }), { entries, files }, createMatching());
}

function codes(form: WorldConfig['form'], entries: Entries, files: SubmittedBody['files'] = []) {
  return check(form, entries, files).errors.map(({ field, code }) =>
    field === undefined ? code : `${field}: ${code}`,
  );
}

test('fields keep their order, repeated names and x[] are lists, control fields and honeypots are no data', () => {
  const { fields, control, errors } = check({ spam_protection: { honeypot: 'website2' } }, [
    ['name', 'Ana'],
    ['_subject', 'Hello'],
    ['topic', 'a'],
    ['colour[]', 'red'],
    ['_next', '/thanks'],
    ['topic', 'b'],
    ['_replyto', 'ana@example.org'],
    ['website2', 'x'],
    ['_gotcha', ''],
    ['topic[]', 'c'],
    ['[]', 'd'],
  ]);
  expect(fields).toEqual([
    ['name', 'Ana'],
    ['topic', ['a', 'b', 'c']],
    ['colour', ['red']],
    ['[]', 'd'],
  ]);
  expect(control).toEqual({ subject: 'Hello', replyTo: 'ana@example.org', next: '/thanks', trapped: ['website2'] });
  expect(errors).toEqual([]);
});

test('names that objects inherit are names like any other', () => {
  const names = ['__proto__', 'toString', 'constructor', 'hasOwnProperty', '__defineGetter__'];
  const { fields, errors } = check(
    {},
    names.map((name) => [name, 'x'] as const),
  );
  expect(fields).toEqual(names.map((name) => [name, 'x']));
  expect(errors).toEqual([]);
  expect(({} as { x?: string }).x).toBeUndefined();
  expect(codes({ required: ['constructor'] }, [['a', 'b']])).toEqual(['constructor: REQUIRED_FIELD_MISSING']);
});

test('whatever is sent comes back: nothing is lost, merged or invented', () => {
  const form = formOf();
  const name = fc
    .string({ unit: 'binary', minLength: 1, maxLength: 12 })
    .filter((text) => !text.startsWith('_') && !text.endsWith('[]'));
  fc.assert(
    fc.property(fc.array(fc.tuple(name, fc.string({ unit: 'binary' })), { maxLength: 30 }), (entries) => {
      const { fields } = checkSubmission(form, { entries, files: [] }, createMatching());
      const back = fields.flatMap(([key, value]) => [value].flat().map((one) => [key, one]));
      const order = [...new Set(entries.map(([key]) => key))];
      expect(back).toEqual(order.flatMap((key) => entries.filter(([other]) => other === key)));
    }),
  );
});

test('five thousand fields of one name are one list, in no time', () => {
  const entries: Entries = Array.from({ length: 5000 }, (_, i) => ['x[]', String(i)] as const);
  const { fields } = check({}, entries);
  expect(fields.length).toBe(1);
  expect(fields[0]?.[1].length).toBe(5000);
});

test.each<[string, WorldConfig['form'], Entries, string[]]>([
  ['missing', { required: ['name'] }, [['message', 'x']], ['name: REQUIRED_FIELD_MISSING']],
  ['blank', { required: ['name'] }, [['name', ' \t\r\n\u3000']], ['name: REQUIRED_FIELD_EMPTY']],
  [
    'one of a list is enough',
    { required: ['name'] },
    [
      ['name', ''],
      ['name', 'x'],
    ],
    [],
  ],
  ['email', {}, [['email', 'ana@']], ['email: TYPE_EMAIL']],
  ['Email, too', {}, [['Email', 'ana at example.org']], ['Email: TYPE_EMAIL']],
  ['a list of addresses in one value', {}, [['email', 'ana@example.org, b@example.org']], ['email: TYPE_EMAIL']],
  ['a line break in an address', {}, [['email', 'ana@example.org\r\nBcc: v@example.org']], ['email: TYPE_EMAIL']],
  [
    'an empty email that is not required',
    {},
    [
      ['email', ''],
      ['message', 'x'],
    ],
    [],
  ],
  ['blanks around an email', {}, [['email', ' ana@example.org ']], []],
  ['an international email', {}, [['email', 'ana@bücher.example']], []],
  [
    '_replyto',
    {},
    [
      ['_replyto', 'ana'],
      ['message', 'x'],
    ],
    ['_replyto: TYPE_EMAIL'],
  ],
  [
    'an empty form',
    {},
    [
      ['name', ''],
      ['message', ' '],
    ],
    ['EMPTY'],
  ],
  ['nothing at all', {}, [], ['EMPTY']],
  ['control fields alone', {}, [['_subject', 'x']], ['EMPTY']],
  [
    'what is required is named, not EMPTY',
    { required: ['a', 'b'] },
    [['a', '']],
    ['a: REQUIRED_FIELD_EMPTY', 'b: REQUIRED_FIELD_MISSING'],
  ],
  ['number', { fields: { n: { type: 'number' } } }, [['n', '12a']], ['n: TYPE_NUMERIC']],
  ['hexadecimal', { fields: { n: { type: 'number' } } }, [['n', '0x10']], ['n: TYPE_NUMERIC']],
  [
    'numbers',
    { fields: { n: { type: 'number' } } },
    [
      ['n', ' -1.5e3 '],
      ['n', '.5'],
    ],
    [],
  ],
  [
    'a number too high',
    { fields: { n: { type: 'number', max: 10 } } },
    [
      ['n', '10'],
      ['n', '11'],
    ],
    ['n: TYPE_NUMERIC'],
  ],
  ['type email of another name', { fields: { mail: { type: 'email' } } }, [['mail', 'x']], ['mail: TYPE_EMAIL']],
  [
    'email stays email whatever its rule says',
    { fields: { email: { label: 'E-mail' } } },
    [['email', 'x']],
    ['email: TYPE_EMAIL'],
  ],
  ['url', { fields: { u: { type: 'url' } } }, [['u', 'javascript:alert(1)']], ['u: TYPE_TEXT']],
  ['urls', { fields: { u: { type: 'url' } } }, [['u', 'https://example.com/ä?b=c#d']], []],
  ['tel', { fields: { t: { type: 'tel' } } }, [['t', 'call me']], ['t: TYPE_TEXT']],
  [
    'tels',
    { fields: { t: { type: 'tel' } } },
    [
      ['t', '+49 (0)30 / 123-456'],
      ['t', '110'],
    ],
    [],
  ],
  ['date', { fields: { d: { type: 'date' } } }, [['d', '2026-02-30']], ['d: TYPE_TEXT']],
  ['dates', { fields: { d: { type: 'date' } } }, [['d', '2028-02-29']], []],
  [
    'options',
    { fields: { o: { options: ['a', 'b'] } } },
    [
      ['o', 'a'],
      ['o', 'c'],
    ],
    ['o: TYPE_TEXT'],
  ],
  [
    'list',
    { fields: { l: { type: 'list', max: 2 } } },
    [
      ['l', 'a'],
      ['l', 'b'],
      ['l', 'c'],
    ],
    ['l: TYPE_TEXT'],
  ],
  ['too long', { fields: { m: { max: 3 } } }, [['m', 'abcd']], ['m: TYPE_TEXT']],
  ['a line end counts once', { fields: { m: { max: 3 } } }, [['m', 'a\r\nb']], []],
  ['pattern', { fields: { p: { pattern: '[0-9]{5}' } } }, [['p', '123456']], ['p: TYPE_TEXT']],
  [
    'patterns',
    { fields: { p: { pattern: '[0-9]{5}|none' } } },
    [
      ['p', '12345'],
      ['p', 'none'],
      ['p', ''],
    ],
    [],
  ],
  ['file', { fields: { f: { type: 'file' } } }, [['f', 'x']], ['f: TYPE_TEXT']],
])('%s', (_, form, entries, expected) => {
  expect(codes(form, entries)).toEqual(expected);
});

test.each<[string, WorldConfig['form'], Parameters<typeof upload>[0][], string[]]>([
  ['none are taken unless the form says so', {}, [{}], ['NO_FILE_UPLOADS']],
  ['none are taken where uploads are off', { uploads: { enabled: false } }, [{}], ['NO_FILE_UPLOADS']],
  ['a file is enough of a form', { uploads: {} }, [{}], []],
  ['no file was chosen', {}, [{ filename: '', size: 0 }], ['EMPTY']],
  ['too many', { uploads: { max_files: 1 } }, [{}, {}], ['TOO_MANY_FILES']],
  ['too big', { uploads: { max_size: '1KiB' } }, [{ size: 1024 }, { size: 1025 }], ['FILES_TOO_BIG']],
  [
    'by extension',
    { uploads: { types: ['.pdf', 'docx'] } },
    [{ filename: 'A.PDF' }, { filename: 'b.docx', signature: 'word' }],
    [],
  ],
  [
    'not by a part of an extension',
    { uploads: { types: ['pdf'] } },
    [{ filename: 'b.xpdf' }],
    ['file: FILE_TYPE_NOT_ALLOWED'],
  ],
  ['by media type', { uploads: { types: ['application/pdf'] } }, [{ contentType: 'Application/PDF; x=y' }], []],
  [
    'by kind',
    { uploads: { types: ['image/*'] } },
    [{ filename: 'a.png', contentType: 'image/png', signature: 'png' }, {}],
    ['file: FILE_TYPE_NOT_ALLOWED'],
  ],
  ['a required file', { required: ['file'], uploads: {} }, [{}], []],
])('files: %s', (_, form, files, expected) => {
  expect(codes(form, [], files.map(upload))).toEqual(expected);
});

test('a file that is required and was not chosen is missing', () => {
  const none = upload({ filename: '', size: 0 });
  expect(codes({ required: ['file'], uploads: {} }, [['name', 'x']], [none])).toEqual(['file: REQUIRED_FIELD_MISSING']);
  expect(check({ uploads: {} }, [['name', 'x']], [none, upload()]).files).toEqual([upload()]);
});

test('a required x[] is a required x', () => {
  expect(codes({ required: ['x[]'] }, [['x[]', 'a']])).toEqual([]);
  expect(codes({ required: ['x[]'] }, [['y', 'a']])).toEqual(['x: REQUIRED_FIELD_MISSING']);
});

test('messages speak to a person and name the field as its label does', () => {
  const form = { required: ['full_name'], fields: { full_name: { label: 'Your name' }, age: { type: 'number' } } };
  const { errors } = check(form, [
    ['age', 'x'],
    ['email', 'y'],
  ]);
  expect(errors.map(({ message }) => localized(message, translationOf('en')))).toEqual([
    'Please fill in “Your name”.',
    '“Age” must be a number.',
    '“Email” must be an email address, such as name@example.com.',
  ]);
});

test.each([
  ['a*a*a*a*a*a*b', 'a'.repeat(100)],
  [String.raw`\w*-?\w*-?\w*-?\w*-?\w*`, `${'a'.repeat(60_000)}!`],
  ['(?:[ab]*a){30}[ab]{50}', 'ab'.repeat(5000)],
  ['[ab]{0,100}[ab]{0,100}c', 'ab'.repeat(5000)],
])('the pattern %s ends soon, also in many fields', (pattern, text) => {
  const names = Array.from({ length: 20 }, (_, i) => `p${i}`);
  const fields = Object.fromEntries(names.map((name) => [name, { pattern }]));
  const spent = cpuSeconds(() => {
    expect(
      codes(
        { fields },
        names.map((name) => [name, text]),
      ),
    ).toHaveLength(20);
  });
  expect(spent).toBeLessThan(0.3);
});

test('a pattern that only an older version took refuses nothing', () => {
  const form = formOf({ form: {} });
  const config = { ...form.config, fields: { p: { type: 'text' as const, pattern: '(?=.*[0-9]).{8,}' } } };
  const { errors } = checkSubmission({ config }, { entries: [['p', 'short']], files: [] }, createMatching());
  expect(errors).toEqual([]);
});

test('the hash of a body is of its data: the same whatever boundary it came with, another for another file', () => {
  const entries: Entries = [['a', 'b']];
  const hash = hashOfBody({ entries, files: [upload({ id: 'fil_1', sha256: 'aa' })] });
  expect(hashOfBody({ entries, files: [upload({ id: 'fil_2', sha256: 'aa' })] })).toBe(hash);
  expect(hashOfBody({ entries, files: [upload({ sha256: 'bb' })] })).not.toBe(hash);
  expect(hashOfBody({ entries: [['a', 'c']], files: [upload({ sha256: 'aa' })] })).not.toBe(hash);
  expect(
    hashOfBody({
      entries: [
        ['a', ''],
        ['b', ''],
      ],
      files: [],
    }),
  ).not.toBe(
    hashOfBody({
      entries: [
        ['b', ''],
        ['a', ''],
      ],
      files: [],
    }),
  );
});
