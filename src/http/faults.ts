/** Exceptions, where they finally end: one line in the log with the request's id, and what the client may know. */
import { BusyError, errorFields } from '../lib/errors.ts';
import type { Log } from '../lib/log.ts';
import { StoreError } from '../store/store.ts';
import { ClientGone } from './collect.ts';
import { refusalOf, type Refusal } from './errors.ts';
import { loggedPath, type Exchange } from './context.ts';

/** What a fault is to the client. Throws it on where there is no client any more. */
export function faultRefusal(error: unknown, { id, method, path, ip }: Exchange, log: Log): Refusal {
  if (error instanceof ClientGone) throw error;
  const event = error instanceof StoreError || error instanceof BusyError ? 'http.unavailable' : 'http.failed';
  log.error(event, { request: id, method, path: loggedPath(path), ip, ...errorFields(error) });
  return refusalOf(error);
}
