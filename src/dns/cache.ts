/**
 * A short, bounded memory for answers: found ones for their TTL and at most five minutes, "there is none" for one minute,
 * failures not at all. Equal questions that are asked at the same time are asked once.
 */
import type { Clock } from '../lib/clock.ts';
import type { Answer } from './answers.ts';

/** An answer and, where the resolver knows it, its time to live in seconds. */
export interface Timed<T> {
  readonly answer: Answer<T>;
  readonly ttl?: number;
}

/** Answers a name from memory unless told to ask `past` it; either way the answer is remembered. */
export type Ask<T> = (name: string, past: boolean) => Promise<Answer<T>>;

const POSITIVE_MS = 5 * 60e3;
const NEGATIVE_MS = 60e3;
const MOST_ENTRIES = 1000;
const MOST_RECORDS = 50;

export function remember<T>(clock: Clock, ask: (name: string) => Promise<Timed<T>>): Ask<T> {
  const kept = new Map<string, { answer: Answer<T>; until: number }>();
  const pending = new Map<string, Promise<Answer<T>>>();

  function keep(name: string, { answer, ttl }: Timed<T>): void {
    kept.delete(name);
    const ms = lifetime(answer, ttl);
    if (ms <= 0) return;
    const oldest = kept.size < MOST_ENTRIES ? undefined : kept.keys().next().value;
    if (oldest !== undefined) kept.delete(oldest);
    kept.set(name, { answer, until: clock.monotonic() + ms });
  }

  async function askAndKeep(name: string): Promise<Answer<T>> {
    try {
      const timed = await ask(name);
      keep(name, timed);
      return timed.answer;
    } finally {
      pending.delete(name);
    }
  }

  return (name, past) => {
    const entry = past ? undefined : kept.get(name);
    if (entry !== undefined && entry.until > clock.monotonic()) return Promise.resolve(entry.answer);
    const running = pending.get(name) ?? askAndKeep(name);
    pending.set(name, running);
    return running;
  };
}

function lifetime(answer: Answer<unknown>, ttl: number | undefined): number {
  switch (answer.kind) {
    case 'found':
      // Nobody's mail needs more records than this: what is that large is not worth the memory.
      return answer.records.length > MOST_RECORDS ? 0 : Math.min(POSITIVE_MS, (ttl ?? Infinity) * 1000);
    case 'nxdomain':
    case 'nodata':
      return NEGATIVE_MS;
    case 'failed':
      return 0;
  }
}
