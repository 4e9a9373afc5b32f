/** Does the proof of work that a form asks for, as a page's script does it. */
import { createHash } from 'node:crypto';

interface Asked {
  readonly algorithm: string;
  readonly challenge: string;
  readonly salt: string;
  readonly signature: string;
}

/** What goes into the field `_challenge`; `change` spoils it. */
export function proofOf({ algorithm, challenge, salt, signature }: Asked, change: object = {}): string {
  let number = 0;
  while (createHash('sha256').update(`${salt}${number}`).digest('hex') !== challenge) number++;
  return btoa(JSON.stringify({ algorithm, challenge, salt, signature, number, took: 1, ...change }));
}
