/** Makes one submission of a kit: a text of its slots, a sender, and a form's fields. */
import { poolOf, type Kit, type Label, type Language, type Part } from './kits.ts';
import { layoutOf } from './layouts.ts';
import { honestLink, inventedDomain, spamDomain, spamLink } from './links.ts';
import { createSender, type Sender } from './senders.ts';
import type { Random } from './random.ts';

export interface Sample {
  readonly label: Label;
  readonly language: string;
  readonly fields: readonly (readonly [string, string])[];
  readonly source: string;
  readonly part: Part;
}

interface Context {
  readonly random: Random;
  readonly language: Language;
  readonly kit: Kit;
  readonly sender: Sender;
  /** The site whose form it is. */
  readonly site: string;
}

/** One submission. */
export function compose(random: Random, language: Language, kit: Kit): Sample {
  const sender = createSender(random, language, kit);
  const context = { random, language, kit, sender, site: inventedDomain(random, language) };
  const message = messageOf(context);
  const subject = kit.subjects.length === 0 ? undefined : fill(context, random.pick(kit.subjects));
  const own = kit.fields.map(([name, values]) => [name, fill(context, random.pick(values))] as const);
  const fields = layoutOf(random, language, { kit, sender, subject, message, own, site: context.site });
  return { label: kit.label, language: language.code, fields, source: kit.id, part: kit.part };
}

function messageOf(context: Context): string | undefined {
  const { random, language, kit, sender } = context;
  if (kit.variants.length === 0) return undefined;
  const slots = random.pick(kit.variants).filter(({ optional }) => !optional || random.chance(0.5));
  const unspaced = ['ja', 'zh'].includes(language.code);
  const gap = random.pick([unspaced ? '' : ' ', unspaced ? '' : ' ', '\n', '\n\n']);
  let text = fill(context, slots.map(({ wordings }) => random.pick(wordings)).join(gap));
  if (!kit.flags.has('bare')) {
    const outer = gap.includes('\n') ? gap : random.pick([gap, '\n', '\n\n']);
    if (random.chance(0.65)) text = `${fill(context, random.pick(poolOf(language, 'hello', kit)))}${outer}${text}`;
    if (random.chance(0.5)) {
      const signed = random.chance(0.75)
        ? `\n${random.pick([sender.name, sender.first, `${sender.first} ${sender.last}`])}`
        : '';
      text = `${text}${outer}${fill(context, random.pick(poolOf(language, 'bye', kit)))}${signed}`;
    }
  }
  // People send links too, of what they write about.
  if (kit.label === 'ham' && text.length > 60 && random.chance(0.06)) text += `\n${honestLink(random, language)}`;
  return kit.flags.has('mixed') ? mixAlphabets(random, text) : carelessly(random, text);
}

/** As people type: some without capitals, some without the last dot, some with letters swapped. */
function carelessly(random: Random, text: string): string {
  const roll = random.next();
  if (roll < 0.08) return lowerCase(text);
  if (roll < 0.14) return text.replace(/[.!。]$/, '');
  if (roll < 0.2) return text.replace(/(?<=\p{Ll}{2})(\p{Ll})(\p{Ll})(?=\p{Ll})/u, '$2$1');
  if (roll < 0.23) return text.replaceAll(/([.!?])(?=\s|$)/g, '$1$1');
  return text;
}

function lowerCase(text: string): string {
  return text.replaceAll(/\S+/g, (word) => (word.includes('/') ? word : word.toLowerCase()));
}

const LOOKALIKES: Readonly<Record<string, string>> = {
  a: 'а',
  e: 'е',
  o: 'о',
  p: 'р',
  c: 'с',
  x: 'х',
  y: 'у',
  i: 'і',
  A: 'А',
  B: 'В',
  E: 'Е',
  H: 'Н',
  O: 'О',
  T: 'Т',
};

function mixAlphabets(random: Random, text: string): string {
  return text.replaceAll(/\S+/g, (word) =>
    /[/@.]\w/.test(word)
      ? word
      : word.replaceAll(/\w/g, (letter) => (random.chance(0.4) ? (LOOKALIKES[letter] ?? letter) : letter)),
  );
}

/** Puts values in for the names in braces. */
function fill(context: Context, text: string): string {
  return text.replaceAll('\\n', '\n').replaceAll(/\{([a-z0-9]+)\}/g, (_, name: string) => valueOf(context, name));
}

function valueOf({ random, language, kit, sender, site }: Context, name: string): string {
  switch (name) {
    case 'first':
    case 'last':
    case 'name':
    case 'email':
    case 'phone':
    case 'company':
    case 'city':
      return sender[name];
    case 'site':
      return site;
    case 'owncompany':
      return random.pick(poolOf(language, 'company', kit));
    case 'hlink':
      return honestLink(random, language);
    case 'link':
    case 'url':
    case 'bare':
    case 'short':
    case 'free':
      return spamLink(random, language, { kit, kind: name });
    case 'bb':
      return `[url=${spamLink(random, language, { kit, kind: 'url' })}]${random.pick([random.gibberish(), spamDomain(random, language, kit), '>>>', 'click'])}[/url]`;
    case 'domain':
      return spamDomain(random, language, kit);
    case 'n':
      return String(random.between(2, 9));
    case 'nn':
      return String(random.between(11, 95));
    case 'nnn':
      return String(random.between(110, 990));
    case 'nnnn':
      return String(random.between(1000, 9900));
    case 'million':
      return String(random.pick([100, 500, 1000]) * random.between(1, 99) * 10);
    case 'time':
      return `${random.between(8, 19)}:${random.pick(['00', '15', '30', '45'])}`;
    case 'hour':
      return String(random.between(8, 19));
    case 'date':
      return dateOf(random).toLocaleDateString(
        language.code,
        random.pick([{}, { day: 'numeric', month: 'long' }, { dateStyle: 'long' }]),
      );
    case 'isodate':
      return dateOf(random).toISOString().slice(0, 10);
    case 'day':
      return dateOf(random).toLocaleDateString(language.code, { weekday: 'long' });
    case 'month':
      return dateOf(random).toLocaleDateString(language.code, { month: 'long' });
    case 'year':
      return String(random.between(2019, 2027));
    case 'order':
      return random.digits(random.pick(['#####', '######', 'A-####', 'R#######', '2026-####', 'DE#####']));
    case 'gib':
      return random.gibberish();
    case 'wallet':
      return `${random.pick(['bc1q', '1', '3', '0x', 'T'])}${random.gibberish(34)}`;
    default:
      throw new Error(`${kit.id}: {${name}} has no value.`);
  }
}

function dateOf(random: Random): Date {
  return new Date(Date.UTC(2026, random.between(0, 13), random.between(1, 28)));
}
