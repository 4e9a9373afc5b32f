/** What a visitor wrote, as all parts of the filter read it: at most 256 KiB of it, with its links. */
import type { Form } from '../../config/snapshot.ts';
import { emailOf, replyToOf, valuesOf, type Control, type Field } from '../fields.ts';
import { linksOf, type Link } from './links.ts';
import type { Visit } from './visit.ts';

/** Something that the visitor wrote, and the field that it stood in. */
export interface Value {
  readonly name: string;
  readonly text: string;
  /** An address of mail, digits and signs, what a person, firm or place is called, or words. */
  readonly kind: 'address' | 'number' | 'name' | 'words';
}

export interface Text {
  readonly values: readonly Value[];
  /** All values. */
  readonly text: string;
  readonly links: readonly Link[];
  /** The visitor's address. */
  readonly email: string | undefined;
  /** The domain whose form it is. */
  readonly domain: string;
}

/** What the filter knows of a form. */
export type Rules = Pick<Form, 'config' | 'domain' | 'id' | 'tenant' | 'project'>;

export interface SpamInput {
  readonly fields: readonly Field[];
  readonly control: Control;
  /** The visitor's address. */
  readonly ip: string;
  readonly visit?: Visit | undefined;
}

export interface Written {
  readonly fields: readonly Field[];
  readonly control: Pick<Control, 'subject' | 'replyTo'>;
}

/** The most links that are looked at one by one. */
const MAX_LINKS = 200;
const MAX_TEXT_LENGTH = 256 * 1024;
const MAX_ADDRESS_LENGTH = 330;
const MAX_NAME_LENGTH = 60;
const ONE_ADDRESS = /^\s*[^\s@]{1,64}@[^\s@]{1,255}\s*$/;
const NO_WORDS = /^[\s\d+()./,;:*#-]*$/;
/** A field for a person, a firm or a place: what people are called says nothing. */
const NAME =
  /(?:^|[^a-z])(?:f|l)?name|name$|^(?:prén|pren)?om$|nom(?:bre|$)|prénom|apellido|sobrenome|cognome|surname|vorname|nachname|imi[eę]|nazwisk|naam|navn|namn|nimi|jm[eé]no|příjmení|isim|soyad|^ad[ıi]?$|имя|фамилия|ім.я|прізвище|الاسم|^اسم|שם|名|성함|이름|company|organi[sz]ation|firm|empresa|entreprise|société|azienda|bedrijf|yritys|virksomhed|företag|şirket|компания|会社|公司|회사|city|town|location|stadt|ort$|ville|ciudad|città|cidade|miasto|город|country|land$|addr|street/iu;

/** Reads a submission to a form of `domain`. */
export function readText(
  { fields, control }: Written,
  domain: string,
  config: Parameters<typeof emailOf>[1] = { fields: {} },
): Text {
  const values = valuesIn(fields, control);
  const text = values.map((value) => value.text).join('\n');
  const email = emailOf(fields, config) ?? replyToOf(control) ?? addressIn(values);
  const links = values.flatMap((value) => (value.kind === 'address' ? [] : linksOf(value.text))).slice(0, MAX_LINKS);
  return { values, text, links, email, domain };
}

/** All that the visitor wrote, with the name of its field, as far as it is read. */
function valuesIn(fields: readonly Field[], { subject, replyTo }: Written['control']): Value[] {
  const values: Value[] = [];
  let left = MAX_TEXT_LENGTH;
  const sent: readonly Field[] = [...fields, ['_subject', subject ?? ''], ['_replyto', replyTo ?? '']];
  for (const [name, value] of sent) {
    for (const text of valuesOf(value)) {
      if (text === '') continue;
      if (left === 0) return values;
      const read = text.slice(0, left);
      left -= read.length;
      values.push({ name, text: read, kind: kindOf(name, read) });
    }
  }
  return values;
}

function kindOf(name: string, text: string): Value['kind'] {
  if (text.length <= MAX_ADDRESS_LENGTH && text.includes('@') && ONE_ADDRESS.test(text)) return 'address';
  if (text.length < MAX_NAME_LENGTH && NAME.test(name)) return 'name';
  return NO_WORDS.test(text) ? 'number' : 'words';
}

/** A field with an address alone, whatever it is called. */
function addressIn(values: readonly Value[]): string | undefined {
  return values.find(({ kind }) => kind === 'address')?.text.trim();
}
