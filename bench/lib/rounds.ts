/** A B A B …: both sides see the same machine, warm or tired; a round of each before the first that counts warms both up. */
import type { Samples } from './row.ts';

interface Sides {
  readonly rounds: number;
  /** One round; answers a figure per goal. */
  ours(): Promise<readonly number[]>;
  reference(): Promise<readonly number[]>;
}

/** Runs both sides in turn and sorts their figures by goal. */
export async function alternate({ rounds, ours, reference }: Sides): Promise<Samples[]> {
  const goals = (await ours()).map(() => ({ ours: [] as number[], reference: [] as number[] }));
  await reference();
  for (let round = 0; round < rounds; round++) {
    for (const [at, figure] of (await ours()).entries()) goals[at]?.ours.push(figure);
    for (const [at, figure] of (await reference()).entries()) goals[at]?.reference.push(figure);
  }
  return goals;
}

export function median(figures: readonly number[]): number {
  const sorted = figures.toSorted((one, other) => one - other);
  const half = Math.floor(sorted.length / 2);
  const upper = sorted[half] ?? Number.NaN;
  return sorted.length % 2 === 1 ? upper : (upper + (sorted[half - 1] ?? Number.NaN)) / 2;
}
