import { expect, test } from 'vitest';
import { findDomain } from '../../src/config/snapshot.ts';
import { findSendForm } from '../../src/forms/find.ts';
import { DOMAIN, snapshotOf } from './world.ts';

test('a domain is found in whatever case or script it is written', () => {
  const snapshot = snapshotOf();
  expect(findDomain(snapshot, 'EXAMPLE.com')?.name).toBe('example.com');
  expect(findDomain(snapshot, 'example.org')).toBeUndefined();
  expect(findDomain(snapshot, '../..')).toBeUndefined();
});

test.each([
  ['the form that the field names', { forms: { send: {}, other: {} } }, 'other', 'other'],
  ['the default form', { forms: { send: {}, other: {} }, domain: { default_form: 'other' } }, undefined, 'other'],
  ['a field that names no form is a field', { forms: { send: {} } }, 'a brochure', 'send'],
  ['send before contact', { forms: { send: {} } }, undefined, 'send'],
  ['default before contact', { forms: { default: {} } }, undefined, 'default'],
  ['contact', { forms: { other: {} } }, undefined, 'contact'],
] as const)('/v1/{domain}/send goes to: %s', (_, config, named, key) => {
  const domain = findDomain(snapshotOf(config), DOMAIN);
  expect(domain && findSendForm(domain, named)?.key).toBe(key);
});

test('/v1/{domain}/send goes to the only form, and of two to none', () => {
  const contact = findDomain(snapshotOf({ forms: { quote: {} } }), DOMAIN);
  if (contact === undefined) throw new Error('no domain');
  const forms = (...keys: string[]) => new Map([...contact.forms].filter(([key]) => keys.includes(key)));
  expect(findSendForm({ ...contact, forms: forms('quote') }, undefined)?.key).toBe('quote');
  const two = new Map([...forms('quote'), ...[...forms('quote').values()].map((form) => ['other', form] as const)]);
  expect(findSendForm({ ...contact, forms: two }, undefined)).toBeUndefined();
  expect(findSendForm({ ...contact, forms: forms() }, undefined)).toBeUndefined();
});
