/**
 * What a notification calls the visitor in its sender and its subject. Mail programs show the sender's name in place of the
 * address, so that no address and no link may be there, and always whose form it came by.
 */
import type { Translation } from '../languages/languages.ts';

/** A field as it was sent. */
export type VisitorField = readonly [name: string, value: string | readonly string[]];

/** Of a whole name, in the order in which they are looked for; written in lower case, without what is not a letter. */
const NAMES = [
  'name fullname yourname contactname visitorname customername realname displayname',
  'vollständigername ihrname dername nom nomcomplet votrenom nombre nombrecompleto nome nomecompleto naam volledigenaam imięinazwisko imieinazwisko jméno jmeno namn navn nimi isim adsoyad імя имя الاسم שם お名前 氏名 名前 姓名 이름 성함',
].flatMap((line) => line.split(' '));
const GIVEN =
  'firstname givenname fname forename first vorname prénom prenom nombres voornaam imię imie förnamn fornavn etunimi'.split(
    ' ',
  );
const FAMILY =
  'lastname familyname lname surname last nachname familienname apellido apellidos cognome sobrenome achternaam nazwisko příjmení prijmeni efternamn efternavn sukunimi soyad'.split(
    ' ',
  );
const OF_NAMES: ReadonlySet<string> = new Set([...NAMES, ...GIVEN, ...FAMILY]);

const MAX_FIELD_NAME = 100;
const MAX_NAME_CHARACTERS = 60;
const MAX_SUBJECT_CHARACTERS = 150;

/**
 * What the visitor calls himself, from the fields that forms have for it: one bounded line for a header. Undefined where
 * there is none, or what is there is an address or a link: mail programs show a name in place of the sender's address.
 */
export function visitorName(fields: readonly VisitorField[]): string | undefined {
  const values = new Map<string, string | undefined>();
  for (const [name, value] of fields) {
    const key = plain(name);
    if (OF_NAMES.has(key) && values.get(key) === undefined) values.set(key, nameText([value].flat().join(' ')));
  }
  const [whole, given, family] = [NAMES, GIVEN, FAMILY].map((names) =>
    names.map((name) => values.get(name)).find((value) => value !== undefined),
  );
  return whole ?? nameText([given, family].filter((part) => part !== undefined).join(' '));
}

function plain(name: string): string {
  return name
    .slice(0, MAX_FIELD_NAME)
    .normalize('NFC')
    .toLowerCase()
    .replaceAll(/[^\p{L}\p{M}]/gu, '');
}

function nameText(text: string): string | undefined {
  const line = text
    // Full-width forms of @ and the like are compatible with it, and look like it.
    .slice(0, 20 * MAX_NAME_CHARACTERS)
    .normalize('NFKC')
    .replaceAll(/[\p{C}\p{Z}\s]+/gu, (gap) => (/^[\u200c\u200d]+$/u.test(gap) ? gap : ' '))
    .trim();
  if (line === '' || /[@\\<>]|:\/\/|\bwww\./iu.test(line) || !/\p{L}/u.test(line)) return undefined;
  const characters = Array.from(line);
  return characters.length <= MAX_NAME_CHARACTERS ? line : `${characters.slice(0, MAX_NAME_CHARACTERS - 1).join('')}…`;
}

/** The text of the field `subject`, on one line. */
export function visitorSubject(fields: readonly VisitorField[]): string | undefined {
  const [, value = ''] = fields.find(([name]) => plain(name) === 'subject') ?? [];
  const line = [value]
    .flat()
    .join(', ')
    .slice(0, 20 * MAX_SUBJECT_CHARACTERS)
    .replaceAll(/[\p{C}\p{Z}\s]+/gu, ' ')
    .trim();
  return line === '' ? undefined : Array.from(line).slice(0, MAX_SUBJECT_CHARACTERS).join('');
}

/** Whose form it is about, and what is known of the visitor. */
export interface SubjectParts {
  readonly form: string;
  /** A name, else an address. */
  readonly visitor: string | undefined;
  /** What the visitor says it is about. */
  readonly about: string | undefined;
}

/** The subject of a notification for which nobody has set one: it tells mails of different visitors apart. */
export function builtinSubject({ form, visitor, about }: SubjectParts, { say }: Translation): string {
  if (visitor !== undefined && about !== undefined) return say('mail.subjectAbout', { form, visitor, subject: about });
  const either = visitor ?? about;
  return either === undefined ? say('mail.subject', { form }) : say('mail.subjectFrom', { form, visitor: either });
}

/** The sender of a notification for which nobody has set a name: "Zoë Müller via Contact". */
export function builtinSender(form: string, visitor: string | undefined, { say }: Translation): string {
  return visitor === undefined ? form : say('mail.sender', { visitor, form });
}
