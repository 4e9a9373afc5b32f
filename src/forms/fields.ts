/**
 * What was submitted, as data, and as it is stored. Names are chosen by the client (`__proto__`, `toString`), so they are
 * never keys of an object that inherits anything. Order is the order sent.
 */
import { createHash } from 'node:crypto';
import { z } from 'zod';
import type { FormConfig } from '../config/schema.ts';
import { parseAddress } from '../lib/addresses.ts';
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
  /** `_subject` */
  readonly subject?: string | undefined;
  /** `_replyto` */
  readonly replyTo?: string | undefined;
  /** `_next` */
  readonly next?: string | undefined;
  /** Names of honeypots that were filled in. */
  readonly trapped: readonly string[];
}

/** Honeypots by the names that other services gave them (`_gotcha` is ours as well). */
const HONEYPOTS = new Set(['_gotcha', '_honey', '_honeypot', 'botcheck', 'bot-field', 'honeypot']);

/** Fields and control fields; `own` are names that the form itself gives to fields. A repeated name, or one that ends in `[]`, is a list. */
export function sortEntries(
  entries: SubmittedBody['entries'],
  honeypot: string,
  own: ReadonlySet<string> = new Set(),
): { fields: ReadonlyMap<string, string | readonly string[]>; control: Control } {
  const fields = new Map<string, string | string[]>();
  const control: { subject?: string; replyTo?: string; next?: string; trapped: string[] } = { trapped: [] };
  for (const [sent, value] of entries) {
    const name = withoutBrackets(sent);
    const known = fields.get(name);
    if (name === honeypot || (HONEYPOTS.has(name) && !own.has(name))) {
      if (!isBlank(value)) control.trapped.push(name);
    } else if (name === '_subject') control.subject ??= value;
    else if (name === '_replyto') control.replyTo ??= value;
    else if (name === '_next') control.next ??= value;
    else if (known === undefined) fields.set(name, name === sent ? value : [value]);
    else if (typeof known === 'string') fields.set(name, [known, value]);
    else known.push(value);
  }
  return { fields, control };
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

/** Whether the field holds the visitor's address: it is called `email`, or the form says so. */
export function isEmailField(name: string, config: Pick<FormConfig, 'fields'>): boolean {
  if (name.length === 5 && name.toLowerCase() === 'email') return true;
  return Object.hasOwn(config.fields, name) && config.fields[name]?.type === 'email';
}

/** The first address in a field of the visitor's address; a field called `email` goes before others. */
export function emailOf(fields: readonly Field[], config: Pick<FormConfig, 'fields'>): string | undefined {
  const addresses = fields.flatMap(([name, value]) => {
    if (!isEmailField(name, config)) return [];
    const found = valuesOf(value).map((text) => parseAddress(text.trim())?.address);
    return found.filter((address) => address !== undefined).map((address) => ({ name, address }));
  });
  return (addresses.find(({ name }) => name.toLowerCase() === 'email') ?? addresses[0])?.address;
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
const notification = z.object({ form: z.string(), to: z.array(z.string()) });
const acknowledgment = z.object({ form: z.string(), to: z.string(), replyTo: z.string().optional() });

/** The control fields that mail uses. */
export type StoredControl = Pick<Control, 'subject' | 'replyTo'>;
/** `source` of a notification: the form's key in its domain, and who gets it. */
export type NotificationSource = z.output<typeof notification>;
/** `source` of an acknowledgment. */
export type AcknowledgmentSource = z.output<typeof acknowledgment>;

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
