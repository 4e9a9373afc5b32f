import { expect, test } from 'vitest';
import { parseFormId } from '../../src/forms/find.ts';

const OWN = 'frm_01kdvdna00dygrdbn7kp1hvk3p';

test.each([
  ['example.com/contact', { kind: 'domain', id: 'example.com/contact', domain: 'example.com', key: 'contact' }],
  ['Bücher.example/contact', { kind: 'domain', id: 'xn--bcher-kva.example/contact', key: 'contact' }],
  ['c/site/contact', { kind: 'collection', id: 'c/site/contact', collection: 'site', key: 'contact' }],
  [OWN, { kind: 'own', id: OWN }],
])('%s', (text, parsed) => {
  expect(parseFormId(text)).toMatchObject(parsed);
});

test.each([
  '',
  'contact',
  'example.com',
  'example.com/',
  '/contact',
  'c/site',
  'c/site/',
  'd/site/contact',
  'a.b/c/d/e',
  'frm_1',
])('%j names no form', (text) => {
  expect(parseFormId(text)).toBeUndefined();
});
