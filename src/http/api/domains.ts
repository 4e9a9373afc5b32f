/** Domains of a tenant: what each has to publish, and what DNS says of it. */
import type { z } from 'zod';
import { accountIdOf, mayTouch, type Principal, readableTenants } from '../../accounts/principal.ts';
import { editDomains, type PushOutcome, type PushParts } from '../../accounts/projects.ts';
import { claimKey, type Domain, type Snapshot } from '../../config/snapshot.ts';
import * as contract from '../../contract/domains.ts';
import { dkimRecord } from '../../dns/records.ts';
import { adviceOn, claimOwner, hostOwner, keysOfOwner } from '../../domains/dkim-keys.ts';
import type { DomainReport, Domains } from '../../domains/domains.ts';
import type { HostKeys } from '../../domains/host-key.ts';
import { parseDomain } from '../../lib/addresses.ts';
import { isoTime } from '../../lib/clock.ts';
import { environmentOf } from '../../lib/ids.ts';
import { findProject } from '../../store/projects.ts';
import type { Store } from '../../store/store.ts';
import type { DkimKeyRow } from '../../store/tables.ts';
import { json } from '../answer.ts';
import { type Refusal, refuse } from '../errors.ts';
import { overLimit, rateLimited } from '../context.ts';
import { invalidAt } from './issues.ts';
import { refusalOfPush, unknownProject } from './projects.ts';
import { type BodyOf, implement, type Outcome, type Route, timeOf } from './route.ts';

export interface DomainsParts extends PushParts {
  readonly domains: Pick<Domains, 'report' | 'check' | 'rotateKeys' | 'move'>;
}

type Shown = Outcome<z.output<typeof contract.domain>>;

/** `/domains…` */
export function domainsRoutes(parts: DomainsParts): Route[] {
  const { store, clock, snapshot, domains } = parts;
  /** The tenant's claim to a name as somebody wrote it, or why the principal cannot have it. */
  function find(principal: Principal, text: string): Domain | Refusal {
    const name = parseDomain(text);
    const claim = name === undefined ? undefined : snapshot().claims.get(claimKey(principal.tenant.id, name));
    if (name !== undefined && !mayTouch(principal, name)) return refuse('AUTH_DOMAIN_NOT_ALLOWED');
    return (
      claim ?? refuse('DOMAIN_NOT_FOUND', { message: `There is no domain ${text.slice(0, 253)} in this account.` })
    );
  }

  async function shown(claim: Domain, report: DomainReport | undefined): Promise<z.output<typeof contract.domain>> {
    return shownDomain(claim, report, await keysOfOwner(store, claimOwner(claim)));
  }

  async function answerFor(claim: Domain, report: DomainReport | undefined): Promise<Shown> {
    return json(await shown(claim, report));
  }

  async function show(claim: Domain): Promise<Shown> {
    return answerFor(claim, await domains.report(claim.name, claim.project.tenant));
  }

  async function add(principal: Principal, text: string, slug: string): Promise<Shown> {
    const name = parseDomain(text.trim());
    const tenant = principal.tenant.id;
    if (name === undefined) return invalidAt('domain', 'must be a domain name such as example.com');
    if (!mayTouch(principal, name)) return refuse('AUTH_DOMAIN_NOT_ALLOWED');
    const known = snapshot().claims.get(claimKey(tenant, name));
    if (known?.project.slug === slug) return show(known);
    const outcome = await editDomains({ tenant, slug }, { op: 'add', domain: name }, parts);
    if (outcome === undefined) {
      const isLive = (await findProject(store, accountIdOf(principal), slug)) !== undefined;
      return principal.environment === 'test' && isLive ? refuse('AUTH_TEST_KEY') : unknownProject(slug);
    }
    const refused = refusalOf(outcome);
    if (refused !== undefined) return refused;
    const claim = find(principal, name);
    return 'config' in claim ? show(claim) : claim;
  }

  async function end(claim: Domain): Promise<Shown> {
    const { name, project } = claim;
    const report = await domains.report(name, project.tenant);
    const outcome = await editDomains(project, { op: 'remove', domain: name }, parts);
    return (outcome && refusalOf(outcome)) ?? answerFor(claim, report);
  }

  /** What kept the project's document from being changed. */
  function refusalOf(outcome: PushOutcome): Refusal | undefined {
    if (outcome.kind === 'done') return undefined;
    if (outcome.kind === 'over-limit') return overLimit(outcome, snapshot().server);
    if (outcome.kind === 'too-often') return rateLimited(outcome.verdict, clock.now());
    const [problem] = outcome.kind === 'conflict' || outcome.kind === 'invalid' ? outcome.problems : [];
    return problem === undefined ? refusalOfPush(outcome) : refuse('CONFLICT', { message: sentence(problem.message) });
  }

  return implement(contract.domains, {
    async list({ principal, query: { limit, cursor = '' } }) {
      const tenants = readableTenants(principal);
      const all = [...snapshot().claims.values()]
        .filter(({ name, project }) => tenants.includes(project.tenant) && mayTouch(principal, name))
        .sort((a, b) => (placeOf(a) < placeOf(b) ? -1 : 1));
      const rest = all.filter((claim) => placeOf(claim) > cursor);
      const page = rest.slice(0, limit);
      const found = await Promise.all(
        page.map(async (claim) => shown(claim, await domains.report(claim.name, claim.project.tenant))),
      );
      const [last] = page.slice(-1);
      const next_cursor = rest.length > limit && last !== undefined ? placeOf(last) : null;
      return json({ domains: found, count: all.length, next_cursor });
    },
    create: ({ principal, body: { domain, project } }) => add(principal, domain, project),
    async show({ principal, params: { domain } }) {
      const claim = find(principal, domain);
      return 'config' in claim ? show(claim) : claim;
    },
    async verify({ principal, params: { domain } }) {
      const claim = find(principal, domain);
      if (!('config' in claim)) return claim;
      return answerFor(claim, await domains.check(claim.name, claim.project.tenant));
    },
    async rotateDkim({ principal, params: { domain } }) {
      const claim = find(principal, domain);
      if (!('config' in claim)) return claim;
      return answerFor(claim, await domains.rotateKeys(claim.name, claim.project.tenant));
    },
    async remove({ principal, params: { domain } }) {
      const claim = find(principal, domain);
      return 'config' in claim ? end(claim) : claim;
    },
  });
}

