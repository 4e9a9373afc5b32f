/** What sends mail for programs, composed, with the key that knows the links in it again. */
import { createSecretKey, type KeyObject } from 'node:crypto';
import type { Clock } from './lib/clock.ts';
import { obtainSecret } from './store/secrets.ts';
import type { Store } from './store/store.ts';
import type { Renderer } from './templates/render.ts';
import { createTransactional, type Transactional } from './transactional/send.ts';

export interface TransactionalWork {
  readonly transactional: Transactional;
  readonly unsubscribeKey: KeyObject;
}

/** With the secret that the database keeps, made where there is none. */
export async function openTransactional(parts: {
  readonly store: Store;
  readonly clock: Clock;
  readonly renderer: Renderer;
}): Promise<TransactionalWork> {
  const { store, clock, renderer } = parts;
  const unsubscribeKey = createSecretKey(await obtainSecret(store, 'unsubscribe', clock.now()));
  return { unsubscribeKey, transactional: createTransactional({ store, unsubscribeKey, renderer }) };
}
