/** Domains of a tenant: what each has to publish, and what DNS says of it; and the DKIM keys of the server's own name. */
import { accountIdOf, mayTouch, type Principal, readableTenants } from '../../accounts/principal.ts';
import { authorFor, editDomains, type PushOutcome } from '../../accounts/projects.ts';
import type { Domain } from '../../config/snapshot.ts';
import * as contract from '../../contract/domains.ts';
import { dkimRecord } from '../../dns/records.ts';
import { adviceOn, hostOwner, keysOfOwner } from '../../domains/dkim-keys.ts';
import type { DomainReport } from '../../domains/domains.ts';
import { parseAddress, parseDomain } from '../../lib/addresses.ts';
import { errorFields } from '../../lib/errors.ts';
import { environmentOf, claimId } from '../../lib/ids.ts';
import { zoneText } from '../../lib/zone-file.ts';
import { countClaims, listClaims } from '../../store/domains.ts';
import { findProject } from '../../store/projects.ts';
import { OPERATOR } from '../../store/tenants.ts';
import type { DkimKeyRow } from '../../store/tables.ts';
import { type Answer, prefersLines, type Refusal, refuse } from '../answer.ts';
import { header } from '../context.ts';
import {
  invalidAt,
  type DataOf,
  implement,
  success,
  notFound,
  type Outcome,
  pageOf,
  type Route,
  type Services,
  type Source,
  writerOf,
} from './route.ts';
import { startOf } from './analytics.ts';
import { refusalOfPush } from './projects.ts';

const DAY = 86_400_000;

type Shown = Outcome<DataOf<typeof contract.domains.show>>;

