/**
 * Which names of fields steer a submission instead of being data: ours, those of other form services, and what captchas and
 * frameworks add to a form. A form that was written for one of these services works when only its address changes.
 * docs/moving.md has the same table for people; a test compares the two.
 *
 * Nobody names a question `_cc` or `authenticity_token`: such names are always control fields. `redirect` or `from_name` may
 * be a question of an honest form, so it is a control field only in a post that carries the key of the service that gives it
 * a meaning. A field that the form's own configuration names is always data.
 */
import type { FormConfig } from '../config/schema.ts';

/**
 * `next`: where the browser goes afterwards. `subject` and `replyTo`: of the notification. `challenge`: the page's token,
 * or its answer to the form's challenge. `captcha`: what the widget of a captcha puts into the form. `ignored`: an address that would
 * get mail, a look or a check that the form's configuration alone decides about, or what means nothing here.
 */
export type ControlRole = 'honeypot' | 'subject' | 'replyTo' | 'next' | 'challenge' | 'captcha' | 'ignored';

/** Our own, which Formspree has as well. No configuration makes data of them. */
const OWN: ReadonlyMap<string, ControlRole> = new Map([
  ['_gotcha', 'honeypot'],
  ['_subject', 'subject'],
  ['_replyto', 'replyTo'],
  ['_next', 'next'],
  ['_challenge', 'challenge'],
]);

/** Of other services, captchas and frameworks, by what they are here. */
const KNOWN: ReadonlyMap<string, ControlRole> = new Map([
  ...withRole('honeypot', ['_honey', '_honeypot', 'honeypot', 'botcheck', 'bot-field']),
  ...withRole('subject', ['_email.subject']),
  ...withRole('next', ['_redirect']),
  // Nobody is mailed, called or shown anything by the word of a page: a visitor can write whatever he likes in it.
  ...withRole('ignored', ['_cc', '_bcc', '_autoresponse', '_webhook', '_email.from']),
  ...withRole('ignored', ['_email.template.title', '_email.template.footer']),
  ...withRole('ignored', ['_template', '_captcha', '_blacklist', '_url', '_format', '_language']),
  ...withRole('ignored', ['access_key', 'apikey', 'apiKey', 'accessKey', 'form-name']),
  ...withRole('captcha', ['g-recaptcha-response', 'h-captcha-response', 'cf-turnstile-response']),
  ...withRole('captcha', ['recaptcha_response', 'frc-captcha-response', 'frc-captcha-solution', 'altcha']),
  ...withRole('ignored', ['_token', '_csrf', '_csrf_token', 'csrf_token', 'csrfmiddlewaretoken']),
  ...withRole('ignored', ['authenticity_token', '__RequestVerificationToken']),
]);

interface Service {
  /** One of these is in each of its forms. */
  readonly keys: readonly string[];
  readonly fields: ReadonlyMap<string, ControlRole>;
}

/** Fields that mean something only in forms of one service. */
const SERVICES: readonly Service[] = [
  {
    // Web3Forms.
    keys: ['access_key', 'apikey'],
    fields: new Map([
      ...withRole('subject', ['subject']),
      ...withRole('next', ['redirect']),
      ...withRole('replyTo', ['replyto']),
      ...withRole('ignored', ['from_name', 'ccemail', 'webhook']),
    ]),
  },
  {
    // StaticForms. Its `subject` is often a question to the visitor, so it stays data.
    keys: ['apiKey', 'accessKey'],
    fields: new Map([...withRole('next', ['redirectTo']), ...withRole('replyTo', ['replyTo'])]),
  },
];

function withRole(role: ControlRole, names: readonly string[]): (readonly [string, ControlRole])[] {
  return names.map((name) => [name, role]);
}

/** Whether the field proves something about the page, once: a page that is loaded again has another value. */
export function isProof(name: string): boolean {
  const role = OWN.get(name) ?? KNOWN.get(name);
  return role === 'challenge' || role === 'captcha';
}

/** All names that can be control fields, for the documentation's test. */
export function controlFieldNames(): readonly string[] {
  return [...OWN.keys(), ...KNOWN.keys(), ...SERVICES.flatMap(({ fields }) => [...fields.keys()])];
}

/** What of a form's configuration decides. */
export type ControlRules = Pick<FormConfig, 'fields'> &
  Partial<Pick<FormConfig, 'required' | 'subject'>> & {
    readonly spam_protection: Pick<FormConfig['spam_protection'], 'honeypot'>;
  };

/** Tells what a field of this post is by its name: undefined where it is data. */
export function controlRoles(
  sent: readonly (readonly [name: string, value: string])[],
  { fields, required = [], subject, spam_protection: { honeypot } }: ControlRules,
): (name: string) => ControlRole | undefined {
  const names = new Set(sent.map(([name]) => name));
  const services = SERVICES.filter(({ keys }) => keys.some((key) => names.has(key) && !isOwnField(key)));

  function isOwnField(name: string): boolean {
    return Object.hasOwn(fields, name) || required.includes(name) || required.includes(`${name}[]`);
  }

  return (name) => {
    if (name === honeypot) return 'honeypot';
    const own = OWN.get(name);
    if (own !== undefined || isOwnField(name)) return own;
    const role =
      KNOWN.get(name) ?? services.map((service) => service.fields.get(name)).find((one) => one !== undefined);
    // The mail has the configured subject: another one must not get lost.
    return role === 'subject' && subject !== undefined ? undefined : role;
  };
}

/** Whether a honeypot was filled in. One that is a checkbox is `false` in JSON where it was not ticked. */
export function isTrapped(value: string): boolean {
  return /\S/.test(value) && value !== 'false';
}
