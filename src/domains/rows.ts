/**
 * The rows of the claims to domains, as this daemon knows them: each claim of the configuration gets one, with its keys,
 * committed before anybody is told of them; what is claimed no more is released.
 */
import { randomBytes } from 'node:crypto';
import { claimKey, type Domain, type Snapshot } from '../config/snapshot.ts';
import { Turns } from '../lib/batch.ts';
import type { Clock } from '../lib/clock.ts';
import { environmentOf } from '../lib/ids.ts';
import { dkimKeyNames } from '../store/dkim-keys.ts';
import { allDomains, findDomain, insertDomain, releaseDomain } from '../store/domains.ts';
import { findProject } from '../store/projects.ts';
import { type Store, writeIfMet } from '../store/store.ts';
import type { DomainRow } from '../store/tables.ts';
import { hasKeys, missingKeys } from './dkim-keys.ts';
import { isDue } from './states.ts';

interface RowsParts {
  readonly store: Store;
  readonly clock: Clock;
  readonly snapshot: () => Snapshot;
}

export interface DomainRows {
  /** The row of a claim as it was last read or written; undefined before it is adopted. */
  get(domain: Domain): DomainRow | undefined;
  /** Notes what a row is now. */
  put(row: DomainRow): void;
  /** The row of a claim, made where there is none. */
  adopted(domain: Domain): Promise<DomainRow | undefined>;
  /** Reads all rows again, adopts what the snapshot claims and is new, and releases what it claims no more. */
  adopt(): Promise<void>;
  /** The claims whose check is due, the longest overdue first. */
  due(): Domain[];
}

/** So often is a selector chosen anew that another tenant took meanwhile. */
const MAX_TRIES = 3;

/** Rows that have not been read yet. */
export function createDomainRows({ store, clock, snapshot }: RowsParts): DomainRows {
  let rows = new Map<string, DomainRow>();
  /** By claim: a key takes long to make, and is made once. */
  const turns = new Turns();

  async function adopt(): Promise<void> {
    const read = (await allDomains(store)).map((row) => [claimKey(row.tenant, row.name), row] as const);
    // What was committed here while it was read is newer.
    const known = rows;
    rows = new Map(read.map(([claim, row]) => [claim, newerOf(row, known.get(claim))]));
    for (const [claim, row] of rows) if (await isAbandoned(row)) await release(claim, row);
    const keys = Map.groupBy(await dkimKeyNames(store), ({ domain }) => domain);
    for (const domain of snapshot().claims.values())
      if (!isClaimed(domain) || !hasKeys(domain, keys.get(domain.name) ?? [])) await adopted(domain);
  }

  function isClaimed(domain: Domain): boolean {
    return rows.get(keyOf(domain))?.project === domain.project.slug;
  }

  /** Whether its project claims the domain no more. Of another revision than the one in force the snapshot says nothing. */
  async function isAbandoned({ tenant, name, project: slug }: DomainRow): Promise<boolean> {
    const { claims, unavailable, projects } = snapshot();
    if (slug === '' || claims.has(claimKey(tenant, name)) || unavailable.has(name)) return false;
    const project = await findProject(store, tenant, slug);
    return (
      project === undefined ||
      projects.some((one) => one.tenant === tenant && one.slug === slug && one.revision === project.revision)
    );
  }

  async function release(claim: string, { tenant, name, project }: DomainRow): Promise<void> {
    await store.write([releaseDomain({ tenant, name, project })]);
    rows.delete(claim);
  }

  async function adopted(domain: Domain): Promise<DomainRow | undefined> {
    await turns.run(keyOf(domain), () => make(domain));
    return rows.get(keyOf(domain));
  }

  async function make(domain: Domain): Promise<void> {
    const { tenant, slug: project } = domain.project;
    const { name } = domain;
    const now = clock.now();
    const token = randomBytes(16).toString('hex');
    const row = { tenant, name, project, token, status: 'pending', next_check_at: now, created_at: now } as const;
    for (let tries = 1; ; tries++) {
      const unit = [...(isClaimed(domain) ? [] : [insertDomain(row)]), ...(await missingKeys(store, domain, now))];
      if (unit.length === 0) return;
      // The last time it fails as it does.
      if (tries === MAX_TRIES) await store.write(unit);
      else if ((await writeIfMet(store, unit)) === undefined) continue;
      break;
    }
    const made = await findDomain(store, tenant, name);
    if (made !== undefined) put(made);
  }

  function put(row: DomainRow): void {
    rows.set(claimKey(row.tenant, row.name), row);
  }

  return {
    get: (domain) => rows.get(keyOf(domain)),
    put,
    adopted,
    adopt,
    due() {
      const now = clock.now();
      const live = [...snapshot().claims.values()].filter(({ project }) => environmentOf(project.tenant) === 'live');
      const due = live.flatMap((domain) => {
        const row = rows.get(keyOf(domain));
        return row !== undefined && isDue(row, now) ? [{ domain, at: row.next_check_at }] : [];
      });
      return due.sort((a, b) => a.at - b.at).map(({ domain }) => domain);
    },
  };
}

function newerOf(read: DomainRow, known: DomainRow = read): DomainRow {
  return (known.checked_at ?? 0) > (read.checked_at ?? 0) ? known : read;
}

function keyOf({ name, project }: Domain): string {
  return claimKey(project.tenant, name);
}
