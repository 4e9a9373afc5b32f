/**
 * Who may send as a domain: the tenant whose token and keys its DNS publishes. Each claim of the configuration has a row
 * with its state; DNS that does not answer changes no state, records that break leave a grace before it counts
 * (docs/states.md has the table). Several tenants may claim one domain, but one alone is verified at a time: another takes
 * over, and the holder is pending again, when its own records are right and the holder's no longer are. A change of state is committed once, with what is
 * told of it, however many daemons look.
 */
import { takesMail } from '../config/forwarding.ts';
import { claimKey, type Domain, type Snapshot } from '../config/snapshot.ts';
import { checkDomain, type CheckedRecord, type CheckWorld } from '../dns/check.ts';
import { domainRecords, type DomainRecord } from '../dns/records.ts';
import type { Resolver } from '../dns/resolver.ts';
import type { Clock } from '../lib/clock.ts';
import { errorFields } from '../lib/errors.ts';
import type { Log } from '../lib/log.ts';
import { demoteRivals, domainsDue, findDomain, postponeCheck, updateDomain } from '../store/domains.ts';
import { recordEvent } from '../store/events.ts';
import type { Statement } from '../store/statement.ts';
import { OPERATOR } from '../store/revisions.ts';
import { UnmetError, type Store } from '../store/store.ts';
import type { DomainRow, DomainStatus } from '../store/tables.ts';
import { claimOwner, publishedKeys } from './domain-keys.ts';
import { lettersAbout, type Letter } from './domain-letters.ts';
import { createDomainRows } from './domain-rows.ts';
import { nextCheck, nextState, whenPublished, type Verdict } from './domain-states.ts';
import { advanceKeys, rotateKeys } from './key-rotation.ts';

export interface DomainsOptions {
  readonly store: Store;
  readonly resolver: Resolver;
  readonly clock: Clock;
  readonly log: Log;
  readonly snapshot: () => Snapshot;
  /** The statements that send a letter of the server itself. */
  readonly letter: (letter: Letter) => readonly Statement[];
  /** A state has changed, which is committed: another may hold the domain now, and there may be mail to send. Never rejects. */
  readonly onTransition: () => Promise<void>;
  /** Reads the MTA-STS policy that senders find. */
  readonly fetchPolicy: CheckWorld['fetchPolicy'];
}

export interface DomainReport {
  readonly name: string;
  readonly project: string;
  readonly status: DomainStatus;
  readonly records: readonly CheckedRecord[];
  /** ms */
  readonly checkedAt: number | null;
  readonly verifiedAt: number | null;
}

/** Where no tenant is named, the one that holds the domain is meant. */
export interface Domains {
  /** The state of a configured domain; undefined while it is not configured. */
  status(name: string): DomainStatus | undefined;
  /** What a configured domain has to publish, and how each record was last found. */
  report(name: string, tenant?: string): Promise<DomainReport | undefined>;
  /** Asks DNS at once, past any cache, and commits what it says. */
  check(name: string, tenant?: string): Promise<DomainReport | undefined>;
  /** Makes the next DKIM keys, unless they are made; each signs once a check has seen its record. */
  rotateKeys(name: string, tenant?: string): Promise<DomainReport | undefined>;
  /** Makes rows and keys for what the snapshot names and is new, and notes what it names no more. */
  adopt(): Promise<void>;
  /** Checks every domain whose check is due. */
  checkDue(): Promise<void>;
}

/** Checks that are due: one domain whose DNS is slow keeps no other waiting. */
const SIDE_BY_SIDE = 8;

interface Claim {
  readonly domain: Domain;
  readonly row: DomainRow;
}