/** `/domains…` */
export function domainsRoutes(services: Services): Route[] {
  const { store, clock, log, snapshot, domains } = services;

  /** The tenant's claim to a name as somebody wrote it, or why the principal cannot have it. */
  function find(principal: Principal, text: string): Domain | Refusal {
    const name = parseDomain(text);
    const claim = name === undefined ? undefined : snapshot().claims.get(claimId(principal.tenant.id, name));
    if (name !== undefined && !mayTouch(principal, name)) return refuse('AUTH_DOMAIN_NOT_ALLOWED');
    return (
      claim ?? refuse('DOMAIN_NOT_FOUND', { message: `There is no domain ${text.slice(0, 253)} in this account.` })
    );
  }

  /** Does it to the domain that the path names, and shows the report that it answers. */
  async function withDomain(
    { principal, params: { domain } }: { principal: Principal; params: { domain: string } },
    act: (name: string, tenant: string, claim: Domain) => Promise<DomainReport | Refusal | undefined>,
  ): Promise<Shown> {
    const claim = find(principal, domain);
    if (!('config' in claim)) return claim;
    const report = await act(claim.name, claim.project.tenant, claim);
    return report !== undefined && 'kind' in report ? report : success(shown(claim, report));
  }

  /** Without a report it was taken out of service in this very moment. */
  function shown({ name, project }: Domain, report: DomainReport | undefined) {
    const { status = 'pending', reason, checkedAt, verifiedAt, records = [], keys = [] } = report ?? {};
    return {
      domain: name,
      project: project.slug,
      environment: environmentOf(project.tenant),
      verified: status === 'verified' || status === 'degraded',
      status,
      reason,
      checked_at: checkedAt,
      verified_at: verifiedAt,
      records,
      keys: shownKeys(keys),
    };
  }

  /** The records as they are looked up, and the domain as it is then. A client that goes does not end the check. */
  function linesOfCheck(claim: Domain): AsyncIterable<string> {
    const { name, project } = claim;
    let isGone = false;
    return new ReadableStream<string>({
      async start(lines) {
        function send(line: Source<typeof contract.checkLine>): void {
          if (!isGone) lines.enqueue(`${JSON.stringify(writeLine(line))}\n`);
        }
        try {
          const report = await domains.check(name, project.tenant, (record) => send({ record }));
          send({ domain: shown(claim, report) });
          if (!isGone) lines.close();
        } catch (error) {
          log.error('domain.check_failed', { domain: name, ...errorFields(error) });
          if (!isGone) lines.error(error);
        }
      },
      cancel() {
        isGone = true;
      },
    });
  }

  /** What kept the project's document from being changed. */
  function refusalOf(outcome: PushOutcome | undefined): Refusal | undefined {
    if (outcome === undefined || outcome.kind === 'done') return undefined;
    const [problem] = outcome.kind === 'conflict' || outcome.kind === 'invalid' ? outcome.problems : [];
    if (problem === undefined) return refusalOfPush(outcome, snapshot(), clock.now());
    const { message } = problem;
    return refuse('CONFLICT', { message: `${message.charAt(0).toUpperCase()}${message.slice(1)}.` });
  }

  return implement(contract.domains, {
    async list({ principal, query: { limit, cursor = '' } }) {
      const tenants = readableTenants(principal);
      const all = [...snapshot().claims.values()]
        .filter(({ name, project }) => tenants.includes(project.tenant) && mayTouch(principal, name))
        .sort((a, b) => (placeOf(a) < placeOf(b) ? -1 : 1));
      const { page, next_cursor } = pageOf(
        all.filter((claim) => placeOf(claim) > cursor),
        limit,
        placeOf,
      );
      const found = await Promise.all(
        page.map(async (claim) => shown(claim, await domains.report(claim.name, claim.project.tenant))),
      );
      return success({ domains: found, count: all.length, next_cursor });
    },
    async create({ principal, body: { domain: text, project: slug } }) {
      const name = parseDomain(text.trim());
      const tenant = principal.tenant.id;
      if (name === undefined) return invalidAt('domain', 'must be a domain name such as example.com');
      if (!mayTouch(principal, name)) return refuse('AUTH_DOMAIN_NOT_ALLOWED');
      if (snapshot().claims.get(claimId(tenant, name))?.project.slug !== slug) {
        const outcome = await editDomains(
          { tenant, slug, author: authorFor(principal) },
          { op: 'add', domain: name },
          services,
        );
        if (outcome === undefined) {
          const isLive = (await findProject(store, accountIdOf(principal), slug)) !== undefined;
          return principal.environment === 'test' && isLive ? refuse('AUTH_TEST_KEY') : notFound('project', slug);
        }
        const refused = refusalOf(outcome);
        if (refused !== undefined) return refused;
      }
      return withDomain({ principal, params: { domain: name } }, domains.report);
    },
    show: (call) => withDomain(call, domains.report),
    async zone({ principal, params }) {
      const claim = find(principal, params.domain);
      if (!('config' in claim)) return claim;
      const { name, project } = claim;
      const report = await domains.report(name, project.tenant);
      const zone = zoneText({ domain: name, records: report?.records ?? [] });
      return success({ domain: name, filename: `${name}.zone`, zone });
    },
    forwarding({ principal, params }) {
      const claim = find(principal, params.domain);
      if (!('config' in claim)) return claim;
      const forwarding = Object.entries(claim.config.forwarding).map(([address, route]) => {
        return typeof route === 'string'
          ? { address, action: route, to: [] }
          : { address, action: 'forward' as const, to: route };
      });
      return success({ domain: claim.name, forwarding });
    },
    async explain({ principal, params, query: { address: text } }) {
      const claim = find(principal, params.domain);
      if (!('config' in claim)) return claim;
      const { name, project } = claim;
      const address = parseAddress(text.includes('@') ? text : `${text}@${name}`);
      if (address?.domain !== name) return invalidAt('address', `must be an address at ${name}`);
      const explained = await services.explain(address.address, project.tenant);
      if (explained === undefined) {
        return refuse('CONFLICT', {
          message: `This account cannot receive mail for ${name}: another account owns it.`,
        });
      }
      return success({ address: address.address, steps: explained.steps });
    },
    async verify(call) {
      const { principal, params, context } = call;
      if (!prefersLines(header(context.request, 'accept')))
        return withDomain(call, (name, tenant) => domains.check(name, tenant));
      const claim = find(principal, params.domain);
      return 'config' in claim ? { ...LINES, stream: linesOfCheck(claim) } : claim;
    },
    async reports({ principal, params: { domain: text }, query }) {
      const name = parseDomain(text);
      const isHost = principal.tenant.id === OPERATOR && name === snapshot().server.server.hostname;
      const claim = find(principal, text);
      if (!('config' in claim) && !isHost) return claim;
      const now = clock.now();
      const last = startOf('day', (query.to ?? now + 1) - 1);
      const from = startOf('day', query.from ?? startOf('day', last, 1 - contract.DEFAULT_REPORT_DAYS));
      const to = startOf('day', last, 1);
      if (from > last) return invalidAt('from', 'must be before to');
      if (to - from > contract.MAX_REPORT_DAYS * DAY)
        return invalidAt('from', `must be at most ${contract.MAX_REPORT_DAYS} days before to`);
      const { tenant } = 'config' in claim ? claim.project : { tenant: OPERATOR };
      return success(await services.reportsOn({ tenant, domain: name ?? '', from, until: to }));
    },
    rotateDkim: (call) => withDomain(call, domains.rotateKeys),
    remove: (call) =>
      withDomain(call, async (name, tenant, { project }) => {
        const report = await domains.report(name, tenant);
        const edited = { tenant, slug: project.slug, author: authorFor(call.principal) };
        return refusalOf(await editDomains(edited, { op: 'remove', domain: name }, services)) ?? report;
      }),
  });
}

