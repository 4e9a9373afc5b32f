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
  readonly say: (name: MessageName, values?: Readonly<Record<string, string | number>>) => string;
}

/** All languages that there are messages in. */
export const LANGUAGES: readonly Language[] = Object.keys(MESSAGES).filter(isLanguage);

/** Of all messages. */
export const MESSAGE_NAMES: readonly MessageName[] = Object.keys(en).filter(isMessageName);

/** The messages of a language. */
export function translationOf(language: Language): Translation {
  const messages: Readonly<Record<MessageName, string>> = MESSAGES[language];
  return {
    language,
    direction: DIRECTION[language] ?? 'ltr',
    say(name, values) {
      const message = messages[name];
      // Without variables it is its own result (ICU quotes with '), and making a formatter costs 20 µs.
      if (!/['{]/.test(message)) return message;
      return new IntlMessageFormat(message, language, undefined, { ignoreTag: true }).format<string>(values).toString();
    },
  };
}

/** A header longer than this names more languages than anybody speaks. */
const MAX_HEADER_LENGTH = 1000;

/**
 * The first language of `Accept-Language` (RFC 9110 §12.5.4) that there are messages in, by its weights; `de-AT` is served
 * with `de`. English where there is none.
 */
export function acceptedLanguage(header: string | undefined): Language {
  const wanted = (header ?? '')
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
  return wanted.map(({ language }) => language).find(isLanguage) ?? 'en';
}

function isLanguage(text: string): text is Language {
  return Object.hasOwn(MESSAGES, text);
}

function isMessageName(text: string): text is MessageName {
  return Object.hasOwn(en, text);
}
