/** What the main thread and the delivery thread say to each other. */
import type { ServerConfig } from './config/schema.ts';

export type ToDelivery =
  | { readonly kind: 'wake' }
  | { readonly kind: 'configure'; readonly server: ServerConfig }
  | { readonly kind: 'stop'; readonly graceMs: number };

export type FromDelivery =
  { readonly kind: 'ready' } | { readonly kind: 'problem'; readonly problem: string | undefined };

/** How often the thread says how it is, ms. */
export const BEAT_MS = 2000;
