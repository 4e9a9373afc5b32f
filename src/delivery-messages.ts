/** What the main thread and the delivery thread say to each other. */
import type { ServerConfig } from './config/schema.ts';
import type { DoorPlace } from './queue/route.ts';

export type ToDelivery =
  | { readonly kind: 'wake' }
  | { readonly kind: 'configure'; readonly server: ServerConfig }
  | { readonly kind: 'door'; readonly place: DoorPlace | undefined }
  | { readonly kind: 'stop'; readonly graceMs: number };

export type FromDelivery =
  | { readonly kind: 'ready' }
  | { readonly kind: 'state'; readonly problem: string | undefined; readonly isStuck: boolean };

/** How often the thread says how it is, ms. */
export const BEAT_MS = 2000;
