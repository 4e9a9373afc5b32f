/** The same again and again: fields, words, characters. */
import { hasLink } from './links.ts';
import type { Reason, Value } from './reasons.ts';

/** So much of a text shows whether it is monotonous. */
const SAMPLE = 32 * 1024;

/** What repeats itself in a submission. */
export function repetitionReasons(values: readonly Value[], text: string): Reason[] {
  const reasons = sameTexts(values);
  if (hasRun(text, 50)) reasons.push({ name: 'repetition', score: 4, detail: 'one character over and over' });
  else if (isMonotonous(text)) reasons.push({ name: 'repetition', score: 6, detail: 'few words over and over' });
  return reasons;
}

function sameTexts(values: readonly Value[]): Reason[] {
  const counts = new Map<string, number>();
  for (const { text } of values) {
    if (text.length < 15) continue;
    const count = (counts.get(text) ?? 0) + 1;
    if (count === 3) {
      const score = hasLink(text) ? 10 : 6;
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

function isMonotonous(text: string): boolean {
  if (text.length < 400) return false;
  const words =
    text
      .slice(0, SAMPLE)
      .toLowerCase()
      .match(/\p{L}+/gu) ?? [];
  return words.length >= 40 && new Set(words).size < Math.min(30, words.length / 5);
}
