/** Row 5: the same against Exim, which checks mail and rewrites senders itself. */
import { relayedRow } from '../lib/checked-rows.ts';
import { startCheckingExim } from '../lib/checking-exim.ts';
import type { Row } from '../lib/row.ts';

export const row: Row = relayedRow({
  number: '5c',
  reference: 'Exim that checks, with SRS',
  atLeast: 1,
  count: 200,
  start: startCheckingExim,
});
