/**
 * Who may send as a domain: the tenant whose token and keys its DNS publishes. Each domain of the configuration has a row
 * with its state; DNS that does not answer changes no state, records that break leave a grace before it counts
 * (docs/states.md has the table). Keys are made here, once, and committed before anybody is told their public half.
 */
import { randomBytes } from 'node:crypto';
import type { Domain, Snapshot } from '../config/snapshot.ts';
import { checkDomain, type CheckedRecord } from '../dns/check.ts';
import { domainRecords, type DomainRecord } from '../dns/records.ts';
import type { Resolver } from '../dns/resolver.ts';
import type { Clock } from '../lib/clock.ts';
import { errorFields } from '../lib/errors.ts';
import type { Log } from '../lib/log.ts';
import { generateDkimKey } from '../mail/dkim.ts';
import { allDomains, dkimKeysOf, domainsDue, insertDkimKey, insertDomain, updateDomain } from '../store/domains.ts';
import { OPERATOR } from '../store/revisions.ts';
import { recordEvent } from '../store/events.ts';
import type { Store } from '../store/store.ts';
import type { DomainRow, DomainStatus } from '../store/tables.ts';
import { nextCheck, nextState, selectorOf, type Verdict } from './domain-states.ts';

export interface DomainsOptions {
  readonly store: Store;
  readonly resolver: Resolver;
  readonly clock: Clock;
  readonly log: Log;
  readonly snapshot: () => Snapshot;
}

export interface DomainReport {
  readonly status: DomainStatus;
  readonly records: readonly CheckedRecord[];
}

export interface Domains {
  /** The state of a configured domain; undefined while it is not configured. */
  status(name: string): DomainStatus | undefined;
  /** What a configured domain has to publish, and how each record was last found. */
  report(name: string): Promise<DomainReport | undefined>;
  /** Asks DNS at once, past any cache, and commits what it says. */
  check(name: string): Promise<DomainReport | undefined>;
  /** Makes rows and keys for what the snapshot names and is new. */
  adopt(): Promise<void>;
  /** Checks every domain whose check is due. */
  checkDue(): Promise<void>;
}

