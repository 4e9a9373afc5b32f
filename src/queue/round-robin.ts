/**
 * Who is served next from a queue that is longer than one claim: other mail before bulk, of which a quarter goes on all the same;
 * within each, tenants in turn, and of each tenant its flows (its forms, or kinds of mail) in turn.
 */
import { Recent } from '../lib/lru.ts';
import { nextFlow, tenantsWaiting, type Turn } from '../store/leases.ts';
import type { Store } from '../store/store.ts';

/** How much one turn may claim. */
export type LimitedTurn = Turn & { readonly limit: number };

/** Of each of the two, so many tenants have a turn at once. */
const MAX_TENANTS = 8;
/** Bulk has this part where other mail waits, too. */
const BULK_SHARE = 1 / 4;
const MAX_REMEMBERED = 1000;

/** The turns at one destination. */
export class RoundRobin {
  /** Whose turn was last: of other mail, and of bulk. */
  readonly #tenants: [string, string] = ['', ''];
  /** Which flow had the last turn of its tenant. */
  readonly #flows = new Recent<string>(MAX_REMEMBERED);

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
