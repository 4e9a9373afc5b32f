/** The forms that are posted: which fields there are, what they are called, and what else they carry. */
import type { Kit, Language } from './kits.ts';
import type { Random } from './random.ts';
import type { Sender } from './senders.ts';

type Role = 'name' | 'first' | 'last' | 'email' | 'phone' | 'company' | 'city' | 'subject' | 'message';
type Field = readonly [string, string];

export interface Content {
  readonly kit: Kit;
  readonly sender: Sender;
  readonly subject: string | undefined;
  readonly message: string | undefined;
  /** Fields of the kit. */
  readonly own: readonly Field[];
  readonly site: string;
}

const FORMS: readonly (readonly Role[])[] = [
  ['name', 'email', 'message'],
  ['name', 'email', 'message'],
  ['name', 'email', 'subject', 'message'],
  ['name', 'email', 'subject', 'message'],
  ['name', 'email', 'phone', 'message'],
  ['name', 'email', 'phone', 'subject', 'message'],
  ['first', 'last', 'email', 'phone', 'message'],
  ['first', 'last', 'email', 'message'],
  ['name', 'company', 'email', 'phone', 'message'],
  ['company', 'first', 'last', 'email', 'subject', 'message'],
  ['name', 'phone', 'email', 'city', 'message'],
  ['email', 'message'],
  ['email', 'subject', 'message'],
];

/** How markup names its fields; a language's own names are in its file. */
const MARKUP: readonly Readonly<Record<Role, string>>[] = [
  { name: 'name', first: 'first_name', last: 'last_name', email: 'email', phone: 'phone', company: 'company', city: 'city', subject: 'subject', message: 'message' },
  { name: 'Name', first: 'FirstName', last: 'LastName', email: 'Email', phone: 'Phone', company: 'Company', city: 'City', subject: 'Subject', message: 'Message' },
  { name: 'your-name', first: 'your-first-name', last: 'your-last-name', email: 'your-email', phone: 'your-tel', company: 'your-company', city: 'your-city', subject: 'your-subject', message: 'your-message' },
  { name: 'full_name', first: 'fname', last: 'lname', email: 'email_address', phone: 'tel', company: 'organisation', city: 'town', subject: 'topic', message: 'comments' },
  { name: 'contact[name]', first: 'contact[first_name]', last: 'contact[last_name]', email: 'contact[email]', phone: 'contact[phone]', company: 'contact[company]', city: 'contact[city]', subject: 'contact[subject]', message: 'contact[body]' },
  { name: 'fullName', first: 'firstName', last: 'lastName', email: 'emailAddress', phone: 'phoneNumber', company: 'companyName', city: 'location', subject: 'reason', message: 'enquiry' },
]; // prettier-ignore

/** What forms carry beside; a spammer's program fills it as honest people do. */
const EXTRAS: readonly (readonly [string, readonly string[]])[] = [
  ['privacy', ['on', 'yes', 'accepted', '1']],
  ['consent', ['true', 'on', 'I agree']],
  ['newsletter', ['no', 'yes', '0', '1']],
  ['contact_by', ['phone', 'email', 'any']],
  ['department', ['sales', 'support', 'general', 'other']],
  ['how_did_you_hear', ['Google', 'a friend', 'Instagram', 'newspaper', 'other']],
  ['country', ['Germany', 'United Kingdom', 'France', 'Spain', 'Italy', 'USA', 'Poland']],
  ['budget', ['< 1000', '1000-5000', '5000+', '']],
  ['urgent', ['no', 'yes']],
];

/** The fields of one post, in the order of the page. */
export function layoutOf(random: Random, language: Language, content: Content): Field[] {
  const { kit, sender, own, site } = content;
  const roles = rolesFor(random, content);
  const native = nativeNames(random, language);
  const names = native !== undefined && random.chance(0.45) ? native : random.pick(MARKUP);
  const fields: Field[] = roles.map((role) => [names[role], valueOf(random, role, content)]);
  const message = fields.findIndex((_, index) => roles[index] === 'message');
  fields.splice(message === -1 ? fields.length : message, 0, ...own);
  // Programs fill a field for a website with what they advertise; people leave it empty or give their own.
  if (random.chance(0.08)) {
    const link = kit.label === 'spam' ? /https?:\/\/[^\s\]"<]+/.exec(content.message ?? '')?.[0] : undefined;
    fields.splice(-1, 0, [
      'website',
      link ?? random.pick(['', '', `https://${site}`, `www.${sender.email.split('@').at(-1) ?? ''}`]),
    ]);
  }
  if (random.chance(0.3)) {
    const [name, values] = random.pick(EXTRAS);
    fields.push([name, random.pick(values)]);
  }
  return fields;
}

function rolesFor(random: Random, { message, subject, own }: Content): readonly Role[] {
  if (message === undefined)
    return own.length === 0
      ? random.pick([['email'], ['name', 'email'], ['first', 'email']] as const)
      : ['name', 'email'];
  const roles = random.pick(FORMS);
  return subject === undefined ? roles.filter((role) => role !== 'subject') : roles;
}

function valueOf(random: Random, role: Role, { sender, subject, message }: Content): string {
  switch (role) {
    case 'subject':
      return subject ?? '';
    case 'message':
      return message ?? '';
    case 'phone':
    case 'company':
      return random.chance(0.2) ? '' : sender[role];
    default:
      return sender[role];
  }
}

function nativeNames(random: Random, language: Language): Readonly<Record<Role, string>> | undefined {
  const { pools } = language;
  function one(role: Role): string | undefined {
    const names = pools.get(`field.${role}`);
    return names === undefined ? undefined : random.pick(names);
  }
  const name = one('name');
  if (name === undefined) return undefined;
  const [base] = MARKUP;
  if (base === undefined) return undefined;
  return {
    name,
    first: one('first') ?? base.first,
    last: one('last') ?? base.last,
    email: one('email') ?? base.email,
    phone: one('phone') ?? base.phone,
    company: one('company') ?? base.company,
    city: one('city') ?? base.city,
    subject: one('subject') ?? base.subject,
    message: one('message') ?? base.message,
  };
}
