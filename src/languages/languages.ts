/**
 * What visitors and owners of forms read, in their language. A file per language holds its messages in ICU's format;
 * `en.json` is the reference, and a test holds that no other file lacks one of its messages or a variable of it.
 */
import { IntlMessageFormat } from 'intl-messageformat';
import ar from './ar.json' with { type: 'json' };
import cs from './cs.json' with { type: 'json' };
import da from './da.json' with { type: 'json' };
import de from './de.json' with { type: 'json' };
import en from './en.json' with { type: 'json' };
import es from './es.json' with { type: 'json' };
import fi from './fi.json' with { type: 'json' };
import fr from './fr.json' with { type: 'json' };
import he from './he.json' with { type: 'json' };
import it from './it.json' with { type: 'json' };
import ja from './ja.json' with { type: 'json' };
import ko from './ko.json' with { type: 'json' };
import nl from './nl.json' with { type: 'json' };
import pl from './pl.json' with { type: 'json' };
import pt from './pt.json' with { type: 'json' };
import ru from './ru.json' with { type: 'json' };
import sv from './sv.json' with { type: 'json' };
import tr from './tr.json' with { type: 'json' };
import uk from './uk.json' with { type: 'json' };
import zh from './zh.json' with { type: 'json' };

export type MessageName = keyof typeof en;

const MESSAGES = {
  ar,
  cs,
  da,
  de,
  en,
  es,
  fi,
  fr,
  he,
  it,
  ja,
  ko,
  nl,
  pl,
  pt,
  ru,
  sv,
  tr,
  uk,
  zh,
} as const satisfies Readonly<Record<string, Readonly<Record<MessageName, string>>>>;

/** An ISO 639-1 code. */
export type Language = keyof typeof MESSAGES;

const DIRECTION: Partial<Record<Language, 'rtl'>> = { ar: 'rtl', he: 'rtl' };

/** The messages of one language. */
export interface Translation {
  readonly language: Language;
  /** Of the text, as HTML's `dir` has it. */
  readonly direction: 'ltr' | 'rtl';
  /** The message with its variables filled in. The result is plain text: HTML has to escape it. */
  readonly say: (name: MessageName, values?: MessageValues) => string;
  /** A number of bytes as people say it: `12 bytes`, `64 kB`, `1.5 MB`. */
  readonly size: (bytes: number) => string;
}

export type MessageValues = Readonly<Record<string, string | number>>;

/** Text for a person: as it is, or in the language of whoever comes to read it. */
export type Localized = string | ((translation: Translation) => string);

/** The message, for whoever comes to read it. */
export function message(name: MessageName, values: Readonly<Record<string, Localized | number>> = {}): Localized {
  return (translation) => {
    const said: Record<string, string | number> = {};
    for (const [variable, value] of Object.entries(values)) {
      said[variable] = typeof value === 'number' ? value : localized(value, translation);
    }
    return translation.say(name, said);
  };
}

/** The text in this language. */
export function localized(text: Localized, translation: Translation): string {
  return typeof text === 'string' ? text : text(translation);
}

/** All languages that there are messages in. */
export const LANGUAGES: readonly Language[] = Object.keys(MESSAGES).filter((name) => isLanguage(name));

/** Of all messages. */
export const MESSAGE_NAMES: readonly MessageName[] = Object.keys(en).filter(isMessageName);

/** The messages of a language. */
export function translationOf(language: Language): Translation {
  const translation = TRANSLATIONS.get(language) ?? createTranslation(language);
  TRANSLATIONS.set(language, translation);
  return translation;
}

function createTranslation(language: Language): Translation {
  const formats = new Map<MessageName, IntlMessageFormat>();
  const messages: Readonly<Record<MessageName, string>> = MESSAGES[language];
  const direction = DIRECTION[language] ?? 'ltr';
  return {
    language,
    direction,
    say(name, values = {}) {
      const text = messages[name];
      // Without variables it is its own result (ICU quotes with ').
      if (!/['{]/.test(text)) return text;
      // Reading a message takes 20 µs, and a mail has ten of them.
      const format = formats.get(name) ?? new IntlMessageFormat(text, language, undefined, { ignoreTag: true });
      formats.set(name, format);
      return format.format<string>(direction === 'rtl' ? isolated(values) : values).toString();
    },
    size: (bytes) => sizeIn(language, bytes),
  };
}

/** Made when they are first asked for. */
const TRANSLATIONS = new Map<Language, Translation>();

/** So that a name or an address in Latin letters does not turn the words around it (UAX #9 §2.4). */
function isolated(values: MessageValues): MessageValues {
  return Object.fromEntries(
    Object.entries(values).map(([name, value]) => [name, typeof value === 'string' ? `\u2068${value}\u2069` : value]),
  );
}

const KILO = 1024;
const MEGA = KILO ** 2;

function sizeIn(language: Language, bytes: number): string {
  const [value, unit] =
    bytes >= MEGA
      ? ([bytes / MEGA, 'megabyte'] as const)
      : bytes >= KILO
        ? ([Math.ceil(bytes / KILO), 'kilobyte'] as const)
        : ([bytes, 'byte'] as const);
  const unitDisplay = unit === 'byte' ? 'long' : 'short';
  return new Intl.NumberFormat(language, { style: 'unit', unit, unitDisplay, maximumFractionDigits: 1 }).format(value);
}

/** Formats moments (ms) of an IANA time zone: `5 January 2026 at 15:03 CET`. */
export function dateFormat(language: Language, timeZone: string): (ms: number) => string {
  // American English would take the month first.
  const format = new Intl.DateTimeFormat(language === 'en' ? 'en-GB' : language, {
    timeZone,
    day: 'numeric',
    month: 'long',
    year: 'numeric',
    hour: '2-digit',
    minute: '2-digit',
    timeZoneName: 'short',
  });
  return (ms) => format.format(ms);
}

/** A header longer than this names more languages than anybody speaks. */
const MAX_HEADER_LENGTH = 1000;

/**
 * The first language of `Accept-Language` (RFC 9110 §12.5.4) that there are messages in, by its weights; `de-AT` is served
 * with `de`. English where there is none.
 */
export function acceptedLanguage(header: string | undefined): Language {
  if (header === undefined) return 'en';
  const wanted = header
    .slice(0, MAX_HEADER_LENGTH)
    .split(',')
    .map((entry) => {
      const [tag = '', weight = 'q=1'] = entry.split(';');
      const [language = ''] = tag.trim().toLowerCase().split('-');
      const quality = Number(weight.trim().replace(/^q=/i, ''));
      return { language, quality: Number.isNaN(quality) ? 0 : quality };
    })
    .filter(({ quality }) => quality > 0)
    .toSorted((a, b) => b.quality - a.quality);
  return wanted.map(({ language }) => language).find((language) => isLanguage(language)) ?? 'en';
}

/** Whether there are messages in the language of this code. */
export function isLanguage(code: unknown): code is Language {
  return typeof code === 'string' && Object.hasOwn(MESSAGES, code);
}

/** Whether there is a message of this name. */
export function isMessageName(text: string): text is MessageName {
  return Object.hasOwn(en, text);
}