/** Its place in the list: a live domain stands before one of the same name that a test key made. */
function placeOf({ name, project }: Domain): string {
  return environmentOf(project.tenant) === 'test' ? `${name}:test` : name;
}

function sentence(text: string): string {
  return `${text.charAt(0).toUpperCase()}${text.slice(1)}.`;
}

/** Without a report it was taken out of service in this very moment. */
function shownDomain(
  { name, project }: Domain,
  report: DomainReport | undefined,
  keys: readonly DkimKeyRow[],
): z.output<typeof contract.domain> {
  const status = report?.status ?? 'pending';
  return {
    domain: name,
    project: project.slug,
    environment: environmentOf(project.tenant),
    verified: status === 'verified' || status === 'degraded',
    status,
    reason: report?.reason ?? null,
    checked_at: timeOf(report?.checkedAt),
    verified_at: timeOf(report?.verifiedAt),
    records: (report?.records ?? []).map(({ purpose, type, name: at, value, required, status: found, ...rest }) => ({
      purpose,
      type,
      name: at,
      value,
      required,
      status: found,
      found: [...rest.found],
      ...(rest.problem === undefined ? {} : { problem: rest.problem }),
      ...(rest.note === undefined ? {} : { note: rest.note }),
    })),
    keys: shownKeys(keys),
  };
}

// The server's own DKIM keys: what they have to publish, and their rotation.

export interface HostKeysParts {
  readonly store: Store;
  readonly snapshot: () => Snapshot;
  readonly hostKeys: Pick<HostKeys, 'rotate' | 'check'>;
}

/** `/admin/host-keys…` */
export function hostKeysRoutes({ store, snapshot, hostKeys }: HostKeysParts): Route[] {
  async function show(): Promise<Outcome<BodyOf<typeof contract.hostKeys.list>>> {
    const { hostname } = snapshot().server.server;
    return json({ hostname, keys: shownKeys(await keysOfOwner(store, hostOwner(hostname))) });
  }

  return implement(contract.hostKeys, {
    list: show,
    async rotate() {
      if (await hostKeys.rotate()) return show();
      const { hostname } = snapshot().server.server;
      const message = `${hostname} is a domain of a project of the operator’s: rotate its keys as those of any domain.`;
      return refuse('CONFLICT', { message });
    },
    async verify() {
      await hostKeys.check();
      return show();
    },
  });
}

// A DKIM key as the API shows it.

/** As the API shows them. */
function shownKeys(keys: readonly DkimKeyRow[]): z.output<typeof contract.domain>['keys'] {
  return keys.map((key) => {
    const { selector, algorithm, state, since, keep_until, public_key: publicKey } = key;
    const { type, name, value } = dkimRecord(key.domain, { selector, algorithm, publicKey });
    return {
      selector,
      algorithm,
      state,
      since: isoTime(since),
      keep_until: keep_until === null ? null : isoTime(keep_until),
      record: { type, name, value },
      advice: adviceOn(key),
    };
  });
}

export interface AdminDomainsParts {
  readonly domains: Pick<Domains, 'report' | 'check' | 'rotateKeys' | 'move'>;
}

/** `/admin/domains/{domain}/move` */
export function adminDomainsRoutes({ domains }: AdminDomainsParts): Route[] {
  return implement(contract.adminDomains, {
    async move({ params: { domain: text }, body: { tenant } }) {
      const domain = parseDomain(text);
      const report = domain === undefined ? undefined : await domains.move(domain, tenant);
      if (domain !== undefined && report !== undefined) {
        return json({ domain, tenant, project: report.project, status: report.status });
      }
      const message = `The account ${tenant.slice(0, 60)} has no domain ${text.slice(0, 253)}. It must add the domain to a project first.`;
      return refuse('DOMAIN_NOT_FOUND', { message });
    },
  });
}
