/** Large messages are read back from the store to be judged: so many at a time, so that memory stays bounded whatever comes at once. */
import { RAW_PIECE_BYTES } from '../store/inbound.ts';
import type { Judge } from './interfaces.ts';

/** Enough that DNS servers which take their time hold up nobody for long. */
const AT_ONCE = 16;

/** The same judge; a message of one piece never waits. */
export function judgeInTurn(judge: Judge): Judge {
  const waiting: (() => void)[] = [];
  let judging = 0;

  async function turn(): Promise<void> {
    if (judging < AT_ONCE) judging++;
    // Whoever ends hands its turn on.
    else await new Promise<void>((resolve) => waiting.push(resolve));
  }

  return async (mail) => {
    if (mail.size <= RAW_PIECE_BYTES) return judge(mail);
    await turn();
    try {
      return await judge(mail);
    } finally {
      const next = waiting.shift();
      if (next === undefined) judging--;
      else next();
    }
  };
}
