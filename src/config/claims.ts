/**
 * What projects have to do with each other: a domain or collection belongs to one of them, a slug to one file, and mail must
 * not circle.
 */
import { forwardingLoops } from './forwarding.ts';
import { formatProblem, type Path } from './problem.ts';
import type { ProjectConfig } from './schema.ts';
import { readYaml } from './yaml.ts';

/** One tenant's claim to a domain. */
export interface DomainClaim {
  readonly name: string;
  readonly tenant: string;
  readonly source: 'file' | 'push' | 'api';
}

/** What DNS said of a claim, and when it was made; times in ms. */
export interface Standing {
  readonly name: string;
  readonly tenant: string;
  readonly status: 'pending' | 'verified' | 'degraded' | 'failed';
  readonly verified_at: number | null;
  readonly created_at: number;
}

/** Domains that several tenants claim. */
export function contested(claims: readonly DomainClaim[]): string[] {
  const tenants = Map.groupBy(claims, ({ name }) => name);
  return [...tenants].flatMap(([name, by]) => (by.some(({ tenant }) => tenant !== by[0]?.tenant) ? [name] : []));
}

/**
 * Who holds each contested domain: the tenant whose token its DNS publishes (verified before degraded before failed, the
 * longer verified first); while there is none, the one with a file on disk, then the older claim.
 */
export function holdersOf(claims: readonly DomainClaim[], standings: readonly Standing[]): Map<string, string> {
  const known = new Map(standings.map((standing) => [`${standing.tenant} ${standing.name}`, standing]));
  const holders = new Map<string, string>();
  for (const [name, rivals] of Map.groupBy(claims, (claim) => claim.name)) {
    const ranked = rivals
      .map((claim) => ({ claim, order: orderOf(claim, known.get(`${claim.tenant} ${name}`)) }))
      .sort((a, b) => compare(a.order, b.order));
    const [first] = ranked;
    if (first !== undefined) holders.set(name, first.claim.tenant);
  }
  return holders;
}

const RANKS = { verified: 0, degraded: 1, failed: 2, pending: 3 } as const;

function orderOf({ source }: DomainClaim, standing: Standing | undefined): number[] {
  const rank = RANKS[standing?.status ?? 'pending'];
  const since = rank === RANKS.pending ? (source === 'file' ? 0 : 1) : (standing?.verified_at ?? Infinity);
  return [rank, since, standing?.created_at ?? Infinity];
}

function compare(a: readonly number[], b: readonly number[]): number {
  const at = a.findIndex((value, i) => value !== b[i]);
  return at < 0 ? 0 : (a[at] ?? 0) - (b[at] ?? 0);
}

/** A project that wants its slug, its domains and its collections. */
export interface Claimant {
  /** Relative to the configuration folder. */
  readonly file: string;
  /** As the operator knows it. */
  readonly shown: string;
  readonly text: string;
  readonly config: ProjectConfig;
}

/** Who has a claim (`slug x`, `domain x`, `collection x`) so far. */
export interface Prior {
  /** The file that has it. */
  readonly holders?: ReadonlyMap<string, string>;
  /** What no file may have, and what has it. */
  readonly taken?: ReadonlyMap<string, string>;
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
  { holders = new Map(), taken = new Map() }: Prior = {},
): Conflict[] {
  const wanted = Map.groupBy(claimants.flatMap(claimsOf), ({ claim }) => claim);
  const lost = new Map<string, Conflict>();
  for (const [claim, rivals] of wanted) {
    const winner = (rivals.find(({ by }) => by.file === holders.get(claim)) ?? rivals[0])?.by;
    const owner = taken.get(claim) ?? winner?.shown;
    for (const { by, path } of rivals) {
      if (owner === undefined || (by === winner && !taken.has(claim)) || lost.has(by.file)) continue;
      lost.set(by.file, { loser: by, problem: describe(by, path, owner) });
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

/** The claims of a project, for `taken`. */
export function claimsIn(config: ProjectConfig): string[] {
  return claimsOf({ config }).map(({ claim }) => claim);
}

function claimsOf<T extends Pick<Claimant, 'config'>>(by: T): { claim: string; path: Path; by: T }[] {
  return [
    { claim: `slug ${by.config.project.slug}`, path: ['project', 'slug'], by },
    ...Object.keys(by.config.domains).map((name) => ({ claim: `domain ${name}`, path: ['domains', name], by })),
    ...Object.keys(by.config.collections).map((name) => ({
      claim: `collection ${name}`,
      path: ['collections', name],
      by,
    })),
  ];
}

const KINDS: Readonly<Record<string, string>> = { domains: 'domain', collections: 'collection' };

function describe({ text, shown }: Claimant, path: Path, winner: string): string {
  const kind = KINDS[path[0] ?? ''];
  const what = kind === undefined ? 'this slug' : `the ${kind} ${path[1]}`;
  return formatProblem(readYaml(text, shown).locate({ path, message: `${what} belongs to ${winner}`, key: true }));
}
