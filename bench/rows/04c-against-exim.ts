/** Row 4: the same against Exim, which checks mail itself. */
import { acceptedRow } from '../lib/checked-rows.ts';
import { startCheckingExim } from '../lib/checking-exim.ts';
import type { Row } from '../lib/row.ts';

export const row: Row = acceptedRow({
  number: '4c',
  reference: 'Exim that checks',
  atLeast: 1,
  count: 200,
  start: startCheckingExim,
});
