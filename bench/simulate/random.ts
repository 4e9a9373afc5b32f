/** Random numbers that are the same for the same seed. */
export interface Random {
  /** From 0 up to 1. */
  uniform(): number;
  /** With mean 0 and deviation 1. */
  normal(): number;
  /** How many of something that happens so often on average; normal where that is often. */
  poisson(mean: number): number;
}

/** Marsaglia's xorshift of 32 bits. */
export function createRandom(seed: number): Random {
  let state = seed | 0 || 1;

  function uniform(): number {
    state ^= state << 13;
    state ^= state >>> 17;
    state ^= state << 5;
    return (state >>> 0) / 2 ** 32;
  }

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
