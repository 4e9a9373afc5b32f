/**
 * Whether a submission is spam, with a score and the reasons by name, so that its owner can see why. In time linear in the
 * text, of which the first 256 KiB are read. docs/spam.md says what counts for how much.
 *
 * From 10 points on it is spam at level `normal`, from 5 on at `strict`. No single sign of what honest people do as well
 * reaches 10: two links, a code snippet, capital letters, a quoted mail, any language.
 */

import type { Form } from '../../config/forms.ts';
import { emailOf, replyToOf, valuesOf, type Control, type Field } from '../fields.ts';
import { addressReasons, NO_MX, noMx, type RefusesMail } from './addresses.ts';
import { blockedBy } from './blocklist.ts';
import { disguiseReasons } from './disguise.ts';
import { gibberishReasons } from './gibberish.ts';
import { headerReasons } from './headers.ts';
import { linkReasons, linksOf } from './links.ts';
import { phraseReasons } from './phrases.ts';
import type { Reason, Value } from './reasons.ts';
import { repetitionReasons } from './repetition.ts';

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

type Rules = Pick<Form, 'config'>;

/** Judges a submission by its form's `spam_protection`; a promise only where DNS has to be asked. */
export type Judge = (form: Rules, judged: Judged) => Judgement | Promise<Judgement>;

const CERTAIN = 100;
const SPAM_FROM = { normal: 10, strict: 5 } as const;
const LONGEST_TEXT = 256 * 1024;

/** The judge that also asks whether the visitor's address can get mail, only where that decides. */
export function createJudge(refusesMail: RefusesMail): Judge {
  return (form, judged) => {
    const judgement = judge(form, judged);
    const { level, content_filter: filters } = form.config.spam_protection;
    if (!filters || judgement.verdict === 'spam' || judgement.score + NO_MX < SPAM_FROM[level]) return judgement;
    const domain = domainOf(form, judged);
    return domain === undefined ? judgement : withLookup(form, judgement, { domain, refusesMail });
  };
}

async function withLookup(
  { config }: Rules,
  judgement: Judgement,
  { domain, refusesMail }: { domain: string; refusesMail: RefusesMail },
): Promise<Judgement> {
  if (!(await refusesMail(domain))) return judgement;
  return sum([...judgement.reasons, noMx(domain)], config.spam_protection.level);
}

/** What the submission itself says. */
export function judge(form: Rules, judged: Judged): Judgement {
  const { level, content_filter: filters, blocklist } = form.config.spam_protection;
  const reasons: Reason[] = [];
  const [trap] = judged.control.trapped;
  if (trap !== undefined) reasons.push({ name: 'honeypot', score: CERTAIN, detail: `the field ${trap} was filled in` });
  if (filters || blocklist.length > 0) {
    const values = textOf(judged);
    const text = values.map((value) => value.text).join('\n');
    const blocked = blockedBy(blocklist, { text, ip: judged.ip });
    if (blocked !== undefined) reasons.push({ name: 'blocklist', score: CERTAIN, detail: blocked });
    if (filters) reasons.push(...contentReasons(form, values, text), ...addressReasons(domainOf(form, judged)));
  }
  return sum(reasons, level);
}

function sum(reasons: readonly Reason[], level: keyof typeof SPAM_FROM): Judgement {
  const score = reasons.reduce((points, reason) => points + reason.score, 0);
  return { verdict: score >= SPAM_FROM[level] ? 'spam' : 'accept', score, reasons };
}

function contentReasons(form: Rules, values: readonly Value[], text: string): Reason[] {
  const links = linksOf(text);
  return [
    ...linkReasons(values, text, links),
    ...headerReasons(values, text),
    ...repetitionReasons(values, text),
    ...phraseReasons(text, links.length > 0),
    ...disguiseReasons(text, () => ownTexts(form), links.length > 0),
    ...gibberishReasons(values),
  ];
}

/** The words that the form itself shows to its visitors, as far as the configuration knows them. */
function ownTexts({ config }: Rules): string {
  const labels = Object.values(config.fields).map(({ label }) => label ?? '');
  return [config.name ?? '', config.thank_you ?? '', ...labels].join('\n');
}

/** Of the visitor's address. */
function domainOf({ config }: Rules, { fields, control }: Judged): string | undefined {
  const address = emailOf(fields, config) ?? replyToOf(control);
  return address?.slice(address.lastIndexOf('@') + 1);
}

/** All that the visitor wrote, with the name of its field, as far as it is read. */
function textOf({ fields, control: { subject, replyTo } }: Judged): Value[] {
  const values: Value[] = [];
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
