/**
 * Who may send as a domain: the tenant whose token and keys its DNS publishes. Each claim of the configuration has a row
 * with its state; DNS that does not answer changes no state, records that break leave a grace before it counts
 * (docs/states.md has the table). Several tenants may claim one domain, but one alone is verified at a time: another takes
 * over, and the holder is pending again and told why, when its own records are right and the holder's no longer are. A change
 * of state is committed once, with what is told of it, however many daemons look.
 */
import { takesMail } from '../config/forwarding.ts';
import { claimKey, type Domain, type Snapshot } from '../config/snapshot.ts';
import { checkDomain, type CheckedRecord, type CheckWorld } from '../dns/check.ts';
import { domainRecords, type DomainRecord } from '../dns/records.ts';
import type { Resolver } from '../dns/resolver.ts';
import type { Clock } from '../lib/clock.ts';
import { environmentOf } from '../lib/ids.ts';
import { errorFields } from '../lib/errors.ts';
import type { Log } from '../lib/log.ts';
import { awardDomain, findDomain, hastenCheck, rivalClaims, touchRivals, updateDomain } from '../store/domains.ts';
import { recordEvent } from '../store/events.ts';
import type { Statement } from '../store/statement.ts';
import { OPERATOR } from '../store/revisions.ts';
import { UnmetError, type Store } from '../store/store.ts';
import type { DomainRow, DomainStatus } from '../store/tables.ts';
import { claimOwner, publishedKeys } from './dkim-keys.ts';
import type { Letter } from '../accounts/consent.ts';
import { lettersAbout, type Broken } from './notices.ts';
import { createDomainRows } from './rows.ts';
import { nextCheck, nextState, whenPublished, type Verdict } from './states.ts';
import { advanceKeys, rotateKeys } from './rotation.ts';

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

