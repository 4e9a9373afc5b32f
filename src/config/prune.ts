/** What is left of a file's data without its errors, so that the rest can be checked in the same run. */
import type { Path } from './problem.ts';

/**
 * A copy of the data without the values at these paths. A list with a wrong entry goes as a whole: what is left of it
 * would mean something else.
 */
export function prune(data: unknown, paths: readonly Path[]): unknown {
  const root = branchesOf(paths);
  return copy(data, root);
}

interface Branch {
  cut: boolean;
  readonly below: Map<string, Branch>;
}

function branchesOf(paths: readonly Path[]): Branch {
  const root: Branch = { cut: false, below: new Map() };
  for (const path of paths) {
    let branch = root;
    for (const key of path) {
      const name = String(key);
      const next = branch.below.get(name) ?? { cut: false, below: new Map() };
      branch.below.set(name, next);
      branch = next;
    }
    branch.cut = true;
  }
  return root;
}

function copy(data: unknown, branch: Branch): unknown {
  if (branch.below.size === 0 || typeof data !== 'object' || data === null) return data;
  const entries = Object.entries(data).flatMap(([key, value]) => {
    const below = branch.below.get(key);
    if (below === undefined) return [[key, value] as const];
    if (below.cut || (Array.isArray(value) && below.below.size > 0)) return [];
    return [[key, copy(value, below)] as const];
  });
  return Object.fromEntries(entries);
}
