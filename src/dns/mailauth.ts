/** The resolver in the shape that mailauth, which checks DKIM, SPF and DMARC, asks for. */
import type { Answer, Resolver } from './resolver.ts';

export type MailauthResolver = (name: string, type: string) => Promise<string[][] | string[]>;

/**
 * The resolver as mailauth wants it: Node's records, and errors with Node's codes. A question that could not be answered
 * is ESERVFAIL, which every check of mailauth reports as a temporary error.
 */
export function mailauthResolver(resolver: Pick<Resolver, 'txt' | 'mx' | 'lookup'>): MailauthResolver {
  return async (name, type) => {
    switch (type) {
      case 'TXT':
        return records(await resolver.txt(name), name).map((text) => [text]);
      case 'MX': {
        const found = records(await resolver.mx(name), name);
        const asNode: unknown = found.map(({ preference, exchange }) => ({ priority: preference, exchange }));
        // oxlint-disable-next-line no-unsafe-type-assertion -- mailauth's own types leave out that MX records are objects
        return asNode as string[];
      }
      case 'A':
      case 'AAAA':
      case 'CNAME':
      case 'PTR':
        return [...records(await resolver.lookup(name, type), name)];
      default:
        throw new Error(`no look-up of ${type} records here`);
    }
  };
}

function records<T>(answer: Answer<T>, name: string): readonly T[] {
  switch (answer.kind) {
    case 'found':
      return answer.records;
    case 'nxdomain':
      throw failure(`${name} does not exist`, 'ENOTFOUND');
    case 'nodata':
      throw failure(`${name} has no such record`, 'ENODATA');
    case 'failed':
      throw failure(answer.reason, 'ESERVFAIL');
  }
}

/** Without a stack, which nobody reads and which takes longer than the rest of the look-up: most mail has two or three. */
function failure(message: string, code: string): Error {
  const { stackTraceLimit } = Error;
  Error.stackTraceLimit = 0;
  const error = Object.assign(new Error(message), { code });
  Error.stackTraceLimit = stackTraceLimit;
  return error;
}
