/**
 * What the queue knows of a destination: its failures and pauses, and whose turn it is there; and by its name whether it is a
 * webhook, is reached by the smarthost, is a big receiver.
 */
import type { ServerConfig } from '../config/schema.ts';
import { LruMap } from '../lib/lru.ts';
import { nextFlow, tenantsWaiting, type Turn } from '../store/leases.ts';
import type { Store } from '../store/store.ts';
import type { DestinationRow } from '../store/tables.ts';
import { retryDelay, type RetryOptions } from './retry.ts';
import { SANDBOX } from './sandbox.ts';
import type { Unreachable } from './transport.ts';

/** After the first failure of one of several daemons another may look, ms. */
const OTHERS_LOOK_MS = 1000;

/** What the database knows of a destination, and what a failure writes there. */
type Pause = Pick<DestinationRow, 'failures' | 'pauses' | 'paused_until' | 'line'>;

const PROVEN: Pause = { failures: 0, pauses: 0, paused_until: null, line: '' };

/**
 * What the worker remembers of a destination while something of it is claimed, and how its pauses grow: a failure after a
 * pause is a step of the retry table, one within a pause (new mail may probe) is none, so that a busy form does not turn a
 * short outage of its owner's server into a long silence.
 */
export class Destination {
  readonly name: string;
  /** Recipients that are claimed and not settled. */
  outstanding = 0;
  /** The last claim found more than a part of what it asked for: more may wait. */
  backlog = false;
  readonly turns = new RoundRobin();
  #pause = PROVEN;
  /** When a failure was last noted, on the monotonic clock. */
  #failedAt = -Infinity;

  constructor(name: string) {
    this.name = name;
  }

  get isFailing(): boolean {
    return this.#pause.failures > 0;
  }

  /** In which line it waits for connections (`destinations.line`). */
  get line(): string {
    return this.#pause.line;
  }

  /** Whether a server there has answered, and could be reached since. */
  get isProven(): boolean {
    return this.line === '';
  }

  /** When mail may go there again, if it is paused. */
  get pausedUntil(): number | undefined {
    return this.#pause.paused_until ?? undefined;
  }

  /** Takes over what the database knows: another daemon, or the operator, may have changed it. */
  read(row: DestinationRow | undefined): void {
    this.#pause = row ?? PROVEN;
  }