/** The domains of the configuration, with the state that the store knows. */
export function createDomains(options: DomainsOptions): Domains {
  const { store, resolver, clock, log, snapshot, letter, onTransition, fetchPolicy } = options;
  const rows = createDomainRows({ store, clock, snapshot });
  /** The check of each domain that runs: two at once would both see the same change. */
  const checking = new Map<string, Promise<unknown>>();

  function domainOf(name: string, tenant: string | undefined): Domain | undefined {
    const { domains, claims } = snapshot();
    return tenant === undefined ? domains.get(name) : claims.get(claimKey(tenant, name));
  }

  async function claimOf(name: string, tenant: string | undefined): Promise<Claim | undefined> {
    const domain = domainOf(name, tenant);
    if (domain === undefined) return undefined;
    const row = await rows.adopted(domain);
    return row && { domain, row };
  }

  async function required({ row, domain }: Claim): Promise<DomainRecord[]> {
    const { server, tls } = snapshot().server;
    return domainRecords({
      domain: row.name,
      token: row.token,
      hostname: server.hostname,
      dkim: await publishedKeys(store, claimOwner(domain)),
      inbound: takesMail(domain.config) ? (tls.mode === 'off' ? 'clear' : 'encrypted') : undefined,
    });
  }

  /** One check of a name at a time, whoever claims it. */
  function check(name: string, tenant?: string): Promise<DomainReport | undefined> {
    const before = checking.get(name) ?? Promise.resolve(undefined);
    const now = before.then(() => checkOnce(name, tenant));
    const ended = now.then(forget, forget);
    checking.set(name, ended);
    return now;

    function forget(): void {
      if (checking.get(name) === ended) checking.delete(name);
    }
  }

  async function checkOnce(name: string, tenant: string | undefined): Promise<DomainReport | undefined> {
    const claim = await claimOf(name, tenant);
    if (claim === undefined) return undefined;
    const { server } = snapshot().server;
    const fresh = resolver.fresh();
    const owner = claimOwner(claim.domain);
    // The operator's keys for the host name seal all that is forwarded, whether or not it is a domain of a project.
    const isHost = name === server.hostname && owner.tenant === OPERATOR;
    const keySince = await advanceKeys({ store, clock, log, resolver: fresh }, { ...owner, isHost });
    const { records, verdict } = await checkDomain(name, await required(claim), {
      resolver: fresh,
      hostname: server.hostname,
      publicIps: server.public_ips,
      fetchPolicy,
    });
    const isHeld = verdict === 'ok' && claim.row.status !== 'verified' && (await rivalHolds(claim));
    const row = await commit({ claim, verdict, records, isHeld, keySince });
    return row && reportOf(row, records);
  }

  function rivalsOf({ name, project }: Domain): Domain[] {
    return [...snapshot().claims.values()].filter(
      (other) => other.name === name && other.project.tenant !== project.tenant,
    );
  }

  /** Whether another tenant's claim is verified, and still is when DNS is asked now. */
  async function rivalHolds({ domain }: Claim): Promise<boolean> {
    for (const { name, project } of rivalsOf(domain)) {
      const { tenant } = project;
      if ((await claimOf(name, tenant))?.row.status !== 'verified') continue;
      if ((await checkOnce(name, tenant))?.status === 'verified') return true;
    }
    return false;
  }

  /** Their state may have changed with that of this claim. */
  async function readRivals(domain: Domain): Promise<void> {
    for (const { name, project } of rivalsOf(domain)) {
      const row = await findDomain(store, project.tenant, name);
      if (row !== undefined) rows.put(row);
    }
  }

  async function commit({ claim, verdict, records, isHeld, keySince }: Found): Promise<DomainRow | undefined> {
    const { domain, row } = claim;
    const now = clock.now();
    const { recheck, grace } = snapshot().server.dns;
    const { status, verified_at, broken_at } = row;
    const state = isHeld ? { status, verified_at, broken_at } : nextState(row, verdict, { now, grace });
    const { tenant, name } = row;
    const changed = state.status !== status && state.status !== 'pending' ? state.status : undefined;
    const next = { ...row, ...state, records: JSON.stringify(records), checked_at: now };
    const next_check_at = nextCheck(next, verdict, { now, recheck, keySince });
    const checked = { tenant, name, ...state, records: next.records, checked_at: now, next_check_at };
    const told = changed === undefined ? [] : await tellings({ domain, status: changed, records, now });
    try {
      await store.write([
        updateDomain({ ...checked, was: status }, 1),
        ...(changed === 'verified' ? [demoteRivals({ tenant, name })] : []),
        ...told,
      ]);
    } catch (error) {
      if (!(error instanceof UnmetError)) throw error;
      // Another daemon was faster, and has told of it; or the claim is gone.
      const found = await findDomain(store, tenant, name);
      if (found !== undefined) rows.put(found);
      return found;
    }
    rows.put({ ...next, next_check_at });
    if (changed === undefined) log.debug('domain.checked', { domain: name, status: state.status, verdict });
    else {
      log[changed === 'verified' ? 'info' : 'warn'](`domain.${changed}`, { domain: name, tenant });
      if (changed === 'verified') await readRivals(domain);
      await onTransition();
    }
    return next;
  }

  /** Takes one after the other off the list. */
  async function checkEach(due: Pick<DomainRow, 'tenant' | 'name'>[]): Promise<void> {
    for (let row = due.shift(); row !== undefined; row = due.shift()) {
      const { tenant, name } = row;
      if (domainOf(name, tenant) === undefined) {
        await store.write([postponeCheck({ tenant, name, until: clock.now() + snapshot().server.dns.recheck })]);
        continue;
      }
      await check(name, tenant).catch((error: unknown) =>
        log.error('domain.check_failed', { domain: name, ...errorFields(error) }),
      );
    }
  }

  /** The event of a change, and the letters where it is a bad one. */
  async function tellings({ domain, status, records, now }: Change): Promise<readonly Statement[]> {
    const { tenant } = domain.project;
    const event = recordEvent({ type: `domain.${status}`, tenant, at: now, domain: domain.name, data: { records } });
    if (status === 'verified') return [event];
    const letters = await lettersAbout({ domain, status, records }, store, snapshot());
    return [event, ...letters.flatMap(letter)];
  }

  async function report(name: string, tenant?: string): Promise<DomainReport | undefined> {
    const claim = await claimOf(name, tenant);
    if (claim === undefined) return undefined;
    const wanted = await required(claim);
    return reportOf(claim.row, lastSeen(wanted, readRecords(claim.row)));
  }

  return {
    status: (name) => {
      const domain = domainOf(name, undefined);
      return domain && rows.get(domain)?.status;
    },
    report,
    check,
    async rotateKeys(name, tenant) {
      const claim = await claimOf(name, tenant);
      if (claim === undefined) return undefined;
      const { domain, row } = claim;
      await rotateKeys({ store, clock, log }, claimOwner(domain));
      const now = clock.now();
      const soon = whenPublished(now, { now, recheck: snapshot().server.dns.recheck });
      const until = Math.min(row.next_check_at, soon);
      await store.write([postponeCheck({ tenant: row.tenant, name: row.name, until })]);
      return report(name, tenant);
    },
    adopt: () => rows.adopt(),
    async checkDue() {
      await rows.adopt();
      const due = await domainsDue(store, clock.now());
      await Promise.all(Array.from({ length: SIDE_BY_SIDE }, () => checkEach(due)));
    },
  };
}

