/** Mail headers in what was typed: what is left of the attempt to send other mail through a form. */
import type { Reason, Value } from './reasons.ts';

const ONE_LINE = /^(?:.*[ _-])?(?:name|e-?mail|subject|phone|tel|company|_replyto)$/i;
const HEADER_AFTER_BREAK =
  /[\r\n][ \t]{0,20}(?:bcc|cc|to|from|reply-to|subject|content-type|content-transfer-encoding|mime-version)[ \t]{0,20}:/i;
const BCC_LINE = /^[ \t]{0,20}bcc[ \t]{0,20}:[^\r\n]{0,200}@/im;
const MIME_LINE = /^[ \t]{0,20}(?:mime-version|content-type|content-transfer-encoding)[ \t]{0,20}:/im;

/** What lines that look like mail headers say. */
export function headerReasons(values: readonly Value[], text: string): Reason[] {
  const reasons = values.flatMap(({ name, text: value }): Reason[] => {
    if (!ONE_LINE.test(name) || !/[\r\n]/.test(value)) return [];
    const detail = `in the field ${name.slice(0, 60)}`;
    if (HEADER_AFTER_BREAK.test(value)) {
      return [{ name: 'header_injection', score: 10, detail: `a mail header ${detail}` }];
    }
    return /[\r\n]/.test(value.trim()) ? [{ name: 'line_breaks', score: 3, detail }] : [];
  });
  return [...reasons, ...lineReasons(text)];
}

function lineReasons(text: string): Reason[] {
  if (!text.includes(':')) return [];
  const bcc = BCC_LINE.test(text);
  const mime = MIME_LINE.test(text);
  if (!bcc && !mime) return [];
  const score = (bcc ? 6 : 0) + (mime ? 4 : 0);
  return [{ name: 'header_lines', score, detail: bcc ? 'a Bcc line' : 'MIME headers' }];
}