const LINES: Answer = {
  status: 200,
  type: 'application/x-ndjson',
  body: '',
  // nginx keeps back what it proxies, else.
  headers: { 'X-Accel-Buffering': 'no' },
};

const writeLine = writerOf(contract.checkLine);

/** Its place in the list: a live domain comes before one of the same name that a test key made. */
function placeOf({ name, project }: Domain): string {
  return environmentOf(project.tenant) === 'test' ? `${name}:test` : name;
}

/** `/admin/domains/{domain}/move`; `/admin/host-keys…`: the DKIM keys that sign for the server's own name. */
export function adminDomainsRoutes({ store, snapshot, hostKeys, domains }: Services): Route[] {
  async function show() {
    const { hostname } = snapshot().server.server;
    return success({ hostname, keys: shownKeys(await keysOfOwner(store, hostOwner(hostname))) });
  }

  const moves = implement(contract.adminDomains, {
    async list({ query: { limit, cursor, ...filter } }) {
      const [name = '', tenant = ''] = cursor?.split(' ') ?? [];
      const after = cursor === undefined ? undefined : { name, tenant };
      const rows = await listClaims(store, filter, { after, limit: limit + 1 });
      const { page, next_cursor } = pageOf(rows, limit, (row) => `${row.name} ${row.tenant}`);
      const domains = page.map((row) => ({ ...row, domain: row.name }));
      return success({ domains, count: await countClaims(store, filter), next_cursor });
    },
    async move({ params: { domain: text }, body: { tenant } }) {
      const domain = parseDomain(text);
      const report = domain === undefined ? undefined : await domains.move(domain, tenant);
      if (domain !== undefined && report !== undefined) return success({ ...report, domain, tenant });
      const message = `The account ${tenant.slice(0, 60)} has no domain ${text.slice(0, 253)}. It must add the domain to a project first.`;
      return refuse('DOMAIN_NOT_FOUND', { message });
    },
  });

  const keys = implement(contract.hostKeys, {
    list: show,
    async rotate() {
      if (await hostKeys.rotate()) return show();
      const { hostname } = snapshot().server.server;
      const message = `${hostname} is a domain in one of the operator’s projects: rotate its DKIM keys as for any other domain.`;
      return refuse('CONFLICT', { message });
    },
    async verify() {
      await hostKeys.check();
      return show();
    },
  });

  return [...moves, ...keys];
}

function shownKeys(keys: readonly DkimKeyRow[]) {
  return keys.map((key) => {
    const record = dkimRecord(key.domain, { ...key, publicKey: key.public_key });
    return { ...key, record, advice: adviceOn(key) };
  });
}
