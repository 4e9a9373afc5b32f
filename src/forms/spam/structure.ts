/** Signs of spam in what a submission is made of: markup, mail headers, and what repeats itself in it. */
import { linksOf } from './links.ts';
import type { Reason } from './reasons.ts';
import type { Text, Value } from './text.ts';

const PERSON = /^(?:first|last|full|user|your|sur|family|given)?[ _-]?name$/i;
const BBCODE = /\[(?:url|link)=|\[url\][^[]{0,300}\[\/url/i;
const ANCHOR = /<a\s[^<>]{0,40}?href/gi;
/** Honest mail has as many now and then: products of an order, photographs. */
const MANY_LINKS = 6;
const MAX_BARE_LENGTH = 400;

/** What the links of a submission say beside that there are some. */
export function linkReasons({ values, text, links }: Text): Reason[] {
  const reasons: Reason[] = [];
  if (links.length > MANY_LINKS) {
    reasons.push({
      name: 'links',
      score: Math.min(12, links.length - MANY_LINKS + 2),
      detail: `${links.length} links`,
    });
  }
  if (links.length >= 3 && links.reduce((sum, link) => sum + link.text.length, 0) > text.length / 2) {
    reasons.push({ name: 'mostly_links', score: 20, detail: 'little text beside the links' });
  } else if (links.length > 0 && isNothingElse(values)) {
    reasons.push({ name: 'mostly_links', score: 8, detail: 'a link and nothing else' });
  }
  return [...reasons, ...markupReasons(text), ...nameReasons(values)];
}

/** Whether what was written beside names and addresses has no word that is not of a link. */
function isNothingElse(values: readonly Value[]): boolean {
  return values.every(({ text, kind }) => kind !== 'words' || !/\p{L}{2}/u.test(withoutLinks(text)));
}

function withoutLinks(text: string): string {
  if (text.length > MAX_BARE_LENGTH) return text;
  let left = text;
  for (const link of linksOf(text)) left = left.replace(link.text, ' ');
  return left;
}

function markupReasons(text: string): Reason[] {
  if (!text.includes('[') && !text.includes('<')) return [];
  const anchors = text.match(ANCHOR)?.length ?? 0;
  const bbcode = BBCODE.test(text);
  if (anchors === 0 && !bbcode) return [];
  const score = bbcode || anchors >= 3 ? 12 : 3;
  return [{ name: 'link_markup', score, detail: bbcode ? 'links in BBCode' : 'links in HTML' }];
}

function nameReasons(values: readonly Value[]): Reason[] {
  const odd = values.find(({ name, text }) => PERSON.test(name) && linksOf(text).length > 0);
  return odd === undefined
    ? []
    : [{ name: 'link_in_name', score: 25, detail: `in the field ${odd.name.slice(0, 60)}` }];
}

const ONE_LINE = /^(?:.*[ _-])?(?:name|e-?mail|subject|phone|tel|company|_replyto)$/i;
const HEADER_AFTER_BREAK =
  /[\r\n][ \t]{0,20}(?:bcc|cc|to|from|reply-to|subject|content-type|content-transfer-encoding|mime-version)[ \t]{0,20}:/i;
const BCC_LINE = /^[ \t]{0,20}bcc[ \t]{0,20}:[^\r\n]{0,200}@/im;
const MIME_LINE = /^[ \t]{0,20}(?:mime-version|content-type|content-transfer-encoding)[ \t]{0,20}:/im;

/** What lines that look like mail headers say. */
export function headerReasons(values: readonly Value[], text: string): Reason[] {
  const reasons = values.flatMap(({ name, text: value }): Reason[] => {
    if (!/[\r\n]/.test(value) || !ONE_LINE.test(name)) return [];
    const detail = `in the field ${name.slice(0, 60)}`;
    if (HEADER_AFTER_BREAK.test(value)) {
      return [{ name: 'header_injection', score: 60, detail: `a mail header ${detail}` }];
    }
    return /[\r\n]/.test(value.trim()) ? [{ name: 'line_breaks', score: 8, detail }] : [];
  });
  return [...reasons, ...lineReasons(text)];
}

function lineReasons(text: string): Reason[] {
  if (!text.includes(':')) return [];
  const bcc = BCC_LINE.test(text);
  const mime = MIME_LINE.test(text);
  if (!bcc && !mime) return [];
  const score = (bcc ? 15 : 0) + (mime ? 10 : 0) + (bcc && mime ? 35 : 0);
  return [{ name: 'header_lines', score, detail: bcc ? 'a Bcc line' : 'MIME headers' }];
}

/** What vulnerability scanners type into every field of a site: code for a database, a shell, a template or a browser. */
const PROBES = [
  /['"]\s{0,9}(?:or|and|xor)\b[\s('"]{0,9}\w{1,20}['"]?\s{0,9}[=(]/i,
  /\bunion\s{1,9}(?:all\s{1,9})?select\b|@@[a-z_]{4,}/i,
  /(?:\.\.[\\/]){3}|\/etc\/passwd\b/i,
  /\$\{(?:jndi|env|sys):|\{\{\s?\d{1,9}\s?\*\s?\d{1,9}\s?\}\}|<%=?\s?\d{1,9}\s?\*/i,
  /<!--#(?:exec|include)\b|<script\b[^<>]{0,100}>\s?(?:alert|prompt|confirm|eval)\b/i,
  /\b(?:pg_sleep|load_file|extractvalue|response\.write|print\(md5)\s?\(|\bsleep\(\d{1,4}\)|\bwaitfor\s{1,9}delay\b/i,
];
/** Each of them has one of these. */
const MAYBE_PROBE = /['"\\/{<(]|@@|union|waitfor/i;
const PROSE_WORD = /(?<![\p{L}\p{N}_.])\p{L}{3,}(?![\p{L}\p{N}_(])/gu;
const CODE_WORD = /^(?:all|alert|and|delay|from|null|select|sleep|table|union|waitfor|where|xor)$/i;
/** A person who reports a hole says where it is. */
const MAX_PROSE_WORDS = 3;

/** What code for a scanner's test says, where there is no word beside it. */
export function probeReasons(values: readonly Value[]): Reason[] {
  const probe = values.find(({ text }) => {
    if (text.length > MAX_BARE_LENGTH || !MAYBE_PROBE.test(text)) return false;
    if (!PROBES.some((pattern) => pattern.test(text))) return false;
    return (text.match(PROSE_WORD) ?? []).filter((word) => !CODE_WORD.test(word)).length <= MAX_PROSE_WORDS;
  });
  return probe === undefined
    ? []
    : [{ name: 'probe', score: 36, detail: `a vulnerability test in the field ${probe.name.slice(0, 60)}` }];
}

/** So many words show whether a text is monotonous. */
const MAX_WORDS = 4000;

/** What repeats itself in a submission. */
export function repetitionReasons({ values, text }: Text, words: readonly number[]): Reason[] {
  const reasons = sameTexts(values);
  if (hasRun(text, 50)) reasons.push({ name: 'repetition', score: 10, detail: 'one character over and over' });
  else if (isMonotonous(words)) reasons.push({ name: 'repetition', score: 15, detail: 'few words over and over' });
  return reasons;
}

function sameTexts(values: readonly Value[]): Reason[] {
  const counts = new Map<string, number>();
  for (const { text } of values) {
    if (text.length < 15) continue;
    const count = (counts.get(text) ?? 0) + 1;
    if (count === 3) {
      const score = linksOf(text).length > 0 ? 30 : 15;
      return [{ name: 'same_text', score, detail: 'the same text in three fields or more' }];
    }
    counts.set(text, count);
  }
  return [];
}

/** Whether a letter or digit stands so often in a row; lines of dashes and blanks are honest. */
function hasRun(text: string, length: number): boolean {
  let run = 0;
  let previous = -1;
  for (let i = 0; i < text.length; i++) {
    const code = text.charCodeAt(i);
    run = code === previous ? run + 1 : 1;
    previous = code;
    if (run === length && /[\p{L}\p{N}]/u.test(text.charAt(i))) return true;
  }
  return false;
}

function isMonotonous(words: readonly number[]): boolean {
  if (words.length < 60) return false;
  const sample = words.slice(0, MAX_WORDS);
  return new Set(sample).size < Math.min(30, sample.length / 5);
}
