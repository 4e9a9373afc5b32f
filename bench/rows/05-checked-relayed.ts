/** Row 5: signed mail checked and forwarded, against Postfix with the programs of Debian that check, and postsrsd. */
import { relayedRow } from '../lib/checked-rows.ts';
import { startCheckingPostfix } from '../lib/checking-postfix.ts';
import type { Row } from '../lib/row.ts';

export const row: Row = relayedRow({
  number: '5',
  reference: 'Postfix + policyd-spf + OpenDKIM + OpenDMARC + postsrsd',
  atLeast: 5,
  start: startCheckingPostfix,
});