/** The domains of the configuration, with the state that the store knows. */
export function createDomains({ store, resolver, clock, log, snapshot }: DomainsOptions): Domains {
  let rows = new Map<string, DomainRow>();
  /** The check of each domain that runs: two at once would both see the same change. */
  const checking = new Map<string, Promise<unknown>>();

  async function refresh(): Promise<void> {
    rows = new Map((await allDomains(store)).map((row) => [key(row.tenant, row.name), row]));
  }

  function rowOf(name: string): { row: DomainRow; domain: Domain } | undefined {
    const domain = snapshot().domains.get(name);
    const row = domain && rows.get(key(domain.project.tenant, name));
    return domain && row && { row, domain };
  }

  async function required({ row, domain }: { row: DomainRow; domain: Domain }): Promise<DomainRecord[]> {
    const { selector: base, algorithms } = domain.config.dkim;
    const wanted = new Set(algorithms.map((algorithm) => selectorOf(base, algorithm)));
    const keys = (await dkimKeysOf(store, row.name)).filter(({ selector }) => wanted.has(selector));
    return domainRecords({
      domain: row.name,
      token: row.token,
      hostname: snapshot().server.server.hostname,
      dkim: keys.map(({ selector, algorithm, public_key: publicKey }) => ({ selector, algorithm, publicKey })),
    });
  }

  async function adopt(): Promise<void> {
    await refresh();
    const now = clock.now();
    for (const domain of snapshot().domains.values()) {
      const { tenant, slug: project } = domain.project;
      const { name } = domain;
      const token = randomBytes(16).toString('hex');
      const keys = await missingKeys(store, domain, now);
      const row = { tenant, name, project, token, status: 'pending' as const, next_check_at: now, created_at: now };
      if (keys.length > 0 || rows.get(key(tenant, name))?.project !== project) {
        await store.write([insertDomain(row), ...keys]);
      }
    }
    await refresh();
  }

  async function check(name: string): Promise<DomainReport | undefined> {
    const before = checking.get(name) ?? Promise.resolve(undefined);
    const now = before.then(() => checkOnce(name));
    const ended = now.then(forget, forget);
    checking.set(name, ended);
    return now;

    function forget(): void {
      if (checking.get(name) === ended) checking.delete(name);
    }
  }

  async function checkOnce(name: string): Promise<DomainReport | undefined> {
    const found = rowOf(name);
    if (found === undefined) return undefined;
    const { row } = found;
    const { records, verdict } = await checkDomain(await required(found), resolver.fresh());
    const status = await commit({ row, verdict, records });
    return { status, records };
  }

  async function commit(check: {
    row: DomainRow;
    verdict: Verdict;
    records: readonly CheckedRecord[];
  }): Promise<DomainStatus> {
    const { row, verdict, records } = check;
    const now = clock.now();
    const { recheck, grace } = snapshot().server.dns;
    const state = nextState(row, verdict, { now, grace });
    const { tenant, name } = row;
    const next = { ...row, ...state, records: JSON.stringify(records), checked_at: now };
    const changed = state.status !== row.status && state.status !== 'pending' ? state.status : undefined;
    await store.write([
      updateDomain({
        tenant,
        name,
        was: row.status,
        ...state,
        records: next.records,
        checked_at: now,
        next_check_at: nextCheck(next, verdict, { now, recheck }),
      }),
      ...(changed === undefined
        ? []
        : [recordEvent({ type: `domain.${changed}`, tenant, at: now, domain: name, data: { records } })]),
    ]);
    rows.set(key(tenant, name), next);
    if (changed !== undefined) log[changed === 'verified' ? 'info' : 'warn'](`domain.${changed}`, { domain: name });
    else log.debug('domain.checked', { domain: name, status: state.status, verdict });
    return state.status;
  }

  return {
    status: (name) => rowOf(name)?.row.status,
    async report(name) {
      const found = rowOf(name);
      if (found === undefined) return undefined;
      const wanted = await required(found);
      const last = readRecords(found.row);
      const records = wanted.map((record): CheckedRecord => {
        // An advised value is merged into what stands there; a required one that has changed since was never seen.
        const seen = last.find(({ purpose, name }) => purpose === record.purpose && name === record.name);
        const current = seen !== undefined && (!record.required || seen.value === record.value);
        return current ? seen : { ...record, status: 'unknown', found: [] };
      });
      return { status: found.row.status, records };
    },
    check,
    adopt,
    async checkDue() {
      await refresh();
      for (const { tenant, name } of await domainsDue(store, clock.now())) {
        if (rowOf(name)?.row.tenant !== tenant) continue;
        await check(name).catch((error: unknown) =>
          log.error('domain.check_failed', { domain: name, ...errorFields(error) }),
        );
      }
    },
  };
}

async function missingKeys(store: Store, { name, config }: Domain, now: number) {
  const known = new Set((await dkimKeysOf(store, name)).map(({ selector }) => selector));
  const missing = config.dkim.algorithms
    .map((algorithm) => ({ algorithm, selector: selectorOf(config.dkim.selector, algorithm) }))
    .filter(({ selector }) => !known.has(selector));
  return Promise.all(
    missing.map(async ({ algorithm, selector }) => {
      const { privateKey, publicKey } = await generateDkimKey(algorithm);
      return insertDkimKey({
        domain: name,
        tenant: OPERATOR,
        selector,
        algorithm,
        private_key: privateKey,
        public_key: publicKey,
        created_at: now,
      });
    }),
  );
}

function readRecords({ records }: DomainRow): readonly CheckedRecord[] {
  // oxlint-disable-next-line typescript/no-unsafe-type-assertion -- nobody but `commit` above writes it
  return records === null ? [] : (JSON.parse(records) as CheckedRecord[]);
}

function key(tenant: string, name: string): string {
  return `${tenant} ${name}`;
}
