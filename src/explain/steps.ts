/** The steps of an explanation, and what all of them are made from. */
import type { Domains } from '../domains/domains.ts';
import type { KeysOf } from '../mail/dkim.ts';
import type { RevisionOf } from '../accounts/projects.ts';
import type { Snapshot } from '../config/snapshot.ts';
import type { Dnssec } from '../dns/dnssec.ts';
import type { Resolver } from '../dns/resolver.ts';
import type { Clock } from '../lib/clock.ts';
import type { Random } from '../queue/transport.ts';
import type { LoopbackSmtp, MtaSts } from '../smtp-client/route.ts';
import type { Directory } from '../smtp/recipients.ts';
import type { Store } from '../store/store.ts';

export interface Step {
  /** A stable name. */
  readonly step: string;
  /** Which address it is about, where there are several. */
  readonly about?: string;
  /** `stop`: mail gets no further, or waits. `warning`: it may fare worse than its owner thinks. */
  readonly verdict: 'ok' | 'warning' | 'stop';
  readonly found: string;
  readonly because: string;
}

export interface Explanation {
  /** As it was asked. */
  readonly what: string;
  readonly kind: 'inbound' | 'outbound' | 'form';
  readonly steps: readonly Step[];
}

/** A step that mail passes. */
export function passes(step: string, found: string, because: string): Step {
  return { step, verdict: 'ok', found, because };
}

/** A step that mail passes, with something to be said against it. */
export function warns(step: string, found: string, because: string): Step {
  return { step, verdict: 'warning', found, because };
}

/** A step where mail ends, or waits. */
export function stops(step: string, found: string, because: string): Step {
  return { step, verdict: 'stop', found, because };
}

export interface ExplainParts {
  /** Who asks, where that is not the operator: what is known of the mail of others is left out. */
  readonly tenant?: string | undefined;
  readonly store: Store;
  readonly clock: Clock;
  readonly snapshot: () => Snapshot;
  readonly resolver: Resolver;
  readonly random: Random;
  readonly mtaSts: Pick<MtaSts, 'policyOf'>;
  /** Without it no host has DANE. */
  readonly dnssec: Dnssec | undefined;
  /** For mail to domains that come here. */
  readonly loopback: LoopbackSmtp;
  readonly domains: Pick<Domains, 'report'>;
  readonly keysOf: KeysOf;
  readonly revisionOf: RevisionOf;
  /** What recipients are decided by. */
  readonly directory: () => Promise<Directory>;
}