/** Checks that one look at what is due begins. */
const MOST_DUE = 50;
/** Of these: one domain whose DNS is slow keeps no other waiting. */
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
    // Nothing of a test partition leaves, and its domains are nobody's in DNS.
    if (environmentOf(claim.row.tenant) === 'test') return report(name, tenant);
    const seen = await look(claim);
    const isNew = seen.verdict === 'ok' && claim.row.status !== 'verified';
    const row = await commit(claim, seen, isNew ? await losersTo(claim) : []);
    return row && reportOf(row, seen.records);
  }

  /** What DNS says now, and the keys moved as far as it lets them. */
  async function look(claim: Claim): Promise<Look> {
    const { server } = snapshot().server;
    const { name } = claim.domain;
    const fresh = resolver.fresh();
    const owner = claimOwner(claim.domain);
    // The operator's keys for the host name seal all that is forwarded, whether or not it is a domain of a project.
    const isHost = name === server.hostname && owner.tenant === OPERATOR;
    const keySince = await advanceKeys({ store, clock, log, resolver: fresh }, { ...owner, isHost });
    const { hostname, public_ips: publicIps } = server;
    const world = { resolver: fresh, hostname, publicIps, fetchPolicy };
    return { ...(await checkDomain(name, await required(claim), world)), keySince };
  }

  /** Whose claims to the domain end when this one is verified, as they are found now; undefined where one of them holds it yet. */
  async function losersTo({ domain: { name, project } }: Claim): Promise<Loser[] | undefined> {
    const losers: Loser[] = [];
    for (const row of await rivalClaims(store, project.tenant, name)) {
      // Of one whose file is broken nothing is known.
      const rival = await claimOf(name, row.tenant);
      const seen = rival && (await look(rival));
      if (seen?.verdict === 'ok' || (seen?.verdict === 'unknown' && row.status === 'verified')) return undefined;
      losers.push({ row, domain: rival?.domain, records: seen?.records });
    }
    return losers;
  }

  /** Writes what was seen; without `losers` another tenant has the domain, and the claim waits, whatever DNS says. */
  async function commit(claim: Claim, seen: Look, losers?: readonly Loser[]): Promise<DomainRow | undefined> {
    const { domain, row } = claim;
    const { tenant, name, status: was, verified_at, broken_at, next_check_at: due } = row;
    const { verdict, records, keySince } = seen;
    const now = clock.now();
    const { recheck, grace } = snapshot().server.dns;
    const state = losers ? nextState(row, verdict, { now, grace }) : { status: was, verified_at, broken_at };
    const checked = { ...state, records: JSON.stringify(records), checked_at: now };
    const next_check_at = nextCheck({ ...row, ...state }, verdict, { now, recheck, keySince });
    const update = updateDomain({ tenant, name, ...checked, next_check_at, was, due }, 1);
    const changed = state.status !== was && state.status !== 'pending' ? state.status : undefined;
    const change = changed && { name, tenant, project: domain.project, status: changed, records };
    try {
      await store.write([
        ...(changed === 'verified' ? await endings({ tenant, name }, losers ?? []) : []),
        update,
        ...(change ? await tellings(change) : []),
      ]);
    } catch (error) {
      if (!(error instanceof UnmetError)) throw error;
      // Another daemon was faster, and has told of it; or the claim is gone.
      for (const loser of losers ?? []) await readAgain(loser.row);
      return readAgain(row);
    }
    const next = { ...row, ...checked, next_check_at };
    rows.put(next);
    if (changed === undefined) {
      log.debug('domain.checked', { domain: name, status: state.status, verdict });
      return next;
    }
    log[changed === 'verified' ? 'info' : 'warn'](`domain.${changed}`, { domain: name, tenant });
    for (const loser of losers ?? []) {
      log.warn('domain.failed', { domain: name, tenant: loser.row.tenant, reason: TAKEN_OVER });
      await readAgain(loser.row);
    }
    await onTransition();
    return next;
  }

  async function readAgain({ tenant, name }: DomainRow): Promise<DomainRow | undefined> {
    const row = await findDomain(store, tenant, name);
    if (row !== undefined) rows.put(row);
    return row;
  }

  /** What ends the claims of the losers, and tells them; unmet where another one than these has the domain by then. */
  async function endings(award: Pick<DomainRow, 'tenant' | 'name'>, losers: readonly Loser[]): Promise<Statement[]> {
    const unit = [awardDomain(award)];
    for (const { row, domain, records = [] } of losers) {
      const { tenant, name, status: was, next_check_at } = row;
      const ended = { status: 'pending', verified_at: null, broken_at: null, checked_at: clock.now() } as const;
      const found = domain === undefined ? row.records : JSON.stringify(records);
      unit.push(
        updateDomain({ tenant, name, ...ended, records: found, next_check_at, was, due: next_check_at }, 1),
        ...(await tellings({ name, tenant, project: domain?.project, status: 'lost', records })),
      );
    }
    return [...unit, touchRivals(award, 0)];
  }

  /** Takes one after the other off the list. */
  async function checkEach(due: Domain[]): Promise<void> {
    for (let domain = due.shift(); domain !== undefined; domain = due.shift()) {
      const { name, project } = domain;
      await check(name, project.tenant).catch((error: unknown) =>
        log.error('domain.check_failed', { domain: name, ...errorFields(error) }),
      );
    }
  }

  /** The event of a change, and the letters where it is a bad one. */
  async function tellings({ status, ...change }: Change): Promise<readonly Statement[]> {
    const { name: domain, tenant, records } = change;
    const at = clock.now();
    if (status === 'verified') return [recordEvent({ type: 'domain.verified', tenant, at, domain, data: { records } })];
    const [type, data] =
      status === 'lost'
        ? (['domain.failed', { records, reason: TAKEN_OVER }] as const)
        : ([`domain.${status}`, { records }] as const);
    const letters = await lettersAbout({ ...change, status }, store, snapshot());
    return [recordEvent({ type, tenant, at, domain, data }), ...letters.flatMap(letter)];
  }

  async function report(name: string, tenant?: string): Promise<DomainReport | undefined> {
    const claim = await claimOf(name, tenant);
    if (claim === undefined) return undefined;
    return lastReport(claim.row, await required(claim));
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
      const at = whenPublished(now, { now, recheck: snapshot().server.dns.recheck });
      // A check that runs knows nothing of these keys: another one follows it.
      await store.write([hastenCheck({ tenant: row.tenant, name: row.name, at })]);
      return report(name, tenant);
    },
    adopt: () => rows.adopt(),
    async checkDue() {
      await rows.adopt();
      const due = rows.due().slice(0, MOST_DUE);
      await Promise.all(Array.from({ length: SIDE_BY_SIDE }, () => checkEach(due)));
    },
  };
}

interface Look {
  readonly verdict: Verdict;
  readonly records: readonly CheckedRecord[];
  /** Since when a key waits for its record, ms. */
  readonly keySince: number | undefined;
}

/** Another tenant's claim that ends, and what was seen of it; its domain is undefined where its file is broken. */
interface Loser {
  readonly row: DomainRow;
  readonly domain: Domain | undefined;
  readonly records: readonly CheckedRecord[] | undefined;
}

type Change = Omit<Broken, 'status'> & { readonly status: Broken['status'] | 'verified' };

const TAKEN_OVER = 'another account has proved that the domain is its own';

// What somebody is shown of a domain: its state, what it has to publish, and how each record was last found.

export interface DomainReport {
  readonly name: string;
  readonly project: string;
  readonly status: DomainStatus;
  readonly records: readonly CheckedRecord[];
  /** ms */
  readonly checkedAt: number | null;
  readonly verifiedAt: number | null;
}

/** The report of a domain whose records are as they were just found. */
function reportOf(row: DomainRow, records: readonly CheckedRecord[]): DomainReport {
  const { name, project, status, checked_at: checkedAt, verified_at: verifiedAt } = row;
  return { name, project, status, records, checkedAt, verifiedAt };
}

/** The report from what the last check found of the records that are wanted now. */
function lastReport(row: DomainRow, wanted: readonly DomainRecord[]): DomainReport {
  return reportOf(row, lastSeen(wanted, readRecords(row)));
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
  // oxlint-disable-next-line typescript/no-unsafe-type-assertion -- nobody but the check of `domains` writes it
  return records === null ? [] : (JSON.parse(records) as CheckedRecord[]);
}
