/** What a visitor might write into a form: for previews and tests. */
import type { FormConfig } from './schema.ts';

const DEFAULT_FIELDS = ['name', 'email', 'subject', 'message'];
const VALUES: ReadonlyMap<string, string> = new Map([
  ['name', 'Ada Lovelace'],
  ['email', 'ada@example.com'],
  ['subject', 'A question'],
  ['message', 'Hello,\n\nis the engine still for sale? I would like to see it before the end of the month.\n\nAda'],
  ['company', 'Analytical Engines Ltd'],
  ['phone', '+44 20 7946 0123'],
]);
const BY_TYPE: Readonly<Record<FormConfig['fields'][string]['type'], string>> = {
  text: 'Some text',
  textarea: 'Some text',
  email: 'ada@example.com',
  url: 'https://example.com/engine',
  tel: '+44 20 7946 0123',
  number: '42',
  date: '2026-12-10',
  checkbox: 'yes',
  list: 'One, Two',
  hidden: 'contact-page',
  file: '',
};

/** A value for each field that the form names, else for the usual ones; none for files. */
export function sampleFields(form: Pick<FormConfig, 'fields' | 'required'> | undefined): Record<string, string> {
  const { fields = {}, required = [] } = form ?? {};
  const declared = Object.keys(fields);
  const all = new Set([...(declared.length === 0 ? DEFAULT_FIELDS : declared), ...required]);
  const names = [...all].filter((name) => fields[name]?.type !== 'file');
  return Object.fromEntries(
    names.map((name) => {
      const { type = 'text', options } = fields[name] ?? {};
      return [name, options?.[0] ?? (type === 'text' ? VALUES.get(name) : undefined) ?? BY_TYPE[type]];
    }),
  );
}
