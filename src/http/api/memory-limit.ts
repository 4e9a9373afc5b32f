/** Large bodies are in memory as a whole: so many of them at a time, in all and of one tenant. Small ones do not count. */

const LARGE = 1024 * 1024;
const MOST = 128 * LARGE;
const MOST_OF_ONE = MOST / 2;

export class Room {
  readonly #taken = new Map<string, number>();
  #all = 0;

  /** Takes room for a body; answers how to give it back, or undefined where there is none now. */
  enter(tenant: string, bytes: number): (() => void) | undefined {
    if (bytes <= LARGE) return () => undefined;
    const own = this.#taken.get(tenant) ?? 0;
    if (this.#all + bytes > MOST || own + bytes > MOST_OF_ONE) return undefined;
    this.#move(tenant, bytes);
    return () => this.#move(tenant, -bytes);
  }

  #move(tenant: string, bytes: number): void {
    const own = (this.#taken.get(tenant) ?? 0) + bytes;
    this.#all += bytes;
    if (own === 0) this.#taken.delete(tenant);
    else this.#taken.set(tenant, own);
  }
}
