/** A DKIM key as the API shows it. */
import { z } from 'zod';
import { adviceOn } from '../../domains/dkim-keys.ts';
import { dkimRecord } from '../../dns/records.ts';
import { isoTime } from '../../lib/clock.ts';
import type { DkimKeyRow } from '../../store/tables-keys.ts';

export const keyShape = z.object({
  selector: z.string(),
  algorithm: z.enum(['rsa', 'ed25519']),
  state: z
    .enum(['next', 'active', 'retiring', 'retired'])
    .describe('`next` signs once its record is seen in DNS; `retiring` has signed mail that may be under way.'),
  since: z.iso.datetime().describe('When it came into this state.'),
  keep_until: z.iso.datetime().nullable().describe('Of a retiring key: how long its record must stand, at least.'),
  record: z.object({ type: z.literal('TXT'), name: z.string(), value: z.string() }),
  advice: z.string(),
});

/** As the API shows them. */
export function shownKeys(keys: readonly DkimKeyRow[]): z.output<typeof keyShape>[] {
  return keys.map((key) => {
    const { selector, algorithm, state, since, keep_until, public_key: publicKey } = key;
    const { type, name, value } = dkimRecord(key.domain, { selector, algorithm, publicKey });
    return {
      selector,
      algorithm,
      state,
      since: isoTime(since),
      keep_until: keep_until === null ? null : isoTime(keep_until),
      record: { type, name, value },
      advice: adviceOn(key),
    };
  });
}
