/** What projects have to do with each other: a domain belongs to one of them, a slug to one file, and mail must not circle. */
import { forwardingLoops } from './forwarding.ts';
import { formatProblem, type Path } from './problem.ts';
import type { ProjectConfig } from './schema.ts';
import { readYaml } from './yaml.ts';

/** A project that wants its slug and its domains. */
export interface Claimant {
  /** Relative to the configuration folder. */
  readonly file: string;
  /** As the operator knows it. */
  readonly shown: string;
  readonly text: string;
  readonly config: ProjectConfig;
}

export interface Conflict {
  /** The file that does not get what it claims. */
  readonly loser: Claimant;
  /** In words, with file, line and column. */
  readonly problem: string;
}

/**
 * Who loses where several files claim the same: all but the holder (the file that has it now, so that a new file takes
 * nothing away from a running one), or where nobody holds it all but the first. Each loser once.
 */
export function conflicts(
  claimants: readonly Claimant[],
  holders: ReadonlyMap<string, string> = new Map(),
): Conflict[] {
  const wanted = Map.groupBy(claimants.flatMap(claimsOf), ({ claim }) => claim);
  const lost = new Map<string, Conflict>();
  for (const [claim, rivals] of wanted) {
    const winner = rivals.find(({ by }) => by.file === holders.get(claim)) ?? rivals[0];
    for (const { by, path } of rivals) {
      if (by === winner?.by || winner === undefined || lost.has(by.file)) continue;
      lost.set(by.file, { loser: by, problem: describe(by, path, winner.by.shown) });
    }
  }
  return [...lost.values()];
}

/** What a project claims, for `holders`: claim to file. */
export function holdings(claimants: Iterable<Pick<Claimant, 'file' | 'config'>>): Map<string, string> {
  return new Map([...claimants].flatMap((by) => claimsOf(by).map(({ claim }) => [claim, by.file] as const)));
}

/**
 * Forwarding that goes round through several projects: a warning, because none of them is wrong by itself and the hop
 * limit ends such mail. (Loops within one project are errors of its file.)
 */
export function loopsAcross(projects: readonly Claimant[]): string[] {
  const owners = new Map(projects.flatMap((by) => Object.keys(by.config.domains).map((name) => [name, by] as const)));
  const domains = projects.flatMap(({ config }) => Object.entries(config.domains));
  const loops = forwardingLoops(new Map(domains.map(([name, { forwarding }]) => [name, forwarding])));
  return loops.flatMap(({ domain, key, way }) => {
    const owner = owners.get(domain);
    if (owner === undefined) return [];
    const message = `forwarding goes round in a loop through other projects: ${way.join(' → ')}`;
    const path = ['domains', domain, 'forwarding', key];
    return [formatProblem(readYaml(owner.text, owner.shown).locate({ path, message }))];
  });
}

function claimsOf<T extends Pick<Claimant, 'config'>>(by: T): { claim: string; path: Path; by: T }[] {
  return [
    { claim: `slug ${by.config.project.slug}`, path: ['project', 'slug'], by },
    ...Object.keys(by.config.domains).map((name) => ({ claim: `domain ${name}`, path: ['domains', name], by })),
  ];
}

function describe({ text, shown }: Claimant, path: Path, winner: string): string {
  const what = path[0] === 'domains' ? `the domain ${path[1]}` : 'this slug';
  return formatProblem(readYaml(text, shown).locate({ path, message: `${what} belongs to ${winner}`, key: true }));
}