interface Found {
  readonly claim: Claim;
  readonly verdict: Verdict;
  readonly records: readonly CheckedRecord[];
  /** Another tenant has the domain: whatever DNS says, this claim waits. */
  readonly isHeld: boolean;
  /** Since when a key waits for its record, ms. */
  readonly keySince: number | undefined;
}

interface Change {
  readonly domain: Domain;
  readonly status: Exclude<DomainStatus, 'pending'>;
  readonly records: readonly CheckedRecord[];
  readonly now: number;
}

function reportOf(row: DomainRow, records: readonly CheckedRecord[]): DomainReport {
  const { name, project, status, checked_at: checkedAt, verified_at: verifiedAt } = row;
  return { name, project, status, records, checkedAt, verifiedAt };
}

/** An advised value is merged into what stands there; a required one that has changed since was never seen. */
function lastSeen(wanted: readonly DomainRecord[], last: readonly CheckedRecord[]): CheckedRecord[] {
  return wanted.map((record) => {
    const seen = last.find(({ purpose, name }) => purpose === record.purpose && name === record.name);
    const current = seen !== undefined && (!record.required || seen.value === record.value);
    return current
      ? { ...seen, required: record.required, ...noteOf(record) }
      : { ...record, status: 'unknown', found: [] };
  });
}

function noteOf({ note }: DomainRecord): Pick<DomainRecord, 'note'> {
  return note === undefined ? {} : { note };
}

function readRecords({ records }: DomainRow): readonly CheckedRecord[] {
  // oxlint-disable-next-line typescript/no-unsafe-type-assertion -- nobody but `commit` above writes it
  return records === null ? [] : (JSON.parse(records) as CheckedRecord[]);
}
