/** Row 4: signed mail taken over SMTP and checked, against Postfix with the programs of Debian that check. */
import { acceptedRow } from '../lib/checked-rows.ts';
import { startCheckingPostfix } from '../lib/checking-postfix.ts';
import type { Row } from '../lib/row.ts';

export const row: Row = acceptedRow({
  number: '4',
  reference: 'Postfix + policyd-spf + OpenDKIM + OpenDMARC',
  atLeast: 5,
  start: startCheckingPostfix,
});
