/**
 * What V8's collector leaves too long, of the thread that asks: memory outside its heap, which it hardly counts, and what a
 * start leaves behind. Without the launcher, which exposes the collector, these do nothing.
 */

/** A start leaves garbage, a third of the heap, which would stay as long as the daemon is idle. Gives it back; 50 ms of CPU. */
export function compactHeap(): void {
  globalThis.gc?.({ type: 'major', execution: 'sync', flavor: 'last-resort' });
}

export interface Garbage {
  /** So many bytes of short-lived buffers were used: what the socket or the store gave, and nobody will look at again. */
  add(bytes: number): void;
}

const MOST_BYTES = 8 * 1024 * 1024;

/** Of a hundred large messages at once the buffers that are done with would grow to twice what is needed. */
export function createGarbage(): Garbage {
  let waiting = 0;
  return {
    add(bytes) {
      waiting += bytes;
      if (waiting < MOST_BYTES) return;
      waiting = 0;
      globalThis.gc?.({ type: 'minor', execution: 'sync' });
    },
  };
}
