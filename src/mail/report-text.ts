/**
 * Bounces that are written for people alone: the usual servers name the address and the status code in one paragraph.
 * Only what comes from a mail system is read this way, so that no letter about a bounce is one.
 */
import { parseAddress } from '../lib/addresses.ts';
import { decoded, firstOf, type Fields, type Part } from './report-parts.ts';
import type { ReportedRecipient } from './report-shapes.ts';

const LONGEST_TEXT = 64 * 1024;
const LONGEST_PARAGRAPH = 4000;
const MOST_RECIPIENTS = 100;

/** Where the original message begins, in the words of qmail, Exim, sendmail and Exchange. */
const ORIGINAL =
  /^(?:-{2,} ?(?:Below this line is a copy|This is a copy of|The (?:body|header) of|Original message|Returned message)|Original (?:message|headers)|Received: )/i;

const SYSTEM = /(?:^|[<\s"])(?:mailer-?daemon|postmaster|mdaemon|mail delivery (?:sub)?system)\b/i;

const CODES = [
  // `550 5.1.1 …`, `550-5.1.1 …`
  /(?<![\d.])[45]\d\d[ -][ #(]{0,3}([45]\.[0-7]\.\d{1,3})(?!\.?\d)/,
  // `(#5.1.1)`
  /#([45]\.[0-7]\.\d{1,3})(?!\.?\d)/,
  /(?<![\d.])([45]\.[0-7]\.\d{1,3})(?!\.?\d)/,
];
const REPLY = /(?<![\d.])([45])[0-5]\d[ -](?=\S)/;

/** The status code (RFC 3463) in these words of a server; that of the class where it has a reply code alone, else empty. */
export function statusIn(words: string): string {
  for (const pattern of CODES) {
    const [, code] = pattern.exec(words) ?? [];
    if (code !== undefined) return code;
  }
  const [, digit] = REPLY.exec(words) ?? [];
  return digit === undefined ? '' : `${digit}.0.0`;
}

/** Whom a bounce without fields for programs names; nobody where it is none. */
export function recipientsInText(whole: Part, leaves: readonly Part[]): ReportedRecipient[] {
  const named = (whole.fields.get('x-failed-recipients') ?? []).flatMap(addressesIn);
  if (named.length === 0 && !isFromSystem(whole.fields)) return [];
  const part = leaves.find(({ type }) => type === 'text/plain') ?? leaves[0];
  const found = part === undefined ? [] : paragraphsOf(decoded(part)).flatMap(recipientsOf);
  const known = new Map(found.map((recipient) => [recipient.address.toLowerCase(), recipient]));
  if (named.length === 0) return [...known.values()].slice(0, MOST_RECIPIENTS);
  const only = found.find(({ address }) => address === '');
  return named.slice(0, MOST_RECIPIENTS).map((address) => {
    const words = known.get(address.toLowerCase()) ?? only;
    return { ...(words ?? NOTHING_SAID), address };
  });
}

const NOTHING_SAID = { address: '', original: '', action: 'failed', status: '5.0.0', diagnostic: '', remote: '' };

function isFromSystem(fields: Fields): boolean {
  return SYSTEM.test(firstOf(fields, 'from'));
}

function paragraphsOf(text: string): string[] {
  const paragraphs: string[] = [];
  let lines: string[] = [];
  for (const line of text.slice(0, LONGEST_TEXT).split('\n')) {
    if (ORIGINAL.test(line)) break;
    if (line.trim() !== '') lines.push(line.trim());
    else close();
  }
  close();
  return paragraphs;

  function close(): void {
    if (lines.length > 0) paragraphs.push(lines.join(' ').slice(0, LONGEST_PARAGRAPH));
    lines = [];
  }
}

/** The first address is the recipient's; one without a status has not failed. */
function recipientsOf(paragraph: string): ReportedRecipient[] {
  const status = statusIn(paragraph);
  if (status === '') return [];
  const [address = ''] = addressesIn(paragraph);
  const action = status.startsWith('5') ? 'failed' : 'delayed';
  return [{ address, original: '', action, status, diagnostic: paragraph, remote: '' }];
}

function addressesIn(text: string): string[] {
  return text
    .split(/[\s<>()[\]{};:,"'`]/)
    .filter((word) => word.includes('@'))
    .flatMap((word) => parseAddress(word)?.address ?? []);
}
