/** How many daemons, processors and connections it takes: more of what the busiest minute used up, until it does not. */
import { RESOURCES, simulate, type Day, type Inputs, type Resource, type Size } from './day.ts';

const MAX_ROUNDS = 20;
const MAX_GROWTH = 2;

export interface Sized {
  readonly size: Size;
  readonly day: Day;
  /** What is used most, for its size; and what no size of these helps. */
  readonly limit: Resource;
  readonly short: readonly Resource[];
}

/** Which part of the size each resource grows with. */
const GROWS = {
  'main threads': 'daemons',
  'delivery threads': 'daemons',
  "daemons' processors": 'daemons',
  'transactions that accept': 'daemons',
  "database's processors": 'databaseCores',
  connections: 'concurrency',
  'connections to one destination': 'perDestination',
} as const satisfies Partial<Record<Resource, keyof Size>>;

/** The size for so many messages a day, from the smallest that makes sense. */
export function findSize(perDay: number, smallest: Size, inputs: Inputs): Sized {
  let size = smallest;
  for (let round = 0; round < MAX_ROUNDS; round++) {
    const day = simulate(perDay, size, inputs);
    const next = fitted(size, smallest, { day, inputs });
    // What waited for one resource is not to be seen at the others; where nothing waits, the size is right at once.
    if (Object.values(GROWS).every((what) => next[what] === size[what]) || round === MAX_ROUNDS - 1)
      return judged(size, day, inputs);
    size = next;
  }
  throw new Error('no size fits');
}

/** As much of each as the busiest minute needs, and no more than MAX_GROWTH times as much as there was. */
function fitted(size: Size, smallest: Size, { day, inputs }: { day: Day; inputs: Inputs }): Size {
  const next = { ...smallest };
  for (const [resource, what] of Object.entries(GROWS)) {
    const part = day.busiest[resource as Resource] / inputs.assumptions.utilization;
    next[what] = Math.max(next[what], Math.ceil(size[what] * Math.min(part, MAX_GROWTH)));
  }
  return next;
}

function judged(size: Size, day: Day, inputs: Inputs): Sized {
  const parts = RESOURCES.map((resource) => [resource, day.busiest[resource]] as const);
  const [limit] = parts.reduce((one, other) => (other[1] > one[1] ? other : one));
  const short = parts.filter(([, part]) => part > inputs.assumptions.utilization).map(([resource]) => resource);
  return { size, day, limit, short };
}
