/**
 * What gives spam away in the text of a submission.
 *
 * | reason | score | what |
 * |---|---|---|
 * | links | 1 each, up to 8 | links beyond the second |
 * | mostly_links | 4 | two links or more, and little else |
 * | link_markup | 4 to 8 | `[url=…]`, or `<a href=…>` three times; once is 4 |
 * | link_in_name | 8 | a link where a person's name belongs |
 * | header_injection | 10 | a line break and a mail header in a field of one line |
 * | header_lines | 4, 6 or 10 | MIME headers, a `Bcc:` line with an address, or both |
 * | line_breaks | 3 | a line break in a field of one line |
 * | same_text | 6, with a link 10 | the same longer text in three fields or more |
 * | repetition | 4 or 6 | one character 50 times in a row; few words said over and over |
 * | goods | 5 each, up to 10 | what spam sells, whole words |
 * | pitch | 3 each, up to 9 | how spam promises success, whole words |
 * | offer | 3 | two of these and a link |
 * | hidden_characters | 4 | invisible characters within words, or overridden writing direction |
 * | shouting | 2 | capital letters nearly alone |
 */

/** Why something may be spam. */
export interface Reason {
  readonly name: string;
  readonly score: number;
  /** For the owner of the form. */
  readonly detail: string;
}

interface Value {
  readonly name: string;
  readonly text: string;
}

