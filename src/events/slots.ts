/** How many tries run at a time: in all, for one tenant, and for one webhook. */
import type { WebhookRow } from '../store/tables-accounts.ts';

const ALL = 200;
const PER_TENANT = 40;
const PER_WEBHOOK = 5;

type Who = Pick<WebhookRow, 'id' | 'tenant' | 'failing_since'>;

export class Slots {
  #all = 0;
  readonly #taken = new Map<string, number>();

  /** How many more this webhook may begin; while it fails it has one in all. */
  room({ id, tenant, failing_since }: Who): number {
    const own = failing_since === null ? PER_WEBHOOK : 1;
    return Math.min(ALL - this.#all, PER_TENANT - this.#of(tenant), own - this.#of(id));
  }

  take({ id, tenant }: Who): void {
    this.#add(id, tenant, 1);
  }

  release({ id, tenant }: Who): void {
    this.#add(id, tenant, -1);
  }

  #of(name: string): number {
    return this.#taken.get(name) ?? 0;
  }

  #add(id: string, tenant: string, change: 1 | -1): void {
    this.#all += change;
    for (const name of [id, tenant]) {
      const count = this.#of(name) + change;
      if (count > 0) this.#taken.set(name, count);
      else this.#taken.delete(name);
    }
  }
}
