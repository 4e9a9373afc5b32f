/**
 * The smarthost as the queue knows it. All mail waits for it together while it cannot be reached or takes nothing from us;
 * after each pause one message finds out. No destination is blamed, and nothing bounces for it.
 */
import type { ServerConfig } from '../config/schema.ts';
import { SANDBOX } from './sandbox.ts';
import { isWebhook } from './transport.ts';

/** Everything waits for the smarthost: it is asked more often than a destination, ms. */
const MAX_PAUSE_MS = 15 * 60_000;

/** The table of its pauses: the operator's (`delivery.retry`), without the long steps. */
export function relayTable(table: readonly number[]): readonly number[] {
  return table.map((delay) => Math.min(delay, MAX_PAUSE_MS));
}

/** Destinations whose mail does not leave through the smarthost; undefined where there is none. */
export function besideRelay({ delivery }: Pick<ServerConfig, 'delivery'>): readonly string[] | undefined {
  return delivery.relay === null ? undefined : [SANDBOX, ...Object.keys(delivery.routes)];
}

/** Whether mail for the destination leaves through the smarthost. */
export function isRelayed(config: Pick<ServerConfig, 'delivery'>, destination: string): boolean {
  return !isWebhook(destination) && besideRelay(config)?.includes(destination) === false;
}

/** Why the smarthost is paused, and for how long. */
export interface RelayPause {
  /** How often it was paused in a row, from 1. */
  readonly pauses: number;
  readonly reply: string;
  /** Until when, and when that was decided, ms. */
  readonly until: number;
  readonly at: number;
}

/** Is told before the pause is written. Rejects where the store cannot be used. */
export type OnRelayPause = (pause: RelayPause) => Promise<void>;