const LINK = /(?:https?:\/\/|\bwww\.)[^\s<>"'\]]+/gi;
const PERSON = /^(?:first|last|full|user|your|sur|family|given)?[ _-]?name$/i;
const ONE_LINE = /^(?:.*[ _-])?(?:name|e-?mail|subject|phone|tel|company|_replyto)$/i;
const BBCODE = /\[(?:url|link)\b/i;
const ANCHOR = /<a\s[^<>]{0,40}?href/gi;
const HEADER_AFTER_BREAK =
  /[\r\n][ \t]{0,20}(?:bcc|cc|to|from|reply-to|subject|content-type|content-transfer-encoding|mime-version)[ \t]{0,20}:/i;
const BCC_LINE = /^[ \t]{0,20}bcc[ \t]{0,20}:[^\r\n]{0,200}@/im;
const MIME_LINE = /^[ \t]{0,20}(?:mime-version|content-type|content-transfer-encoding)[ \t]{0,20}:/im;
/** Within words of Latin, Greek or Cyrillic letters; elsewhere joiners are spelling. */
const HIDDEN = /[A-Za-z\u0370-\u04ff][\u200b\u2060\ufeff\u00ad][A-Za-z\u0370-\u04ff]/g;
const OVERRIDE = /[\u202d\u202e]/;
const GOODS =
  /\b(?:viagra|cialis|levitra|tramadol|xanax|(?:online|crypto) casinos?|casino bonus|free spins|payday loans?|replica (?:watch(?:es)?|handbags?)|double your (?:money|bitcoins?)|adult dating|porn|escorts|sex (?:chat|cam)|weight loss pills?|you have won|lottery winner|cheap (?:meds|pills))\b/gi;
const PITCH =
  /\b(?:backlinks?|guest posts?|link building|(?:first|top) page of google|rank(?:ing)? (?:#1|higher) (?:on|in) google|seo (?:services?|packages?|expert)|(?:website|web) traffic|buy followers|make money (?:online|fast)|passive income|work from home|(?:bitcoin|crypto|forex) (?:investments?|trading))\b/gi;

/** The reasons that the text gives, the values in the order sent. */
export function contentReasons(values: readonly Value[]): Reason[] {
  const text = values.map((value) => value.text).join('\n');
  const links = text.match(LINK) ?? [];
  return [
    ...linkReasons(text, links),
    ...markupReasons(text),
    ...fieldReasons(values),
    ...headerReasons(text),
    ...repetitionReasons(values, text),
    ...phraseReasons(text, links),
    ...disguiseReasons(text),
  ];
}

function linkReasons(text: string, links: readonly string[]): Reason[] {
  const reasons: Reason[] = [];
  if (links.length > 2) {
    reasons.push({ name: 'links', score: Math.min(8, links.length - 2), detail: `${links.length} links` });
  }
  if (links.length >= 2 && links.join('').length > text.length / 2) {
    reasons.push({ name: 'mostly_links', score: 4, detail: 'little text beside the links' });
  }
  return reasons;
}

function markupReasons(text: string): Reason[] {
  if (!text.includes('[') && !text.includes('<')) return [];
  const anchors = text.match(ANCHOR)?.length ?? 0;
  const bbcode = BBCODE.test(text);
  if (anchors === 0 && !bbcode) return [];
  const score = bbcode || anchors >= 3 ? 8 : 4;
  return [{ name: 'link_markup', score, detail: bbcode ? 'links in BBCode' : 'links in HTML' }];
}

function fieldReasons(values: readonly Value[]): Reason[] {
  return values.flatMap(({ name, text }): Reason[] => {
    if (!ONE_LINE.test(name)) return [];
    if (HEADER_AFTER_BREAK.test(text)) {
      return [{ name: 'header_injection', score: 10, detail: `a mail header in the field ${name}` }];
    }
    const reasons: Reason[] = [];
    if (/[\r\n]/.test(text.trim())) reasons.push({ name: 'line_breaks', score: 3, detail: `in the field ${name}` });
    if (PERSON.test(name) && new RegExp(LINK.source, 'i').test(text)) {
      reasons.push({ name: 'link_in_name', score: 8, detail: `in the field ${name}` });
    }
    return reasons;
  });
}

function headerReasons(text: string): Reason[] {
  if (!text.includes(':')) return [];
  const bcc = BCC_LINE.test(text);
  const mime = MIME_LINE.test(text);
  if (!bcc && !mime) return [];
  const score = (bcc ? 6 : 0) + (mime ? 4 : 0);
  return [{ name: 'header_lines', score, detail: bcc ? 'a Bcc line' : 'MIME headers' }];
}

function repetitionReasons(values: readonly Value[], text: string): Reason[] {
  const reasons: Reason[] = [];
  const counts = new Map<string, number>();
  for (const { text: value } of values) {
    if (value.length >= 15) counts.set(value, (counts.get(value) ?? 0) + 1);
  }
  for (const [value, count] of counts) {
    if (count < 3) continue;
    const score = new RegExp(LINK.source, 'i').test(value) ? 10 : 6;
    reasons.push({ name: 'same_text', score, detail: `the same text in ${count} fields` });
    break;
  }
  if (hasRun(text, 50)) reasons.push({ name: 'repetition', score: 4, detail: 'one character over and over' });
  else if (isMonotonous(text)) reasons.push({ name: 'repetition', score: 6, detail: 'few words over and over' });
  return reasons;
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

function isMonotonous(text: string): boolean {
  if (text.length < 400) return false;
  const words = text.toLowerCase().match(/\p{L}+/gu) ?? [];
  return words.length >= 40 && new Set(words).size < words.length / 5 && new Set(words).size < 30;
}

function phraseReasons(text: string, links: readonly string[]): Reason[] {
  const goods = phrases(text, GOODS);
  const pitch = phrases(text, PITCH);
  const reasons: Reason[] = [];
  if (goods.length > 0) reasons.push({ name: 'goods', score: Math.min(10, goods.length * 5), detail: listed(goods) });
  if (pitch.length > 0) reasons.push({ name: 'pitch', score: Math.min(9, pitch.length * 3), detail: listed(pitch) });
  if (goods.length + pitch.length >= 2 && links.length > 0) {
    reasons.push({ name: 'offer', score: 3, detail: 'such words and a link' });
  }
  return reasons;
}

/** Each phrase once. */
function phrases(text: string, pattern: RegExp): string[] {
  const found = text.match(pattern);
  return found === null ? [] : [...new Set(found.map((phrase) => phrase.toLowerCase()))];
}

function listed(words: readonly string[]): string {
  return words.slice(0, 5).join(', ');
}

function disguiseReasons(text: string): Reason[] {
  const reasons: Reason[] = [];
  if ((text.match(HIDDEN)?.length ?? 0) >= 3 || OVERRIDE.test(text)) {
    reasons.push({ name: 'hidden_characters', score: 4, detail: 'characters that cannot be seen' });
  }
  const sample = text.slice(0, 4096);
  const capitals = sample.match(/\p{Lu}/gu)?.length ?? 0;
  if (capitals >= 40 && capitals > (sample.match(/\p{Ll}/gu)?.length ?? 0) * 5) {
    reasons.push({ name: 'shouting', score: 2, detail: 'capital letters nearly alone' });
  }
  return reasons;
}
