/** Which addresses are this server's, and whether a name leads to one of them. */
import { recordsOf, silenceOf, together, type Answer, type Failed } from './answers.ts';

/** Where it sends from (`publicIps`, as configured) and where its host name leads. */
export function ownAddresses(publicIps: readonly string[], hostAddresses: Answer<string>): Answer<string> {
  return together([publicIps.length === 0 ? { kind: 'nodata' } : { kind: 'found', records: publicIps }, hostAddresses]);
}

/** Where the addresses of a name lead. `elsewhere` is said only where all of them and all of `own` are known. */
export function placeOf(addresses: Answer<string>, own: Answer<string>): 'here' | 'elsewhere' | Failed {
  const ours = new Set(recordsOf(own));
  if (recordsOf(addresses).some((address) => ours.has(address))) return 'here';
  const reason = silenceOf(addresses) ?? silenceOf(own);
  return reason === undefined ? 'elsewhere' : { kind: 'failed', reason };
}
