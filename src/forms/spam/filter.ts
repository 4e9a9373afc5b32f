/**
 * Whether a submission is spam, with a score and the reasons by name, so that its owner can see why. In time linear in the
 * text, of which the first 256 KiB are read. docs/spam.md says what counts for how much.
 *
 * From 10 points on it is spam at level `normal`, from 5 on at `strict`. No single sign of what honest people do as well
 * reaches 10: two links, a code snippet, capital letters, a quoted mail, any language.
 */
import ipaddr from 'ipaddr.js';
import type { Form } from '../../config/snapshot.ts';
import type { PassedChallenge } from '../challenges.ts';
import { emailOf, replyToOf, valuesOf, type Control, type Field } from '../fields.ts';
import {
  addressReasons,
  NO_MX,
  noMx,
  type RefusesMail,
  headerReasons,
  linkReasons,
  linksOf,
  repetitionReasons,
} from './structure.ts';
import { disguiseReasons, gibberishReasons, phraseReasons } from './words.ts';
import type { Reason, Value } from './reasons.ts';

export interface SpamVerdict {
  readonly verdict: 'accept' | 'spam';
  readonly score: number;
  readonly reasons: readonly Reason[];
}

export interface SpamInput {
  readonly fields: readonly Field[];
  readonly control: Control;
  /** The visitor's address. */
  readonly ip: string;
  /** What the page's token and the form's challenge said; nothing is known of a post with an API key. */
  readonly visit?: Pick<PassedChallenge, 'token' | 'challenge'> | undefined;
}

type Rules = Pick<Form, 'config'>;

/** Rates a submission by its form's `spam_protection`; a promise only where DNS has to be asked. */
export type SpamFilter = (form: Rules, submission: SpamInput) => SpamVerdict | Promise<SpamVerdict>;

const CERTAIN = 100;
const SPAM_FROM = { normal: 10, strict: 5 } as const;
const MAX_TEXT_LENGTH = 256 * 1024;

/** The spam filter; it asks DNS whether the visitor's domain accepts mail where that alone decides. */
export function createSpamFilter(refusesMail: RefusesMail): SpamFilter {
  return (form, submission) => {
    const spamVerdict = checkForSpam(form, submission);
    const { level, content_filter: filters } = form.config.spam_protection;
    if (!filters || spamVerdict.verdict === 'spam' || spamVerdict.score + NO_MX < SPAM_FROM[level]) return spamVerdict;
    const domain = domainOf(form, submission);
    return domain === undefined ? spamVerdict : withLookup(form, spamVerdict, { domain, refusesMail });
  };
}

async function withLookup(
  { config }: Rules,
  spamVerdict: SpamVerdict,
  { domain, refusesMail }: { domain: string; refusesMail: RefusesMail },
): Promise<SpamVerdict> {
  if (!(await refusesMail(domain))) return spamVerdict;
  return sum([...spamVerdict.reasons, noMx(domain)], config.spam_protection.level);
}

/** What the submission itself says. */
export function checkForSpam(form: Rules, submission: SpamInput): SpamVerdict {
  const { level, content_filter: filters, blocklist } = form.config.spam_protection;
  const reasons: Reason[] = [];
  const [trap] = submission.control.trapped;
  if (trap !== undefined) reasons.push({ name: 'honeypot', score: CERTAIN, detail: `the field ${trap} was filled in` });
  if (filters || blocklist.length > 0) {
    const values = textOf(submission);
    const text = values.map((value) => value.text).join('\n');
    const blocked = blockedBy(blocklist, { text, ip: submission.ip });
    if (blocked !== undefined) reasons.push({ name: 'blocklist', score: CERTAIN, detail: blocked });
    if (filters) reasons.push(...contentReasons(form, values, text), ...addressReasons(domainOf(form, submission)));
  }
  return sum(reasons, level);
}

function sum(reasons: readonly Reason[], level: keyof typeof SPAM_FROM): SpamVerdict {
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
function domainOf({ config }: Rules, { fields, control }: SpamInput): string | undefined {
  const address = emailOf(fields, config) ?? replyToOf(control);
  return address?.slice(address.lastIndexOf('@') + 1);
}

/** All that the visitor wrote, with the name of its field, as far as it is read. */
function textOf({ fields, control: { subject, replyTo } }: SpamInput): Value[] {
  const values: Value[] = [];
  let left = MAX_TEXT_LENGTH;
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

type Network = ReturnType<typeof ipaddr.parseCIDR>;

/** The first entry that the text or the visitor's address matches, as the form has it. */
function blockedBy(blocklist: readonly string[], { text, ip }: { text: string; ip: string }): string | undefined {
  if (blocklist.length === 0) return undefined;
  const lower = text.toLowerCase();
  const address = ipaddr.isValid(ip) ? ipaddr.process(ip) : undefined;
  return blocklist.find((entry) => {
    const network = networkOf(entry);
    if (network !== undefined) return address !== undefined && isWithin(address, network);
    const wanted = entry.trim().toLowerCase();
    return wanted !== '' && holds(lower, wanted);
  });
}

/** `192.0.2.7`, `192.0.2.0/24`, `2001:db8::/32`. */
function networkOf(entry: string): Network | undefined {
  if (!/^[0-9a-f.:]+(?:\/\d{1,3})?$/i.test(entry)) return undefined;
  if (ipaddr.isValidCIDR(entry)) return ipaddr.parseCIDR(entry);
  if (!ipaddr.IPv4.isValidFourPartDecimal(entry) && !ipaddr.IPv6.isValid(entry)) return undefined;
  const address = ipaddr.process(entry);
  return [address, address.kind() === 'ipv4' ? 32 : 128];
}

function isWithin(address: ipaddr.IPv4 | ipaddr.IPv6, [network, bits]: Network): boolean {
  return address.kind() === network.kind() && address.match(network, bits);
}

/** A host name or mail address as such, not as a part of another: `evil.com` also blocks `www.evil.com`, not `notevil.com`. */
const HOST = /^[^\s/]+\.[^\s./]+$/;
const WORD = /[\p{L}\p{N}]/u;
const HOST_CHARACTER = /[\p{L}\p{N}-]/u;
const LOCAL_CHARACTER = /[\p{L}\p{N}._%+-]/u;
/** These scripts put no space between words. */
const UNSPACED =
  /[\p{Script=Han}\p{Script=Hiragana}\p{Script=Katakana}\p{Script=Thai}\p{Script=Lao}\p{Script=Khmer}\p{Script=Myanmar}]/u;

function holds(text: string, wanted: string): boolean {
  const host = HOST.test(wanted);
  const before = wanted.includes('@') ? LOCAL_CHARACTER : host ? HOST_CHARACTER : WORD;
  for (let at = text.indexOf(wanted); at !== -1; at = text.indexOf(wanted, at + wanted.length)) {
    const end = at + wanted.length;
    const first = UNSPACED.test(wanted.charAt(0)) || !before.test(text.charAt(at - 1));
    if (first && endsThere(text, end, { host, last: wanted.charAt(wanted.length - 1) })) return true;
  }
  return false;
}

function endsThere(text: string, end: number, { host, last }: { host: boolean; last: string }): boolean {
  const next = text.charAt(end);
  if (!host) return UNSPACED.test(last) || !WORD.test(next);
  return !HOST_CHARACTER.test(next) && !(next === '.' && HOST_CHARACTER.test(text.charAt(end + 1)));
}
