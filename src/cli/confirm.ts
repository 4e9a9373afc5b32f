/** Asking a person before something that cannot be undone. */
import { UsageError } from './run.ts';
import type { Terminal } from './terminal.ts';

/**
 * Whether a person agrees; `yes` does so for them, and who does not is told that nothing was changed. Throws UsageError where
 * nobody is there to be asked.
 */
export async function isConfirmed({ ask, complain }: Terminal, question: string, yes: boolean): Promise<boolean> {
  if (yes) return true;
  if (ask === undefined) throw new UsageError(`${question} Nobody is there to answer: add --yes.`);
  const isAgreed = /^y(es)?$/i.test((await ask(`${question} [y/N] `)).trim());
  if (!isAgreed) complain('Nothing was changed.\n');
  return isAgreed;
}
