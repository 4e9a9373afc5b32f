/** Row 4: the same against Haraka with its plugins that check. */
import { acceptedRow } from '../lib/checked-rows.ts';
import { startCheckingHaraka } from '../lib/checking-haraka.ts';
import type { Row } from '../lib/row.ts';

export const row: Row = acceptedRow({
  number: '4d',
  reference: 'Haraka with SPF and DKIM',
  atLeast: 1,
  start: startCheckingHaraka,
});
