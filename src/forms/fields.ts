/**
 * What was submitted, as data, and as it is stored. Names are chosen by the client (`__proto__`, `toString`), so they are
 * never keys of an object that inherits anything. Order is the order sent.
 */
import { createHash } from 'node:crypto';
import { z } from 'zod';
import type { FormConfig } from '../config/schema.ts';
import { parseAddress } from '../lib/addresses.ts';
import { controlRoles, isTrapped, type ControlRole } from './control-fields.ts';
import type { Upload } from './files.ts';

/** A body as it was read: nothing is interpreted yet. */
export interface SubmittedBody {
  /** In the order sent; a list is a repeated name. */
  readonly entries: readonly (readonly [name: string, value: string])[];
  readonly files: readonly Upload[];
}

export type Field = readonly [name: string, value: string | readonly string[]];

/** What steers a submission and is never shown as data. */
export interface Control {
  /** `_subject`, or what another service calls so; likewise below. */
  readonly subject?: string | undefined;
  /** `_replyto` */
  readonly replyTo?: string | undefined;
  /** `_next` */
  readonly next?: string | undefined;
  /** `_challenge`: the page's token, or its answer to the form's challenge. */
  readonly challenge?: string | undefined;
  /** What widgets of captchas put into the form, by the names of their fields. */
  readonly captchas?: ReadonlyMap<string, string> | undefined;
  /** Names of honeypots that were filled in. */
  readonly trapped: readonly string[];
}

/**
 * Fields and control fields (control-fields.ts). A repeated name, or one that ends in `[]`, is a list. Of control fields
 * that are repeated the first counts.
 */
export function sortEntries(
  entries: SubmittedBody['entries'],
  config: FormConfig,
): { fields: ReadonlyMap<string, string | readonly string[]>; control: Control } {
  const fields = new Map<string, string | string[]>();
  const captchas = new Map<string, string>();
  const control: { subject?: string; replyTo?: string; next?: string; challenge?: string; trapped: string[] } = {
    trapped: [],
  };
  const roleOf = controlRoles(entries, config);
  for (const [sent, value] of entries) {
    const name = withoutBrackets(sent);
    const role = roleOf(name);
    if (role === undefined || isMistaken(role, name, value)) addField(fields, sent, value);
    else if (role === 'honeypot' && isTrapped(value)) control.trapped.push(name);
    else if (role === 'subject' || role === 'next' || role === 'challenge') control[role] ??= value;
    else if (role === 'captcha') captchas.set(name, captchas.get(name) ?? value);
    // With StaticForms, @ means the visitor's address: it is that here anyway.
    else if (role === 'replyTo' && value !== '@') control.replyTo ??= value;
  }
  return { fields, control: { ...control, ...(captchas.size > 0 && { captchas }) } };
}

/** The control field that says where the browser goes afterwards. */
export function nextOf(entries: SubmittedBody['entries'], config: FormConfig): string | undefined {
  const roleOf = controlRoles(entries, config);
  return entries.find(([sent]) => roleOf(withoutBrackets(sent)) === 'next')?.[1];
}

/** Another service's reply address that is none: nobody is refused for it, and nothing that he wrote gets lost. */
function isMistaken(role: ControlRole, name: string, value: string): boolean {
  if (role !== 'replyTo' || name === '_replyto' || isBlank(value) || value === '@') return false;
  return parseAddress(value.trim()) === undefined;
}

function addField(fields: Map<string, string | string[]>, sent: string, value: string): void {
  const name = withoutBrackets(sent);
  const known = fields.get(name);
  if (known === undefined) fields.set(name, name === sent ? value : [value]);
  else if (typeof known === 'string') fields.set(name, [known, value]);
  else known.push(value);
}

/** `x[]` is the field `x`, as a list. */
export function withoutBrackets(name: string): string {
  return name.length > 2 && name.endsWith('[]') ? name.slice(0, -2) : name;
}

/** Whether there is nothing but white space. */
export function isBlank(value: string): boolean {
  return !/\S/.test(value);
}

/** The values of a field: one, or those of its list. */
export function valuesOf(value: string | readonly string[]): readonly string[] {
  return typeof value === 'string' ? [value] : value;
}

/** What browsers and programs send of a checkbox without a value of its own that is ticked, and of one that is not. */
const TICKS = new Set(['on', 'yes', 'true', '1']);
const NO_TICKS = new Set(['off', 'no', 'false', '0']);

