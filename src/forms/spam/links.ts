/** Links: how many, how dressed, and where they do not belong. */
import type { Reason, Value } from './reasons.ts';

const LINK = /(?:https?:\/\/|\bwww\.)[^\s<>"'\]]+/gi;
const ONE_LINK = new RegExp(LINK.source, 'i');
const SHORT =
  /^(?:https?:\/\/)?(?:www\.)?(?:bit\.ly|tinyurl\.com|t\.me|cutt\.ly|is\.gd|rb\.gy|tiny\.cc|shorturl\.at|goo\.su|clck\.ru|vk\.cc|u\.to|t\.ly)\//i;
const PERSON = /^(?:first|last|full|user|your|sur|family|given)?[ _-]?name$/i;
const BBCODE = /\[(?:url|link)=|\[url\][^[]{0,300}\[\/url/i;
const ANCHOR = /<a\s[^<>]{0,40}?href/gi;
/** The most links that are looked at one by one. */
const MOST = 1000;

/** The links in a text, as they stand there. */
export function linksOf(text: string): readonly string[] {
  return text.match(LINK) ?? [];
}

/** Whether there is a link in the text. */
export function hasLink(text: string): boolean {
  return ONE_LINK.test(text);
}

/** What the links of a submission say. */
export function linkReasons(values: readonly Value[], text: string, links: readonly string[]): Reason[] {
  const reasons: Reason[] = [];
  if (links.length > 2) {
    reasons.push({ name: 'links', score: Math.min(8, links.length - 2), detail: `${links.length} links` });
  }
  if (links.length >= 2 && links.reduce((sum, { length }) => sum + length, 0) > text.length / 2) {
    reasons.push({ name: 'mostly_links', score: 4, detail: 'little text beside the links' });
  }
  const short = links.slice(0, MOST).find((link) => SHORT.test(link));
  if (short !== undefined) reasons.push({ name: 'short_link', score: 3, detail: short.slice(0, 60) });
  return [...reasons, ...markupReasons(text), ...nameReasons(values)];
}

function markupReasons(text: string): Reason[] {
  if (!text.includes('[') && !text.includes('<')) return [];
  const anchors = text.match(ANCHOR)?.length ?? 0;
  const bbcode = BBCODE.test(text);
  if (anchors === 0 && !bbcode) return [];
  const score = bbcode || anchors >= 3 ? 8 : 4;
  return [{ name: 'link_markup', score, detail: bbcode ? 'links in BBCode' : 'links in HTML' }];
}

function nameReasons(values: readonly Value[]): Reason[] {
  const odd = values.find(({ name, text }) => PERSON.test(name) && hasLink(text));
  return odd === undefined ? [] : [{ name: 'link_in_name', score: 8, detail: `in the field ${odd.name.slice(0, 60)}` }];
}
