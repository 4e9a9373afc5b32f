/** Who posts: names, mailboxes and phone numbers, all invented. */
import { listOf, poolOf, type Kit, type Language } from './kits.ts';
import { inventedDomain } from './links.ts';
import type { Random } from './random.ts';

export interface Sender {
  readonly first: string;
  readonly last: string;
  readonly name: string;
  readonly email: string;
  readonly phone: string;
  readonly company: string;
  readonly city: string;
}

type Person = Omit<Sender, 'email'>;

/** Names of these languages begin with the family's. */
const FAMILY_FIRST = new Set(['ja', 'zh', 'ko']);

/** Somebody who writes what this kit says. */
export function createSender(random: Random, language: Language, kit: Kit): Sender {
  const first = random.pick(poolOf(language, 'first', kit));
  const last = random.pick(poolOf(language, 'last', kit));
  const company = random.pick(poolOf(language, 'company', kit));
  const city = random.pick(poolOf(language, 'city', kit));
  const phone = random.digits(random.pick(listOf(language, 'phone')));
  const name = nameOf(random, language, { first, last, company });
  const person = { first, last, company, city, phone, name };
  if (kit.label === 'ham') return { ...person, email: personalMailbox(random, language, person) };
  return spammer(random, language, { kit, person });
}

function nameOf(random: Random, language: Language, person: Pick<Sender, 'first' | 'last' | 'company'>): string {
  const { first, last, company } = person;
  const full = FAMILY_FIRST.has(language.code) ? `${last}${random.pick(['', ' '])}${first}` : `${first} ${last}`;
  const roll = random.next();
  if (roll < 0.68) return full;
  if (roll < 0.82) return first;
  if (roll < 0.88) return full.toLowerCase();
  if (roll < 0.91) return full.toUpperCase();
  if (roll < 0.94) return `${first.slice(0, 1)}. ${last}`;
  return roll < 0.97 ? company : last;
}

function personalMailbox(random: Random, language: Language, person: Person): string {
  const local = localPart(random, language, person);
  if (random.chance(0.25)) return `${local}@${inventedDomain(random, language)}`;
  return `${local}@${random.pick(listOf(language, random.pick(['mailbox', 'local-mailbox'])))}`;
}

function localPart(random: Random, language: Language, { first, last }: Person): string {
  const [given, family] = [ascii(random, language, first), ascii(random, language, last)];
  const year = String(random.between(50, 99));
  return random.pick([
    `${given}.${family}`,
    `${given}${family}`,
    `${given.slice(0, 1)}.${family}`,
    `${given}${year}`,
    `${family}.${given}${random.between(1, 99)}`,
    `${given}_${family}`,
    `${family}${year}`,
    random.pick([...listOf(language, 'office'), given]),
  ]);
}

/** A mailbox's local part is ASCII, whatever the alphabet of the name. */
function ascii(random: Random, language: Language, name: string): string {
  const plain = name
    .normalize('NFKD')
    .replaceAll(/[^A-Za-z]/g, '')
    .toLowerCase();
  return plain.length >= 2 ? plain : random.pick(listOf(language, 'ascii-name'));
}

function spammer(random: Random, language: Language, { kit, person }: { kit: Kit; person: Person }): Sender {
  const roll = random.next();
  if (kit.flags.has('random') || roll < 0.1) return randomLetters(random, language, person);
  if (roll < 0.3) return madeByProgram(random, language, person);
  if (roll < 0.5) {
    const [one, two] = [
      random.pick(poolOf(language, 'agency-word', kit)),
      random.pick(poolOf(language, 'agency-word', kit)),
    ];
    const local = random.pick([ascii(random, language, person.first), ...listOf(language, 'agency-office')]);
    return {
      ...person,
      email: `${local}@${one}${random.pick(['', '-'])}${two}.${random.pick(listOf(language, 'agency-tld'))}`,
    };
  }
  return { ...person, email: personalMailbox(random, language, person) };
}

/** As 'XrbDqkLmWpA', with a mailbox as 'o.q.ub.ix.a47@gmail.com', which is always the same, with ever other dots. */
function randomLetters(random: Random, language: Language, person: Person): Sender {
  const name = random.gibberish();
  const local = random
    .letters(random.between(8, 14))
    .replaceAll(/(?<=.)./g, (each) => (random.chance(0.35) ? `.${each}` : each));
  return {
    ...person,
    name,
    first: random.gibberish(),
    last: random.gibberish(),
    company: name,
    phone: random.chance(0.5) ? random.digits('##########') : random.gibberish(),
    email: `${local}${random.between(0, 99)}@${random.pick(listOf(language, 'blaster-mailbox'))}`,
  };
}

/** As 'JamesSmips'. */
function madeByProgram(random: Random, language: Language, person: Person): Sender {
  const suffixes = listOf(language, 'name-suffix');
  const name = `${person.first}${random.pick(suffixes)}`;
  const local = `${ascii(random, language, person.first)}${random.pick(suffixes).toLowerCase()}`;
  const email = `${local}@${random.pick(listOf(language, 'blaster-mailbox'))}`;
  return { ...person, name, last: name, phone: random.digits('8##########'), email, company: 'google' };
}