/** What a value says of a checkbox, which may have values of its own; undefined: it is no checkbox's. */
export function isTicked(value: string, own: readonly string[] = []): boolean | undefined {
  const word = value.trim().toLowerCase();
  if (own.includes(value) || TICKS.has(word)) return true;
  return word === '' || NO_TICKS.has(word) ? false : undefined;
}

/** Whether the field holds the visitor's address: it is called `email`, or the form says so. */
export function isEmailField(name: string, config: Pick<FormConfig, 'fields'>): boolean {
  if (name.length === 5 && name.toLowerCase() === 'email') return true;
  return Object.hasOwn(config.fields, name) && config.fields[name]?.type === 'email';
}

/** The first address in a field of the visitor's address; a field called `email` goes before others. */
export function emailOf(fields: readonly Field[], config: Pick<FormConfig, 'fields'>): string | undefined {
  let first: string | undefined;
  for (const [name, value] of fields) {
    if (!isEmailField(name, config)) continue;
    const found = firstAddress(valuesOf(value));
    if (found !== undefined && name.toLowerCase() === 'email') return found;
    first ??= found;
  }
  return first;
}

function firstAddress(texts: readonly string[]): string | undefined {
  for (const text of texts) {
    const parsed = parseAddress(text.trim());
    if (parsed !== undefined) return parsed.address;
  }
  return undefined;
}

/** The address in `_replyto`. */
export function replyToOf(control: Pick<Control, 'replyTo'>): string | undefined {
  return parseAddress(control.replyTo?.trim() ?? '')?.address;
}

/** The same for the same data, whatever boundary it came with; files must have been received with `hash`. */
export function hashOfBody({ entries, files }: SubmittedBody): string {
  const parts = files.map((file) => [file.field, file.filename, file.contentType, file.size, file.sha256]);
  return createHash('sha256')
    .update(JSON.stringify([entries, parts]))
    .digest('hex');
}

const fields = z.array(z.tuple([z.string(), z.union([z.string(), z.array(z.string())])]));
const control = z.object({ _subject: z.string().optional(), _replyto: z.string().optional() });
const reason = z.object({ name: z.string(), score: z.int(), detail: z.string() });
const notification = z.object({
  form: z.string(),
  to: z.array(z.string()),
  recipient: z.string().optional(),
  insteadOf: z.array(z.string()).optional(),
});
const acknowledgment = z.object({ form: z.string(), to: z.string(), replyTo: z.string().optional() });
const confirmation = z.object({ form: z.string(), to: z.string(), link: z.string() });

/** The control fields that mail uses. */
export type StoredControl = Pick<Control, 'subject' | 'replyTo'>;
/**
 * `source` of a notification: the form's key in its domain, who is named in it, which of them it is for, and instead of whom
 * they get it where that is a fallback.
 */
export type NotificationSource = z.output<typeof notification>;
/** `source` of an acknowledgment. */
export type AcknowledgmentSource = z.output<typeof acknowledgment>;
/** `source` of the mail with the link that confirms a submission. */
export type ConfirmationSource = z.output<typeof confirmation>;

/** `submissions.fields` */
export function writeFields(value: readonly Field[]): string {
  return JSON.stringify(value);
}

export function readFields(json: string): readonly Field[] {
  return fields.parse(JSON.parse(json));
}

/** `submissions.control` */
export function writeControl({ subject, replyTo }: StoredControl): string {
  return JSON.stringify({ _subject: subject, _replyto: replyTo });
}

export function readControl(json: string): StoredControl {
  const { _subject: subject, _replyto: replyTo } = control.parse(JSON.parse(json));
  return { subject, replyTo };
}

/** `submissions.spam_reasons` */
export function readReasons(json: string): readonly z.output<typeof reason>[] {
  return z.array(reason).parse(JSON.parse(json));
}

/** `messages.source` */
export function readNotificationSource(json: string): NotificationSource {
  return notification.parse(JSON.parse(json));
}

export function readAcknowledgmentSource(json: string): AcknowledgmentSource {
  return acknowledgment.parse(JSON.parse(json));
}

export function readConfirmationSource(json: string): ConfirmationSource {
  return confirmation.parse(JSON.parse(json));
}

/** `messages.source` of the kind `confirmation` without its link. */
export function withoutLink(json: string): string {
  return JSON.stringify({ ...readConfirmationSource(json), link: '' });
}
