/** What accepting writes as JSON and rendering reads again: one place says both shapes. */
import { z } from 'zod';
import type { Control, Field } from './fields.ts';

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
