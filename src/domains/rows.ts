/**
 * The rows of the claims to domains, as this daemon knows them: each claim of the configuration gets one, with its keys,
 * committed before anybody is told of them; what is claimed no more is released.
 */
import { randomBytes } from 'node:crypto';
import { claimKey, type Domain, type Snapshot } from '../config/snapshot.ts';
import type { Clock } from '../lib/clock.ts';
import { environmentOf } from '../lib/ids.ts';
import { dkimKeyNames } from '../store/dkim-keys.ts';
import { allDomains, findDomain, insertDomain, releaseDomain } from '../store/domains.ts';
import { findProject } from '../store/projects.ts';
import { UnmetError, type Store } from '../store/store.ts';
import type { DomainRow } from '../store/tables.ts';
import { hasKeys, missingKeys } from './dkim-keys.ts';
import { isDue } from './states.ts';

export interface DomainRowsOptions {
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
export function createDomainRows({ store, clock, snapshot }: DomainRowsOptions): DomainRows {
  let rows = new Map<string, DomainRow>();
  /** What each claim that has its row and keys was adopted as. */
  const adopted = new Map<string, Domain>();

  /** Adoptions that run: a key takes long to make, and is made once. */
  const adopting = new Map<string, Promise<void>>();

  async function refresh(): Promise<void> {
    const read = (await allDomains(store)).map((row) => [claimKey(row.tenant, row.name), row] as const);
    // What was committed here while it was read is newer.
    const known = rows;
    rows = new Map(read.map(([claim, row]) => [claim, newerOf(row, known.get(claim))]));
  }

  function isAdopted(domain: Domain): boolean {
    const last = adopted.get(keyOf(domain));
    return rows.get(keyOf(domain))?.project === domain.project.slug && last !== undefined && sameKeys(last, domain);
  }

  async function adopt(): Promise<void> {
    await refresh();
    const { claims } = snapshot();
    for (const [claim, row] of rows) if (await isAbandoned(row)) await release(claim, row);
    for (const claim of adopted.keys()) if (!claims.has(claim)) adopted.delete(claim);
    const fresh = [...claims.values()].filter((domain) => !isAdopted(domain));
    if (fresh.length === 0) return;
    const keys = Map.groupBy(await dkimKeyNames(store), ({ domain }) => domain);
    for (const domain of fresh) {
      const isComplete =
        rows.get(keyOf(domain))?.project === domain.project.slug && hasKeys(domain, keys.get(domain.name) ?? []);
      if (isComplete) adopted.set(keyOf(domain), domain);
      else await adoptOne(domain);
    }
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

  function adoptOne(domain: Domain): Promise<void> {
    const claim = keyOf(domain);
    const running = adopting.get(claim) ?? make(domain).finally(() => adopting.delete(claim));
    adopting.set(claim, running);
    return running;
  }

  async function make(domain: Domain): Promise<void> {
    const { tenant, slug: project } = domain.project;
    const { name } = domain;
    const now = clock.now();
    const token = randomBytes(16).toString('hex');
    const row = { tenant, name, project, token, status: 'pending', next_check_at: now, created_at: now } as const;
    for (let tries = 1; ; tries++) {
      const isClaimed = rows.get(keyOf(domain))?.project === project;
      const unit = [...(isClaimed ? [] : [insertDomain(row)]), ...(await missingKeys(store, domain, now))];
      try {
        if (unit.length > 0) await store.write(unit);
        break;
      } catch (error) {
        if (!(error instanceof UnmetError) || tries === MAX_TRIES) throw error;
      }
    }
    const made = await findDomain(store, tenant, name);
    if (made === undefined) return;
    put(made);
    adopted.set(keyOf(domain), domain);
  }

  function put(row: DomainRow): void {
    rows.set(claimKey(row.tenant, row.name), row);
  }

  return {
    get: (domain) => rows.get(keyOf(domain)),
    put,
    async adopted(domain) {
      // The second time where one that ran already was for other keys.
      for (let tries = 0; tries < 2 && !isAdopted(domain); tries++) await adoptOne(domain);
      return rows.get(keyOf(domain));
    },
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

/** Whether both want the same keys. */
function sameKeys(a: Domain, b: Domain): boolean {
  return a === b || JSON.stringify(a.config.dkim) === JSON.stringify(b.config.dkim);
}