  /**
   * Notes that it cannot be reached with mail of the tenant. Answers the pause, or undefined where tries that ran side by side
   * have noted it already. A first failure is a short pause where others are to look, too.
   */
  fail(
    { began }: Unreachable,
    { now, monotonic, tenant, hasOthers }: { now: number; monotonic: number; tenant: string; hasOthers: boolean },
    retry: RetryOptions,
  ): (Pause & { readonly paused_until: number }) | undefined {
    const { failures, pauses, paused_until: until } = this.#pause;
    if (began <= this.#failedAt && until !== null) return undefined;
    this.#failedAt = monotonic;
    const line = `again:${tenant}`;
    if (hasOthers && failures === 0) {
      return (this.#pause = { failures: 1, pauses: 0, paused_until: now + OTHERS_LOOK_MS, line });
    }
    const isNew = until === null || until <= now;
    const pause = {
      failures: failures + 1,
      pauses: isNew ? pauses + 1 : pauses,
      paused_until: isNew ? now + retryDelay(pauses + 1, 'fault', retry) : until,
      line,
    };
    this.#pause = pause;
    return pause;
  }

  succeed(): void {
    this.#pause = PROVEN;
  }
}

// Turns: who is served next from a queue that is longer than one claim: other mail before bulk, of which a quarter goes on all the
// same; within each, tenants in turn, and of each tenant its flows (its forms, or kinds of mail) in turn.

/** How much one turn may claim. */
type LimitedTurn = Turn & { readonly limit: number };

/** Of each of the two, so many tenants have a turn at once. */
const MAX_TENANTS = 8;
/** Bulk has this part where other mail waits, too. */
const BULK_SHARE = 1 / 4;
const MAX_REMEMBERED = 1000;

/** The turns at one destination. */
class RoundRobin {
  /** Whose turn was last: of other mail, and of bulk. */
  readonly #tenants: [string, string] = ['', ''];
  /** Which flow had the last turn of its tenant. */
  readonly #flows = new LruMap<string>(MAX_REMEMBERED);

  /** The next turns, for `room` (at least 2) deliveries together. */
  async next(store: Store, destination: string, room: number): Promise<LimitedTurn[]> {
    const forBulk = Math.ceil(room * BULK_SHARE);
    const first = await this.#nextOf(0, { store, destination, most: room - forBulk });
    const bulk = await this.#nextOf(1, { store, destination, most: first.length === 0 ? room : forBulk });
    return [
      ...shared(first, bulk.length === 0 ? room : room - forBulk),
      ...shared(bulk, first.length === 0 ? room : forBulk),
    ];
  }

  async #nextOf(
    bulk: 0 | 1,
    { store, destination, most }: { store: Store; destination: string; most: number },
  ): Promise<Turn[]> {
    const limit = Math.min(MAX_TENANTS, most);
    const after = this.#tenants[bulk];
    const tenants = await tenantsWaiting(store, destination, { bulk, after, limit });
    if (tenants.length < limit && after !== '') {
      const more = await tenantsWaiting(store, destination, { bulk, after: '', limit: limit - tenants.length });
      tenants.push(...more.filter((tenant) => !tenants.includes(tenant)));
    }
    this.#tenants[bulk] = tenants.at(-1) ?? '';
    const turns = tenants.map(async (tenant): Promise<Turn[]> => {
      const key = `${bulk} ${tenant}`;
      const flow = await nextFlow(store, destination, { bulk, tenant, flow: this.#flows.get(key) ?? '' });
      if (flow === undefined) return [];
      this.#flows.set(key, flow);
      return [{ bulk, tenant, flow }];
    });
    return (await Promise.all(turns)).flat();
  }
}

function shared(turns: readonly Turn[], room: number): LimitedTurn[] {
  return turns.map((turn) => ({ ...turn, limit: Math.floor(room / turns.length) }));
}

/** Whether deliveries to this destination are posted to a webhook: its id has an underscore, and no domain has one there. */
export function isWebhook(destination: string): boolean {
  return destination.startsWith('whk_');
}

// The smarthost. All mail waits for it together while it cannot be reached or takes nothing from us; after each pause one
// message finds out. No destination is blamed, and nothing bounces for it.

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

// The big receivers of mail, by their MX hosts: few names, so that figures by receiver stay few, whoever mail is for.

/** Ends of the names of their MX hosts, and of the domains of their own mailboxes. */
const RECEIVERS = {
  'amazonaws.com': 'amazon',
  'awsapps.com': 'amazon',
  'icloud.com': 'apple',
  'me.com': 'apple',
  'mac.com': 'apple',
  'apple.com': 'apple',
  'messagingengine.com': 'fastmail',
  'fastmail.com': 'fastmail',
  'gmx.net': 'gmx',
  'gmx.de': 'gmx',
  'gmx.at': 'gmx',
  'gmx.ch': 'gmx',
  'web.de': 'gmx',
  'mail.com': 'gmx',
  'google.com': 'google',
  'googlemail.com': 'google',
  'gmail.com': 'google',
  'psmtp.com': 'google',
  'kundenserver.de': 'ionos',
  'ionos.com': 'ionos',
  'ionos.de': 'ionos',
  'perfora.net': 'ionos',
  'mail.ru': 'mailru',
  'outlook.com': 'microsoft',
  'hotmail.com': 'microsoft',
  'live.com': 'microsoft',
  'msn.com': 'microsoft',
  'mx.microsoft': 'microsoft',
  'mimecast.com': 'mimecast',
  'mimecast.co.za': 'mimecast',
  'orange.fr': 'orange',
  'wanadoo.fr': 'orange',
  'ovh.net': 'ovh',
  'ovh.ca': 'ovh',
  'pphosted.com': 'proofpoint',
  'ppe-hosted.com': 'proofpoint',
  'protonmail.ch': 'proton',
  'proton.me': 'proton',
  'protonmail.com': 'proton',
  't-online.de': 'telekom',
  'magenta.de': 'telekom',
  'yahoodns.net': 'yahoo',
  'yahoo.com': 'yahoo',
  'aol.com': 'yahoo',
  'ymail.com': 'yahoo',
  'yandex.net': 'yandex',
  'yandex.ru': 'yandex',
  'zoho.com': 'zoho',
  'zoho.eu': 'zoho',
} as const;

export type Receiver = (typeof RECEIVERS)[keyof typeof RECEIVERS] | 'other' | 'webhook';

const BY_SUFFIX: ReadonlyMap<string, Receiver> = new Map(Object.entries(RECEIVERS));

/** Who takes the mail of this destination; `host` is the MX host that was reached, or would be. */
export function receiverOf(destination: string, host: string | null): Receiver {
  if (isWebhook(destination)) return 'webhook';
  const labels = (host ?? destination).toLowerCase().split('.');
  return BY_SUFFIX.get(labels.slice(-2).join('.')) ?? BY_SUFFIX.get(labels.slice(-3).join('.')) ?? 'other';
}
