/**
 * Who may send as a domain: its owner, the first tenant whose token and keys its DNS publishes. Each claim of the
 * configuration has a row with its state; DNS that does not answer changes no state, records that break leave a grace before
 * it counts (docs/states.md has the table). The claims of other tenants stay pending until the owner removes the domain, has
 * been failed for longer than `dns.release`, or the operator moves it. A change of state is committed once, with its event and
 * notices, however many daemons check.
 */
import { randomBytes } from 'node:crypto';
import type { Snapshot, Domain, Project } from '../config/snapshot.ts';
import { type CheckedRecord, checkDomain, type CheckWorld } from '../dns/check.ts';
import { parseAddress } from '../lib/addresses.ts';
import { OPERATOR, findTenant } from '../store/tenants.ts';
import type { AccountMail } from '../accounts/consent.ts';
import { type Store, writeIfMet } from '../store/store.ts';
import { tlsModeOf } from '../config/schema-server.ts';
import { domainRecords, type DomainRecord } from '../dns/records.ts';
import type { Resolver } from '../dns/resolver.ts';
import { Turns } from '../lib/batch.ts';
import type { Clock } from '../lib/clock.ts';
import { environmentOf, claimId } from '../lib/ids.ts';
import { errorFields } from '../lib/errors.ts';
import type { Log } from '../lib/log.ts';
import {
  domainOwners,
  endLapsedOwnership,
  endOtherOwnership,
  findDomain,
  hastenCheck,
  lockDomain,
  ownDomain,
  touchOtherOwners,
  updateDomain,
  allDomains,
  insertDomain,
  releaseDomain,
} from '../store/domains.ts';
import { recordEvent } from '../store/events.ts';
import type { Statement } from '../store/statement.ts';
import type { DkimKeyRow, DomainRow, DomainStatus } from '../store/tables.ts';
import { claimOwner, hasKeys, keysOfOwner, missingKeys, publishedKeys } from './dkim-keys.ts';
import { nextCheck, nextState, whenPublished, isDue } from './states.ts';
import { advanceKeys, rotateKeys } from './rotation.ts';
import { dkimKeyNames } from '../store/dkim-keys.ts';
import { findProject } from '../store/projects.ts';

/** A change of state, and what DNS holds. */
interface Change {
  readonly name: string;
  readonly tenant: string;
  readonly project: Project;
  readonly status: 'verified' | 'degraded' | 'failed';
  readonly records: readonly CheckedRecord[];
}

/** One mail to the owner (`project.owner`, else the tenant's address) and one to the operator, who may be the same. */
async function mailAbout(change: Change, store: Store, { server }: Snapshot): Promise<AccountMail[]> {
  const { tenant, project } = change;
  const owner = project.config.project.owner ?? (await findTenant(store, tenant))?.email;
  const { operator } = server.server;
  const words = wordsFor(change, server.dns.grace);
  const isOther = owner !== undefined && owner !== operator && parseAddress(owner) !== undefined;
  return [...(isOther ? [{ ...words, tenant, to: owner }] : []), { ...words, tenant: OPERATOR, to: operator }];
}

const HOUR = 3_600_000;

function wordsFor({ name, status, records }: Change, grace: number): Pick<AccountMail, 'subject' | 'text'> {
  const wrong = records.filter((record) => record.required && record.status !== 'ok').map(describe);
  const list = `These DNS records are missing or wrong:\n\n${wrong.join('\n\n')}\n`;
  return status === 'degraded'
    ? {
        subject: `The DNS records of ${name} are no longer correct`,
        text: `${list}\nNothing is lost: ${name} keeps working for ${Math.round(grace / HOUR)} hours from now. Correct the records within that time. After that, mail from ${name} is held until they are correct.\n`,
      }
    : {
        subject: `Mail from ${name} is held: its DNS records are wrong`,
        text: `${list}\nThe forms of ${name} still accept submissions, and nothing is lost: the mail is held and is sent as soon as the records are correct.\n`,
      };
}

function describe({ type, name, value, found, problem }: CheckedRecord): string {
  const shown = found.length === 0 ? '' : `\n  Found:    ${found.join('\n            ')}`;
  return `  ${type} ${name}\n  Expected: ${value}${shown}${problem === undefined ? '' : `\n  ${problem}`}`;
}

export interface DomainsOptions {
  readonly store: Store;
  readonly resolver: Resolver;
  readonly clock: Clock;
  readonly log: Log;
  readonly snapshot: () => Snapshot;
  /** The statements that send a mail of the server itself to the owner of an account. */
  readonly accountMail: (mail: AccountMail) => readonly Statement[];
  /** A state has changed, which is committed: another may own the domain now, and there may be mail to send. Never rejects. */
  readonly onTransition: () => Promise<void>;
  /** Reads the MTA-STS policy that senders find. */
  readonly fetchPolicy: CheckWorld['fetchPolicy'];
}

