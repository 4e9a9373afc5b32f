/**
 * Whether a submission is spam, with a score and the reasons by name, so that its owner can see why. In time linear in the
 * text, of which the first 256 KiB are read.
 *
 * | reason | score | what |
 * |---|---|---|
 * | honeypot | 100 | a field that people do not see was filled in |
 * | blocklist | 100 | a word, address, domain or network of the form's blocklist |
 * | and with `content_filter` | | see content-filter.ts |
 *
 * From 10 points on it is spam at level `normal`, from 5 on at `strict`. No single sign of what honest people do as well
 * reaches 10: two links, a code snippet, capital letters, a quoted mail.
 */
import type { Form } from '../config/snapshot.ts';
import { blockedBy } from './blocklist.ts';
import { contentReasons, type Reason } from './content-filter.ts';
import { valuesOf, type Control, type Field } from './fields.ts';

export type { Reason };

export interface Judgement {
  readonly verdict: 'accept' | 'spam';
  readonly score: number;
  readonly reasons: readonly Reason[];
}

export interface Judged {
  readonly fields: readonly Field[];
  readonly control: Control;
  /** The visitor's address. */
  readonly ip: string;
}

const CERTAIN = 100;
const SPAM_FROM = { normal: 10, strict: 5 } as const;
const LONGEST_TEXT = 256 * 1024;

/** Judges a submission by its form's `spam_protection`. */
export function judge({ config }: Pick<Form, 'config'>, { fields, control, ip }: Judged): Judgement {
  const { level, content_filter: filters, blocklist } = config.spam_protection;
  const reasons: Reason[] = [];
  const [trap] = control.trapped;
  if (trap !== undefined) reasons.push({ name: 'honeypot', score: CERTAIN, detail: `the field ${trap} was filled in` });
  if (filters || blocklist.length > 0) {
    const values = textOf(fields, control);
    const blocked = blockedBy(blocklist, { text: values.map(({ text }) => text).join('\n'), ip });
    if (blocked !== undefined) reasons.push({ name: 'blocklist', score: CERTAIN, detail: blocked });
    if (filters) reasons.push(...contentReasons(values));
  }
  const score = reasons.reduce((sum, reason) => sum + reason.score, 0);
  return { verdict: score >= SPAM_FROM[level] ? 'spam' : 'accept', score, reasons };
}

/** All that the visitor wrote, with the name of its field, as far as it is read. */
function textOf(fields: readonly Field[], { subject, replyTo }: Control): { name: string; text: string }[] {
  const values: { name: string; text: string }[] = [];
  let left = LONGEST_TEXT;
  const sent: readonly Field[] = [...fields, ['_subject', subject ?? ''], ['_replyto', replyTo ?? '']];
  for (const [name, value] of sent) {
    for (const text of valuesOf(value)) {
      if (text === '') continue;
      if (left === 0) return values;
      const read = text.slice(0, left);
      left -= read.length;
      values.push({ name, text: read });
    }
  }
  return values;
}
