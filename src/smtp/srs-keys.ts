/**
 * The secrets of SRS addresses: a new one signs every 30 days, and the one before it outlives every address that it has
 * signed. The next one opens as well, for daemons whose clocks are a little ahead. Daemons on one database share them.
 */
import { createSecretKey, type KeyObject } from 'node:crypto';
import type { Clock } from '../lib/clock.ts';
import type { Srs } from '../mail/own-addresses.ts';
import { obtainSecret } from '../store/secrets.ts';
import type { Store } from '../store/store.ts';

export interface SrsKeys {
  /** The one that signs first. */
  secrets(): Srs['secrets'];
  /** Goes over to the next one where its time has come; to be called every now and then. Rejects where the store cannot. */
  renew(): Promise<void>;
}

const PERIOD_MS = 30 * 86_400_000;

/** The secrets, made where there are none yet. */
export async function openSrsKeys({ store, clock }: { store: Store; clock: Clock }): Promise<SrsKeys> {
  async function load(period: number): Promise<KeyObject> {
    return createSecretKey(await obtainSecret(store, `srs-${period}`, clock.now()));
  }

  async function loadAll(period: number): Promise<{ period: number; secrets: Srs['secrets'] }> {
    return { period, secrets: [await load(period), await load(period - 1), await load(period + 1)] };
  }

  let held = await loadAll(periodOf(clock.now()));
  return {
    secrets: () => held.secrets,
    async renew() {
      const period = periodOf(clock.now());
      if (period !== held.period) held = await loadAll(period);
    },
  };
}

function periodOf(now: number): number {
  return Math.floor(now / PERIOD_MS);
}