/** Where no tenant is named, the one that the domain is served for is meant. */
export interface Domains {
  /** The state of a configured domain; undefined while it is not configured. */
  status(name: string): DomainStatus | undefined;
  /** What a configured domain has to publish, and how each record was last found. */
  report(name: string, tenant?: string): Promise<DomainReport | undefined>;
  /** Asks DNS at once, past any cache, and commits what it says. `onChecked` gets each record as soon as it is looked up. */
  check(name: string, tenant?: string, onChecked?: CheckWorld['onChecked']): Promise<DomainReport | undefined>;
  /** Makes the next DKIM keys, unless they are made; each signs once a check has seen its record. */
  rotateKeys(name: string, tenant?: string): Promise<DomainReport | undefined>;
  /** Makes the tenant the owner, whoever was, and checks its records; undefined where it has no such domain. */
  move(name: string, tenant: string): Promise<DomainReport | undefined>;
  /** Makes rows and keys for what the snapshot names and is new, and releases what it names no more. */
  adopt(): Promise<void>;
  /** Checks every domain whose check is due, the longest overdue first. */
  checkDue(): Promise<void>;
}

/** Checks that one look at what is due begins. */
const MAX_DUE = 50;
/** Of these: one domain whose DNS is slow keeps no other waiting. */
const SIDE_BY_SIDE = 8;

interface Claim {
  readonly domain: Domain;
  readonly row: DomainRow;
}

/** So often is a selector chosen anew that another tenant took meanwhile. */
const MAX_TRIES = 3;

