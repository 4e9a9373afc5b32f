/**
 * What was posted to several forms of this server: the same text, or most of it, and links to the same domain. A text is
 * known by the least hashes of its rows of words, so that another greeting or name changes little. What is kept is bounded
 * and in memory; at a start, and where several daemons share a database, it is read from the submissions that are stored.
 * One visitor who repeats a message to one form is a matter of limits and is not counted here.
 */
import type { Clock } from '../../lib/clock.ts';
import { Recent } from '../../lib/lru.ts';
import { registeredName, type KnownHosts, type Link } from './text.ts';
import type { Reason } from './signs.ts';

export interface Posted {
  /** Hashes of its words, in order. */
  readonly words: readonly number[];
  readonly links: readonly Link[];
  readonly email: string | undefined;
  /** The form's id. */
  readonly form: string;
  /** The form's domain. */
  readonly domain: string;
}

export interface Repetition {
  /** Remembers the submission, and says what of it other forms have seen before. */
  note(posted: Posted): Reason[];
}

/** Marks that are kept; each takes some 200 bytes. */
const MAX_MARKS = 30_000;
/** Forms that are told apart for one mark. */
const MAX_FORMS = 8;
/** Marks are forgotten after this without another. */
const KEPT_MS = 48 * 3_600_000;
/** Shorter texts are alike by chance. */
const MIN_WORDS = 12;
const ROW_OF_WORDS = 4;
const MARKS_PER_TEXT = 4;
/** Of the marks of a text, as many must be known. */
const MIN_KNOWN = 2;
const MAX_WORDS = 1500;
const MAX_LINKS = 10;

/** By the number of other forms: those of other domains count whole, those of the same domain half. */
const TEXT_POINTS = [0, 4, 12, 20, 26, 30, 35];
const LINK_POINTS = [0, 0, 4, 7, 10, 12];

interface Mark {
  at: number;
  /** Hashes of forms and of their domains. */
  readonly forms: { readonly form: string; readonly domain: string }[];
}

/** What posts have in common, for as long as the daemon runs. */
export function createRepetition(hosts: KnownHosts, clock: Pick<Clock, 'now'>): Repetition {
  const marks = new Recent<Mark>(MAX_MARKS);

  function others(key: string, { form, domain }: Posted, now: number): number {
    const known = marks.get(key);
    if (known === undefined || now - known.at > KEPT_MS) return 0;
    const other = known.forms.filter((seen) => seen.form !== form);
    return other.reduce((sum, seen) => sum + (seen.domain === domain ? 0.5 : 1), 0);
  }

  function remember(key: string, { form, domain }: Posted, now: number): void {
    const known = marks.get(key);
    const mark = known === undefined || now - known.at > KEPT_MS ? { at: now, forms: [] } : known;
    const { forms } = mark;
    if (forms.length < MAX_FORMS && !forms.some((seen) => seen.form === form)) forms.push({ form, domain });
    mark.at = now;
    if (mark !== known) marks.set(key, mark);
  }

  return {
    note(posted) {
      const now = clock.now();
      const reasons: Reason[] = [];
      const texts = marksOf(posted.words).map((mark) => `t${mark}`);
      const known = texts.map((key) => others(key, posted, now)).sort((a, b) => b - a);
      const seen = known[MIN_KNOWN - 1] ?? 0;
      const textScore = pointsOf(TEXT_POINTS, seen);
      if (textScore > 0) {
        reasons.push({
          name: 'repeated_text',
          score: textScore,
          detail: 'other forms of this server got the same text',
        });
      }
      const links = linkMarks(posted, hosts);
      const most = links.reduce((one, host) => Math.max(one, others(`l${host}`, posted, now)), 0);
      const linkScore = pointsOf(LINK_POINTS, most);
      if (linkScore > 0) {
        const host = links.find((each) => others(`l${each}`, posted, now) === most) ?? '';
        reasons.push({ name: 'repeated_link', score: linkScore, detail: host.slice(0, 100) });
      }
      for (const key of texts) remember(key, posted, now);
      for (const host of links) remember(`l${host}`, posted, now);
      return reasons;
    },
  };
}

function pointsOf(table: readonly number[], forms: number): number {
  return table[Math.min(Math.floor(forms), table.length - 1)] ?? 0;
}

/** The least hashes of its rows of words: two texts that share most rows share most of these. */
function marksOf(words: readonly number[]): number[] {
  if (words.length < MIN_WORDS) return [];
  const least: number[] = [];
  let limit = Infinity;
  const end = Math.min(words.length, MAX_WORDS) - ROW_OF_WORDS;
  for (let at = 0; at <= end; at++) {
    let hash = 0x811c9dc5;
    for (let i = 0; i < ROW_OF_WORDS; i++) hash = Math.imul(hash ^ (words[at + i] ?? 0), 0x01000193) ^ (hash >>> 15);
    const mark = Math.imul(hash ^ (hash >>> 16), 0x7feb352d) >>> 0;
    if (mark >= limit || least.includes(mark)) continue;
    const next = least.findIndex((other) => other > mark);
    least.splice(next === -1 ? least.length : next, 0, mark);
    if (least.length > MARKS_PER_TEXT) least.pop();
    if (least.length === MARKS_PER_TEXT) limit = least.at(-1) ?? Infinity;
  }
  return least;
}

/** The names that its links lead to: not the form's own, the visitor's own, or such that everybody links to. */
function linkMarks({ links, domain, email }: Posted, hosts: KnownHosts): string[] {
  if (links.length === 0) return [];
  const own = new Set([registeredName(domain), registeredName(email?.slice(email.lastIndexOf('@') + 1) ?? '')]);
  const found = new Set<string>();
  for (const { host, path } of links.slice(0, MAX_LINKS)) {
    const name = registeredName(host);
    if (own.has(name)) continue;
    // Whose link it is shows behind the name that many share.
    if (hosts.isShortener(host) || hosts.isMessenger(host)) found.add(`${host}${path.slice(0, 60)}`);
    else if (hosts.isFreeHost(host)) found.add(host.slice(0, 100));
    else if (!hosts.isCommon(host)) found.add(name.slice(0, 100));
  }
  return [...found];
}
