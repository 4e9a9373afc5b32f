/** Row 5: the same against Haraka with its plugins that check. */
import { relayedRow } from '../lib/checked-rows.ts';
import { startCheckingHaraka } from '../lib/checking-haraka.ts';
import type { Row } from '../lib/row.ts';

export const row: Row = relayedRow({
  number: '5d',
  reference: 'Haraka with SPF and DKIM, and SRS',
  atLeast: 1,
  start: startCheckingHaraka,
});
