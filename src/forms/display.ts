/**
 * How the owner of a form is shown what a visitor sent: by the owner's labels, with answers in words, and with links to write
 * or call back.
 */
import { labelOf, ruleOf } from '../config/snapshot.ts';
import type { FormConfig } from '../config/schema.ts';
import { parseAddress } from '../lib/addresses.ts';
import type { Translation } from '../languages/languages.ts';
import { isBlank, isEmailField, valuesOf, withoutBrackets, type Field } from './fields.ts';

/** A field as a template sees it. */
export interface ShownField {
  readonly name: string;
  readonly label: string;
  readonly value: string;
  /** `mailto:` or `tel:`, where the value is an address or a telephone number. */
  readonly link?: string | undefined;
}

/**
 * The fields for the owner: without those that were left empty, and with the checkboxes of the form that were not ticked,
 * which browsers do not send.
 */
export function ownerFields(fields: readonly Field[], config: FormConfig, translation: Translation): ShownField[] {
  const { say } = translation;
  const sent = new Set(fields.map(([name]) => withoutBrackets(name)));
  function labelOfOwner(name: string): string {
    return ruleOf(config, name)?.owner_label ?? labelOf(config, name, translation);
  }
  const unticked = Object.keys(config.fields).filter((name) => isCheckbox(name, config) && !sent.has(name));
  return [
    ...fields.flatMap((field) => {
      const [name, value] = field;
      const label = labelOfOwner(name);
      if (isCheckbox(name, config)) return [{ name, label, value: say(isTicked(value) ? 'mail.yes' : 'mail.no') }];
      if (valuesOf(value).every(isBlank)) return [];
      return [{ name, label, value: valuesOf(value).join(', '), link: linkOf(field, config) }];
    }),
    ...unticked.map((name) => ({ name, label: labelOfOwner(name), value: say('mail.no') })),
  ];
}

function isCheckbox(name: string, config: FormConfig): boolean {
  const type: string | undefined = ruleOf(config, name)?.type;
  return type === 'checkbox';
}

const UNTICKED = new Set(['', '0', 'false', 'no', 'off']);

function isTicked(value: Field[1]): boolean {
  return valuesOf(value).some((text) => !UNTICKED.has(text.trim().toLowerCase()));
}

const TELEPHONE =
  /^(?:(?:your|my|contact|work|home|mobile|cell)[ _-]?)?(?:tel|telephone|phone|mobile|cell|cellphone|whatsapp|telefon|telefono|teléfono|téléphone|handy|mobil)(?:[ _-]?(?:no|nr|number|nummer))?$/i;
/** What people write between digits; a text with words in it is no number. */
const NUMBER = /^\+?[\d\s()/.-]{5,40}$/;

function linkOf([name, value]: Field, config: FormConfig): string | undefined {
  const [text = '', ...more] = valuesOf(value);
  if (more.length > 0) return undefined;
  if (isEmailField(name, config)) {
    const address = parseAddress(text.trim())?.address;
    return address === undefined ? undefined : `mailto:${encodeURIComponent(address).replace('%40', '@')}`;
  }
  const isTelephone = ruleOf(config, name)?.type === 'tel' || TELEPHONE.test(withoutBrackets(name));
  if (!isTelephone || !NUMBER.test(text.trim())) return undefined;
  // "+44 (0)20": the trunk prefix is dialled within the country alone.
  const digits = text
    .trim()
    .replace(/^(\+.*)\(0\)/, '$1')
    .replaceAll(/[^+\d]/g, '');
  return digits.length < 4 ? undefined : `tel:${digits}`;
}
