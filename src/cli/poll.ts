/** Asking again until something has happened: soon at first, then ever less often, because accounts have a limit per hour. */
import { systemClock, type Clock } from '../lib/clock.ts';

export interface Polling<T> {
  readonly ask: () => Promise<T>;
  readonly isDone: (answer: T) => boolean;
  /** Told of each answer that is not the end, with the seconds that are left. */
  readonly onWait?: (answer: T, left: number) => void;
  /** How long to go on, ms. */
  readonly patience: number;
  /** The longest pause, ms. */
  readonly slowest: number;
  readonly clock?: Clock;
}

const FIRST_PAUSE = 200;
const SLOWER = 1.6;

/** The answer that is the end, or the last one when patience is over. */
export async function poll<T>(polling: Polling<T>): Promise<T> {
  const { ask, isDone, onWait, patience, slowest, clock = systemClock } = polling;
  const end = clock.monotonic() + patience;
  for (let pause = FIRST_PAUSE; ; pause = Math.min(pause * SLOWER, slowest)) {
    const answer = await ask();
    const left = end - clock.monotonic();
    if (isDone(answer) || left <= 0) return answer;
    onWait?.(answer, Math.ceil(left / 1000));
    await clock.sleep(Math.min(pause, left));
  }
}
