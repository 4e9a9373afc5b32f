/**
 * What the request says that brought a submission: whether its headers are those of the program that it claims to be
 * (browsers send `Accept-Language`, and over HTTPS `Sec-Fetch-*`), and what the page's token and challenge said. Programs
 * may post to forms, so none of that makes spam of a text that is none. And what the domain of the visitor's address says.
 */
import { disposableEmailBlocklistSet } from 'disposable-email-domains-js';
import type { TokenState } from '../challenges.ts';
import type { Reason } from './reasons.ts';

/** Facts about the visitor; what is left out says nothing. */
export interface Visit {
  readonly headers?: Readonly<Record<string, string | readonly string[] | undefined>> | undefined;
  /** It came with an API key: a site's own server posts for the visitor. */
  readonly hasKey?: boolean | undefined;
  /** It came over HTTPS, where browsers say more. */
  readonly isSecure?: boolean | undefined;
  readonly token?: TokenState | undefined;
  readonly challenge?: 'passed' | undefined;
}

const TOKENS: Readonly<Record<TokenState, readonly [points: number, detail: string]>> = {
  // A program in a browser has one as well: it would hide half of the spam that its text shows.
  valid: [0, ''],
  missing: [0, ''],
  'too fast': [12, 'sent sooner than people write'],
  used: [10, 'the token of the page was used before'],
  expired: [0, ''],
  forged: [10, 'the token of the page is not of this server'],
};

/** What the request says. */
export function visitReasons({ headers, hasKey, isSecure, token, challenge }: Visit): Reason[] {
  const reasons: Reason[] = [];
  const [score, detail] = token === undefined ? [0, ''] : TOKENS[token];
  if (score !== 0) reasons.push({ name: 'page_token', score, detail });
  if (challenge === 'passed') reasons.push({ name: 'challenge', score: -4, detail: 'passed' });
  if (headers !== undefined && hasKey !== true) reasons.push(...headerReasons(headers, isSecure === true));
  return reasons;
}

const PROGRAM =
  /^(?:python|curl|wget|go-http|java|okhttp|libwww|lwp|axios|node|undici|php|guzzle|scrapy|ruby|perl|httpie|apache-http|postman|insomnia)/i;
const HEADLESS = /headless|phantomjs|puppeteer|playwright|selenium|slimerjs/i;
/** Chromium since 80 (2020), Firefox since 90 (2021). */
const SENDS_FETCH_METADATA = /chrome\/(?:8\d|9\d|\d{3})|firefox\/(?:9\d|\d{3})/i;
const OLD = /msie \d|trident\/|chrome\/[1-6]?\d\.|firefox\/[1-6]?\d\.|windows nt 5|presto\//i;

function headerReasons(headers: NonNullable<Visit['headers']>, isSecure: boolean): Reason[] {
  const agent = String(headers['user-agent'] ?? '');
  const site = headers['sec-fetch-site'];
  const odd: [points: number, detail: string][] = [];
  if (agent === '') odd.push([3, 'no User-Agent']);
  else if (PROGRAM.test(agent)) odd.push([2, 'a program that is no browser']);
  else if (HEADLESS.test(agent)) odd.push([6, 'a browser without a screen']);
  else if (/^mozilla/i.test(agent)) {
    if (headers['accept-language'] === undefined) odd.push([4, 'a browser without Accept-Language']);
    if (isSecure && site === undefined && SENDS_FETCH_METADATA.test(agent)) {
      odd.push([4, 'a browser without Sec-Fetch-Site']);
    }
    if (OLD.test(agent)) odd.push([4, 'a browser of more than ten years ago']);
  }
  if (site === 'none') odd.push([2, 'a post that no page sent']);
  if (odd.length === 0) return [];
  const score = Math.min(
    10,
    odd.reduce((sum, [points]) => sum + points, 0),
  );
  return [{ name: 'headers', score, detail: odd.map(([, detail]) => detail).join(', ') }];
}

/** Whether the domain certainly takes no mail. What DNS cannot say is no. */
export type RefusesMail = (domain: string) => Promise<boolean>;

export const NO_MX_POINTS = 10;

/** The reason that a domain without mail gives. */
export function noMx(domain: string): Reason {
  return { name: 'no_mx', score: NO_MX_POINTS, detail: `${domain} takes no mail` };
}

/** The check for domains of mail addresses that are thrown away after use; it holds the list of the community. */
export function createDisposable(): (domain: string | undefined) => Reason[] {
  const known = disposableEmailBlocklistSet();
  return (domain) => {
    if (domain === undefined || !isIn(known, domain.toLowerCase())) return [];
    return [{ name: 'disposable_address', score: 9, detail: domain }];
  };
}

/** Such services have names below their own as well. */
function isIn(known: ReadonlySet<string>, domain: string): boolean {
  for (let name = domain; name.includes('.'); name = name.slice(name.indexOf('.') + 1)) {
    if (known.has(name)) return true;
  }
  return false;
}
