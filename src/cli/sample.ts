/** A submission that nobody sent, for looking at templates: what a form's own fields would hold, else the usual ones. */
import { labelOf } from '../config/label.ts';
import type { FormConfig, ProjectConfig } from '../config/schema.ts';
import { systemClock } from '../lib/clock.ts';

import type { Variables } from '../templates/template.ts';

type FormRules = Omit<FormConfig, 'to' | 'from' | 'reply_relay'>;

/** A form of a project, whatever it belongs to. */
export interface LocalForm {
  /** `example.com/contact`, `c/partners/signup` */
  readonly id: string;
  readonly name: string;
  /** Whose name its mail is from; of a collection's form the server's own, which is not known here. */
  readonly domain: string | undefined;
  readonly config: FormRules & Partial<Pick<FormConfig, 'from'>>;
}

/** Every form that the configuration declares. */
export function formsIn({ domains, collections }: ProjectConfig): LocalForm[] {
  return [
    ...Object.entries(domains).flatMap(([domain, { forms }]) =>
      Object.entries(forms).map(([key, config]) => ({
        id: `${domain}/${key}`,
        name: config.name ?? key,
        domain,
        config,
      })),
    ),
    ...Object.entries(collections).flatMap(([collection, { forms }]) =>
      Object.entries(forms).map(([key, config]) => ({
        id: `c/${collection}/${key}`,
        name: config.name ?? key,
        domain: undefined,
        config,
      })),
    ),
  ];
}

const USUAL = ['name', 'email', 'subject', 'message'];
const VALUES: ReadonlyMap<string, string> = new Map([
  ['name', 'Ada Lovelace'],
  ['email', 'ada@example.com'],
  ['subject', 'A question'],
  ['message', 'Hello,\n\nis the engine still for sale? I would like to see it before the end of the month.\n\nAda'],
  ['company', 'Analytical Engines Ltd'],
  ['phone', '+44 20 7946 0123'],
]);
const BY_TYPE: Readonly<Record<FormConfig['fields'][string]['type'], string>> = {
  text: 'Some words',
  email: 'ada@example.com',
  url: 'https://example.com/engine',
  tel: '+44 20 7946 0123',
  number: '42',
  date: '2026-12-10',
  list: 'One, Two',
  file: '',
};

/** What its templates see; `given` stands over it, its `form` member by member. */
export function sampleOf(form: LocalForm | undefined, given: Variables = {}): Variables {
  const { form: givenFields, ...others } = given;
  const values = { ...fieldsOf(form), ...membersOf(givenFields) };
  const config = { fields: form?.config.fields ?? {} };
  const domain = form === undefined ? 'example.com' : (form.domain ?? 'mail.example.net');
  return {
    form: values,
    fields: Object.entries(values).map(([name, value]) => ({
      name,
      label: labelOf(config, name),
      value: Array.isArray(value) ? value.join(', ') : value,
    })),
    form_name: form?.name ?? 'Contact',
    domain,
    timestamp: systemClock.now(),
    ip: '192.0.2.1',
    submission_id: 'sub_01jgwz4v8k7m5n3p2q1r0s9t8v',
    referer: `https://${domain}/contact`,
    files:
      form?.config.uploads?.enabled === true
        ? [{ filename: 'notes.pdf', size: 48_213, content_type: 'application/pdf' }]
        : [],
    ...others,
  };
}

function fieldsOf(form: LocalForm | undefined): Record<string, unknown> {
  const { fields = {}, required = [] } = form?.config ?? {};
  const declared = Object.keys(fields);
  const all = new Set([...(declared.length === 0 ? USUAL : declared), ...required]);
  const names = [...all].filter((name) => fields[name]?.type !== 'file');
  return Object.fromEntries(
    names.map((name) => {
      const { type = 'text', options } = fields[name] ?? {};
      return [name, options?.[0] ?? (type === 'text' ? VALUES.get(name) : undefined) ?? BY_TYPE[type]];
    }),
  );
}

function membersOf(value: unknown): object {
  return typeof value === 'object' && value !== null ? value : {};
}
