/**
 * The alert that tells the operator that the smarthost fails, so that all mail waits. It comes with the second pause in a
 * row, because a restart of the smarthost is over by then, and once a day at most.
 */
import { sliceAt } from '../accounts/rate-limits.ts';
import type { ServerConfig } from '../config/schema.ts';
import { isoTime } from '../lib/clock.ts';
import type { RelayPause } from '../queue/relay.ts';
import { systemMail } from '../queue/system-mail.ts';
import { readRelay } from '../smtp-client/relay.ts';
import { takeSlice } from '../store/limits.ts';
import type { Statement } from '../store/statement.ts';
import type { Store } from '../store/store.ts';
import { OPERATOR } from '../store/tenants.ts';

const DAY = 86_400_000;
const BUCKET = `${DAY}:alert:relay`;

/** The statements that send it, for the unit of the pause. Where mail to the operator needs the smarthost too, it waits with the rest. */
export async function relayAlert(
  { pauses, reply, until, at }: RelayPause,
  { store, config }: { readonly store: Store; readonly config: ServerConfig },
): Promise<Statement[]> {
  const { relay } = config.delivery;
  if (relay === null || pauses < 2) return [];
  const [taken] = await store.write([takeSlice({ bucket: BUCKET, slice: sliceAt(at, DAY), since: at - DAY, max: 1 })]);
  if (taken.changes === 0) return [];
  const { hostname, operator: to } = config.server;
  const { host, port } = readRelay(relay);
  const text = [
    `${hostname} cannot send mail through its smarthost ${host}, port ${port}:`,
    '',
    `    ${reply}`,
    '',
    `All mail waits in the queue, and nothing has bounced. The next attempt is at ${isoTime(until)}.`,
    '',
    'Check `delivery.relay` in server.yml: host, port, user name and password. To see what the smarthost answers now:',
    '',
    '    postern doctor',
    '',
    'After a change of server.yml, or with `postern queue retry`, mail is tried again at once.',
    '',
    'You get at most one such alert a day.',
  ].join('\n');
  return systemMail(
    { tenant: OPERATOR, to, subject: `${hostname} cannot send mail: the smarthost fails`, text },
    hostname,
    at,
  );
}
