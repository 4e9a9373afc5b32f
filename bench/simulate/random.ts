/** Random numbers of several distributions. */
import { randomFrom } from '../../test/harness/random.ts';

/** Random numbers that are the same for the same seed. */
export interface Random {
  /** From 0 up to 1. */
  uniform(): number;
  /** With mean 0 and deviation 1. */
  normal(): number;
  /** How many of something that happens so often on average; normal where that is often. */
  poisson(mean: number): number;
}

export function createRandom(seed: number): Random {
  const uniform = randomFrom(seed);

  function normal(): number {
    return Math.sqrt(-2 * Math.log(1 - uniform())) * Math.cos(2 * Math.PI * uniform());
  }

  function poisson(mean: number): number {
    if (mean > 30) return Math.max(0, Math.round(mean + Math.sqrt(mean) * normal()));
    let events = 0;
    for (let left = Math.exp(-mean), product = uniform(); product > left; product *= uniform()) events++;
    return events;
  }

  return { uniform, normal, poisson };
}
