/** What a validator complains about reaches nobody in its own words. */
import { expect, test } from 'vitest';
import { z } from 'zod';
import { explain } from '../../../src/config/explain.ts';
import { readYaml } from '../../../src/config/yaml.ts';
import { invalid } from '../../../src/http/api/route.ts';

/** A schema of one value, a value that it does not take, and what the answer says of it. */
const CASES: [name: string, schema: z.ZodType, value: unknown, words: string][] = [
  ['a number too small', z.number().min(1), 0, 'must be a number of at least 1'],
  ['a number too big', z.number().max(5), 9, 'must be a number of at most 5'],
  ['no multiple', z.number().multipleOf(5), 7, 'must be a multiple of 5'],
  ['text too short', z.string().min(2), 'a', 'must be text of at least 2 characters'],
  ['text too long', z.string().max(1), 'ab', 'must be text of at most 1 character'],
  ['text of another length', z.string().length(3), 'a', 'must be text of exactly 3 characters'],
  ['a list too short', z.array(z.string()).min(1), [], 'must be a list of at least 1 entry'],
  ['a list too long', z.array(z.string()).max(2), ['a', 'b', 'c'], 'must be a list of at most 2 entries'],
  ['a set too long', z.set(z.string()).max(1), new Set(['a', 'b']), 'must be a list of at most 1 entry'],
  ['another type', z.string(), 7, 'must be text'],
  ['no whole number', z.int(), 1.5, 'must be a whole number'],
  ['no number at all', z.number(), 'x', 'must be a whole number'],
  ['no truth', z.boolean(), 'yes', 'must be true or false'],
  ['no list', z.array(z.string()), 'a', 'must be a list'],
  ['no map', z.object({}), 'a', 'must be a map of keys'],
  ['none of a list', z.enum(['a', 'b']), 'c', 'must be one of a, b'],
  ['not the one', z.literal('a'), 'c', 'must be a'],
  ['no address', z.email(), 'x', 'must be an email address, such as name@example.com'],
  ['no URL', z.url(), 'x', 'must be a URL, such as https://example.com/'],
  ['no time', z.iso.datetime(), 'x', 'must be a time, such as 2030-01-31T12:00:00Z'],
  ['no date', z.iso.date(), 'x', 'must be a date, such as 2030-01-31'],
  ['another form', z.string().regex(/^a$/), 'b', 'must be text in another format'],
  ['none of several', z.union([z.string(), z.array(z.string())]), 7, 'must be text or a list'],
  ['a bad key', z.record(z.string().min(2), z.string()), { a: 'x' }, 'must be text of at least 2 characters'],
  ['a bad entry', z.map(z.string(), z.string().min(1)), new Map([['a', '']]), 'must be text of at least 1 character'],
  ['a check of ours', z.string().refine(() => false, 'must be another'), 'x', 'must be another'],
  ['a check of a file', z.string().refine(() => false, 'expected a slug'), 'x', 'must be a slug'],
  ['a check without words', z.string().refine(() => false), 'x', 'must be another value'],
  ['nothing', z.string(), undefined, 'is missing'],
];

const RAW = /Too (?:small|big)|Invalid|expected (?:string|number|array|object)|>=|<=/;

test.each(CASES)('%s', (_, one, value, words) => {
  const schema = z.object({ value: one });
  const result = schema.safeParse({ value }, { reportInput: true });
  if (result.success) throw new Error('it passed');
  const { errors, message } = invalid(result.error, schema);
  expect(errors?.map((each) => each.message)).toEqual([words]);
  expect(message).toMatch(/^value\S* .*\.$/);
  expect(JSON.stringify([errors, message])).not.toMatch(RAW);
  const yaml = readYaml(
    `value: ${['string', 'number'].includes(typeof value) ? JSON.stringify(value) : '{ a: x }'}\n`,
    'f',
  );
  for (const finding of explain(result.error.issues, schema, yaml)) expect(finding.message).not.toMatch(RAW);
});
