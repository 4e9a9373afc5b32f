/**
 * The alert that tells the operator that the smarthost fails, so that all mail waits. It comes with the second pause in a
 * row, because a restart of the smarthost is over by then.
 */
import type { ServerConfig } from '../config/schema.ts';
import { isoTime } from '../lib/clock.ts';
import type { RelayPause } from '../queue/relay.ts';
import { alertOperator } from '../queue/system-mail.ts';
import { readRelay } from '../smtp-client/relay.ts';
import type { Store } from '../store/store.ts';

/** Sends it. Where mail to the operator needs the smarthost too, it waits with the rest. Rejects where the store cannot be used. */
export async function relayAlert(
  { pauses, reply, until, at }: RelayPause,
  { store, config }: { readonly store: Store; readonly config: ServerConfig },
): Promise<void> {
  const { relay } = config.delivery;
  if (relay === null || pauses < 2) return;
  const { hostname } = config.server;
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
  ].join('\n');
  const subject = `${hostname} cannot send mail: the smarthost fails`;
  await alertOperator(store, { name: 'relay', subject, text, days: 1 }, { ...config.server, now: at });
}
