/**
 * What a receiving server would think of a mail: DKIM, SPF and DMARC computed by mailauth from the bytes, the connection
 * and DNS, and never taken from what the mail says of itself.
 */
import type { Readable } from 'node:stream';
import { authenticate } from 'mailauth';
import { mailauthResolver, type Resolver } from '../dns/resolver.ts';
import { messageOf } from '../lib/errors.ts';

export interface Verdict {
  /** `pass`, `fail`, `neutral`, `none`, `temperror` … (RFC 8601 §2.7). */
  readonly result: string;
  readonly domain: string;
  /** In words, from the verifier. */
  readonly comment: string;
}

export interface DkimVerdict extends Verdict {
  readonly selector: string;
  readonly algorithm: string;
}

export interface Verdicts {
  /** One for each signature; none for an unsigned mail. */
  readonly dkim: readonly DkimVerdict[];
  readonly spf: Verdict;
  readonly dmarc: Verdict;
}

export interface Connection {
  readonly client: string;
  readonly helo: string;
  /** Envelope sender; empty for the null sender. */
  readonly from: string;
  /** Our name, for the records' sake. */
  readonly hostname: string;
}

/** Never rejects: a mail that cannot be judged is a `temperror` with the reason. */
export async function judge(message: Readable, connection: Connection, resolver: Resolver): Promise<Verdicts> {
  try {
    const { dkim, spf, dmarc } = await authenticate(message, {
      ip: connection.client,
      helo: connection.helo,
      sender: connection.from,
      mta: connection.hostname,
      resolver: mailauthResolver(resolver),
      disableArc: true,
      disableBimi: true,
    });
    return {
      dkim: dkim.results
        .filter(({ signingDomain }) => signingDomain !== undefined)
        .map(({ signingDomain = '', selector = '', algo = '', status }) => ({
          ...verdict(status, signingDomain),
          selector,
          algorithm: algo,
        })),
      spf: spf === false ? NONE : verdict(spf.status, spf.domain),
      dmarc: dmarc === false ? NONE : verdict(dmarc.status, dmarc.domain),
    };
  } catch (error) {
    const failed = { result: 'temperror', domain: '', comment: messageOf(error) };
    return { dkim: [], spf: failed, dmarc: failed };
  }
}

/** The one word for a list: `pass` if any signature passes, else the first one's result, else `none`. */
export function dkimResult(verdicts: Verdicts): string {
  const results = verdicts.dkim.map(({ result }) => result);
  return results.includes('pass') ? 'pass' : (results[0] ?? 'none');
}

const NONE: Verdict = { result: 'none', domain: '', comment: '' };

function verdict(status: { result: string; comment?: string }, domain: string): Verdict {
  return { result: status.result, domain, comment: status.comment ?? '' };
}
