/**
 * What the whole configuration says at one moment: frozen, plain data, swapped as a whole on reload, so that nobody ever
 * sees half of an edit. A request keeps the snapshot that it began with.
 */
import { collectionOf, formsOfDomain, type Collection, type Form, type Project } from './forms.ts';
import { parseDomain } from '../lib/addresses.ts';
import { environmentOf } from '../lib/ids.ts';
import type { DomainConfig, ServerConfig } from './schema.ts';
import { freeze, freezeMap } from './freeze.ts';

export interface Snapshot {
  readonly server: ServerConfig;
  readonly projects: readonly Project[];
  /** By domain name (lower case, A-labels); none that only a test key's project claims. */
  readonly domains: ReadonlyMap<string, Domain>;
  /** Every claim to a domain by `claimKey`, also those of tenants that do not own it. */
  readonly claims: ReadonlyMap<string, Domain>;
  /** Those of the configuration, by name. */
  readonly collections: ReadonlyMap<string, Collection>;
  /**
   * Domains, and collections as `c/<name>`, of project files that are invalid while no revision is in force: their forms
   * answer 503 and their addresses 451 until the file (named in the value) is corrected.
   */
  readonly unavailable: ReadonlyMap<string, string>;
  /** Tenants of whom a project is out of service: what it holds may not even have a name that can be read. */
  readonly unread: ReadonlySet<string>;
  /** What the last reload refused or put off, in the words that the operator reads. */
  readonly problems: readonly string[];
}

export interface Domain {
  readonly name: string;
  readonly project: Project;
  readonly config: DomainConfig;
  readonly forms: ReadonlyMap<string, Form>;
}

export interface SnapshotParts extends Partial<Pick<Snapshot, 'problems' | 'unavailable' | 'unread'>> {
  readonly server: ServerConfig;
  /** Where two claim the same and neither owns it, the first has it. */
  readonly projects: readonly Project[];
  /** By domain: the tenant that owns it, where several claim it. */
  readonly owners?: ReadonlyMap<string, string>;
}

/** Puts the parts together and freezes all of it. */
export function buildSnapshot(parts: SnapshotParts): Snapshot {
  const { server, projects, owners = new Map(), problems = [], unavailable = new Map(), unread = new Set() } = parts;
  const claims = new Map<string, Domain>();
  const domains = new Map<string, Domain>();
  const collections = new Map<string, Collection>();
  for (const project of projects) {
    const { tenant, config } = project;
    for (const [name, domain] of Object.entries(config.domains)) {
      const claim = claimKey(tenant, name);
      if (claims.has(claim)) continue;
      const forms = formsOfDomain({ name, config: domain, project, server });
      const claimed = Object.freeze({ name, project, config: domain, forms });
      claims.set(claim, claimed);
      if (environmentOf(tenant) === 'test') continue;
      if (owners.get(name) === tenant || (!owners.has(name) && !domains.has(name))) domains.set(name, claimed);
    }
    for (const [name, collection] of Object.entries(config.collections)) {
      if (collections.has(name)) continue;
      collections.set(name, collectionOf({ name, tenant, project, config: collection, server }));
    }
  }
  return Object.freeze({
    server: freeze(server),
    projects: Object.freeze(projects.map(freeze)),
    domains: freezeMap(domains),
    claims: freezeMap(claims),
    collections: freezeMap(collections),
    unavailable: freezeMap(unavailable),
    unread,
    problems: Object.freeze([...problems]),
  });
}

/** Names the claim of a tenant to a domain. */
export function claimKey(tenant: string, name: string): string {
  return `${tenant} ${name}`;
}

/** The domain of this name, in whatever case or script it is written. */
export function findDomain(snapshot: Snapshot, name: string): Domain | undefined {
  return snapshot.domains.get(name) ?? snapshot.domains.get(parseDomain(name) ?? '');
}

/** The domain of the configuration that this host (`www.example.com`) is, or is within. */
export function domainOfHost(snapshot: Snapshot, host: string): Domain | undefined {
  for (let name = host; name.includes('.'); name = name.slice(name.indexOf('.') + 1)) {
    const domain = snapshot.domains.get(name);
    if (domain !== undefined) return domain;
  }
  return undefined;
}