/** The domains of the configuration, with the state that the store knows. */
export function createDomains(options: DomainsOptions): Domains {
  const { store, resolver, clock, log, snapshot, accountMail, onTransition, fetchPolicy } = options;
  /** Of each claim, as it was last read or written. */
  let rows = new Map<string, DomainRow>();
  /** Of checks, by domain: two at once would both see the same change. */
  const checks = new Turns();
  /** By claim: a key takes long to make, and is made once. */
  const adoptions = new Turns();

  async function adopt(): Promise<void> {
    const read = (await allDomains(store)).map((row) => [claimId(row.tenant, row.name), row] as const);
    // What was committed here while it was read is newer.
    const known = rows;
    rows = new Map(read.map(([claim, row]) => [claim, newerOf(row, known.get(claim))]));
    for (const [claim, { tenant, name, project }] of rows) {
      if (!(await isAbandoned({ tenant, name, project }))) continue;
      await store.write([releaseDomain({ tenant, name, project })]);
      rows.delete(claim);
    }
    const keys = Map.groupBy(await dkimKeyNames(store), ({ domain }) => domain);
    for (const domain of snapshot().claims.values())
      if (!isClaimed(domain) || !hasKeys(domain, keys.get(domain.name) ?? [])) await adopted(domain);
  }

  function isClaimed(domain: Domain): boolean {
    return rows.get(keyOf(domain))?.project === domain.project.slug;
  }

  /** Whether its project claims the domain no more. Of another revision than the active one the snapshot says nothing. */
  async function isAbandoned({ tenant, name, project: slug }: Claimed): Promise<boolean> {
    const { claims, unavailable, projects } = snapshot();
    if (slug === '' || claims.has(claimId(tenant, name)) || unavailable.has(name)) return false;
    const project = await findProject(store, tenant, slug);
    return (
      project === undefined ||
      projects.some((one) => one.tenant === tenant && one.slug === slug && one.revision === project.revision)
    );
  }

  /** The row of a claim, made where there is none. */
  async function adopted(domain: Domain): Promise<DomainRow | undefined> {
    await adoptions.run(keyOf(domain), () => make(domain));
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
    await readAgain({ tenant, name });
  }

  function domainOf(name: string, tenant: string | undefined): Domain | undefined {
    const { domains, claims } = snapshot();
    return tenant === undefined ? domains.get(name) : claims.get(claimId(tenant, name));
  }

  async function claimOf(name: string, tenant: string | undefined): Promise<Claim | undefined> {
    const domain = domainOf(name, tenant);
    if (domain === undefined) return undefined;
    const row = isClaimed(domain) ? rows.get(keyOf(domain)) : await adopted(domain);
    return row && { domain, row };
  }

  function required({ row, domain }: Claim, keys: readonly DkimKeyRow[]): DomainRecord[] {
    const { server, tls } = snapshot().server;
    return domainRecords({
      domain: row.name,
      token: row.token,
      hostname: server.hostname,
      dkim: publishedKeys(keys),
      inbound: domain.takesMail ? (tlsModeOf({ server, tls }) === 'off' ? 'clear' : 'encrypted') : undefined,
    });
  }

  /** One check of a name at a time, whoever claims it. */
  function check(
    name: string,
    tenant?: string,
    onChecked?: CheckWorld['onChecked'],
  ): Promise<DomainReport | undefined> {
    return checks.run(name, () => checkOnce(name, tenant, onChecked));
  }

  async function checkOnce(
    name: string,
    tenant: string | undefined,
    onChecked: CheckWorld['onChecked'],
  ): Promise<DomainReport | undefined> {
    const claim = await claimOf(name, tenant);
    if (claim === undefined) return undefined;
    // Nothing of a test partition leaves, and its domains are nobody's in DNS.
    if (environmentOf(claim.row.tenant) === 'test') return report(name, tenant);
    const seen = await look(claim, onChecked);
    const row = await commit(claim, seen);
    return row && reportOf(row, seen.records, await keysOfOwner(store, claimOwner(claim.domain)));
  }

  /** What DNS says now, and the keys moved as far as it lets them. */
  async function look(claim: Claim, onChecked: CheckWorld['onChecked']) {
    const { server } = snapshot().server;
    const { name } = claim.domain;
    const fresh = resolver.fresh();
    const owner = claimOwner(claim.domain);
    // The operator's keys for the host name seal all that is forwarded, whether or not it is a domain of a project.
    const isHost = name === server.hostname && owner.tenant === OPERATOR;
    const keySince = await advanceKeys({ store, clock, log, resolver: fresh }, { ...owner, isHost });
    const { hostname, public_ips: publicIps } = server;
    const world = { resolver: fresh, hostname, publicIps, fetchPolicy, onChecked };
    return { ...(await checkDomain(name, required(claim, await keysOfOwner(store, owner)), world)), keySince };
  }

  /** Since when the records of an owner are broken whose ownership has ended, ms. */
  function lapsedBefore(): number {
    const { grace, release } = snapshot().server.dns;
    return clock.now() - grace - release;
  }

  async function isOwnedByOther({ tenant, name }: DomainRow): Promise<boolean> {
    const owner = (await domainOwners(store, [name], lapsedBefore())).get(name);
    return owner !== undefined && owner !== tenant;
  }

  async function reportOf(
    row: DomainRow,
    records: readonly CheckedRecord[],
    keys: readonly DkimKeyRow[],
  ): Promise<DomainReport> {
    const { name, project, status, checked_at: checkedAt, verified_at: verifiedAt } = row;
    const reason = status === 'pending' && (await isOwnedByOther(row)) ? OWNED_BY_OTHER : null;
    return { name, project, status, reason, records, keys, checkedAt, verifiedAt };
  }

  /** Writes what was seen. */
  async function commit(claim: Claim, seen: Awaited<ReturnType<typeof look>>): Promise<DomainRow | undefined> {
    const { domain, row } = claim;
    const { tenant, name, status: was, verified_at, broken_at, next_check_at: due } = row;
    const { verdict, records, keySince } = seen;
    const now = clock.now();
    const { recheck, grace } = snapshot().server.dns;
    const isBarred = was === 'pending' && verdict === 'ok' && (await isOwnedByOther(row));
    const state = isBarred ? { status: was, verified_at, broken_at } : nextState(row, verdict, { now, grace });
    const checked = { ...state, records: JSON.stringify(records), checked_at: now };
    const next_check_at = nextCheck({ ...row, ...state }, verdict, { now, recheck, keySince });
    const update = updateDomain({ tenant, name, ...checked, next_check_at, was, due }, 1);
    const changed = state.status !== was && state.status !== 'pending' ? state.status : undefined;
    const change = changed && { name, tenant, project: domain.project, status: changed, records };
    const notices = change ? await noticesOf(change) : [];
    const claimed = { tenant, name };
    if (was === 'pending' && changed !== undefined) {
      const lapsed = endLapsedOwnership({ ...claimed, before: lapsedBefore() });
      const touched = touchOtherOwners(claimed, 0);
      const written = await writeIfMet(store, [lockDomain(claimed), lapsed, update, touched, ...notices]);
      // Another daemon was faster, or another account; or the claim is gone.
      if (written === undefined) return readAgain(row);
      for (const other of written[1].rows) {
        log.warn('domain.released', { domain: name, tenant: other.tenant });
        await readAgain({ tenant: other.tenant, name });
      }
    } else if ((await writeIfMet(store, [update, ...notices])) === undefined) return readAgain(row);
    const next = { ...row, ...checked, next_check_at };
    rows.set(claimId(tenant, name), next);
    if (changed === undefined) {
      log.debug('domain.checked', { domain: name, status: state.status, verdict });
      return next;
    }
    log[changed === 'verified' ? 'info' : 'warn'](`domain.${changed}`, { domain: name, tenant });
    await onTransition();
    return next;
  }

  async function readAgain({ tenant, name }: Omit<Claimed, 'project'>): Promise<DomainRow | undefined> {
    const row = await findDomain(store, tenant, name);
    if (row !== undefined) rows.set(claimId(tenant, name), row);
    return row;
  }

  /** Takes one after the other off the list. */
  async function checkEach(due: { domain: Domain }[]): Promise<void> {
    for (let next = due.shift(); next !== undefined; next = due.shift()) {
      const { name, project } = next.domain;
      await check(name, project.tenant).catch((error: unknown) =>
        log.error('domain.check_failed', { domain: name, ...errorFields(error) }),
      );
    }
  }

  /** The event of a change, and the notices where it is a bad one. */
  async function noticesOf(change: Change): Promise<readonly Statement[]> {
    const { name: domain, tenant, status, records } = change;
    const event = recordEvent({ type: `domain.${status}`, tenant, at: clock.now(), domain, data: { records } });
    if (status === 'verified') return [event];
    return [event, ...(await mailAbout(change, store, snapshot())).flatMap(accountMail)];
  }

  async function report(name: string, tenant?: string): Promise<DomainReport | undefined> {
    const claim = await claimOf(name, tenant);
    if (claim === undefined) return undefined;
    const keys = await keysOfOwner(store, claimOwner(claim.domain));
    return reportOf(claim.row, lastSeen(required(claim, keys), readRecords(claim.row)), keys);
  }

  return {
    status(name) {
      const domain = domainOf(name, undefined);
      return domain && rows.get(keyOf(domain))?.status;
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
    async move(name, tenant) {
      const claim = environmentOf(tenant) === 'live' ? await claimOf(name, tenant) : undefined;
      if (claim === undefined) return undefined;
      const whose = { tenant, name };
      await store.write([lockDomain(whose), endOtherOwnership(whose), ownDomain({ ...whose, at: clock.now() })]);
      log.warn('domain.moved', { domain: name, tenant });
      await adopt();
      await onTransition();
      return check(name, tenant);
    },
    adopt,
    async checkDue() {
      await adopt();
      const now = clock.now();
      const claims = [...snapshot().claims.values()].flatMap((domain) => {
        const row = environmentOf(domain.project.tenant) === 'live' ? rows.get(keyOf(domain)) : undefined;
        return row !== undefined && isDue(row, now) ? [{ domain, at: row.next_check_at }] : [];
      });
      const due = claims.sort((a, b) => a.at - b.at).slice(0, MAX_DUE);
      await Promise.all(Array.from({ length: SIDE_BY_SIDE }, () => checkEach(due)));
    },
  };
}

type Claimed = Pick<DomainRow, 'tenant' | 'name' | 'project'>;

const OWNED_BY_OTHER = 'owned by another account';

/** The state of a domain, what it has to publish, and how each record was last found. */
export interface DomainReport {
  readonly name: string;
  readonly project: string;
  readonly status: DomainStatus;
  /** Why it stays pending, whatever its records say. */
  readonly reason: string | null;
  readonly records: readonly CheckedRecord[];
  /** Its DKIM keys, in every state: what signs first, then by age. */
  readonly keys: readonly DkimKeyRow[];
  /** ms */
  readonly checkedAt: number | null;
  readonly verifiedAt: number | null;
}

/** An advised value is merged into what is there; a required one that has changed since was never seen. */
function lastSeen(wanted: readonly DomainRecord[], last: readonly CheckedRecord[]): CheckedRecord[] {
  return wanted.map((record) => {
    const seen = last.find(({ purpose, name }) => purpose === record.purpose && name === record.name);
    if (seen === undefined || (record.required && seen.value !== record.value))
      return { ...record, status: 'unknown', found: [] };
    const { note } = record;
    return { ...seen, required: record.required, ...(note !== undefined && { note }) };
  });
}

function readRecords({ records }: DomainRow): readonly CheckedRecord[] {
  // oxlint-disable-next-line typescript/no-unsafe-type-assertion -- nobody but the check of `domains` writes it
  return records === null ? [] : (JSON.parse(records) as CheckedRecord[]);
}

function newerOf(read: DomainRow, known: DomainRow = read): DomainRow {
  return (known.checked_at ?? 0) > (read.checked_at ?? 0) ? known : read;
}

function keyOf({ name, project }: Domain): string {
  return claimId(project.tenant, name);
}
