/** Domains of a tenant: what each has to publish, and what DNS says of it. */
import { z } from 'zod';
import { claimOwner, keysOfOwner } from '../../domains/dkim-keys.ts';
import type { DomainReport, Domains } from '../../domains/domains.ts';
import { accountIdOf, mayTouch, readableTenants, type Principal } from '../../accounts/principal.ts';
import { editDomains, type PushOutcome, type PushParts } from '../../accounts/projects.ts';
import { claimKey, type Domain } from '../../config/snapshot.ts';
import { PURPOSES, RECORD_TYPES } from '../../dns/records.ts';
import { parseDomain } from '../../lib/addresses.ts';
import { isoTime } from '../../lib/clock.ts';
import { environmentOf } from '../../lib/ids.ts';
import { findProject } from '../../store/projects.ts';
import type { DkimKeyRow } from '../../store/tables-keys.ts';
import { json } from '../answer.ts';
import { refuse } from '../errors.ts';
import { overLimit, rateLimited } from '../context.ts';
import { environment } from './account-shapes.ts';
import { invalidAt } from './issues.ts';
import { listingByName, listOf } from './listing.ts';
import { answerOf } from './project-config.ts';
import { unknownProject } from './projects.ts';
import { keyShape, shownKeys } from './key-shapes.ts';
import { defineRoute, type Outcome, type Route } from './route.ts';

export interface DomainsParts extends PushParts {
  readonly domains: Pick<Domains, 'report' | 'check' | 'rotateKeys' | 'move'>;
}

const record = z.object({
  purpose: z.enum(PURPOSES),
  type: z.enum(RECORD_TYPES),
  name: z.string(),
  value: z
    .string()
    .describe(
      'What to publish: one string, unquoted and unsplit, as DNS consoles take it. For SPF what stands there is in it, once somebody has looked. Empty: nothing, for DNS did not tell what it would be in place of, or only the owner knows what was meant; `problem` says more.',
    ),
  required: z.boolean().describe('Whether the domain is verified by it; the others are advised.'),
  status: z.enum(['ok', 'missing', 'wrong', 'duplicate', 'unknown']),
  found: z.array(z.string()).describe('What stood there at the last check.'),
  problem: z.string().optional().describe('What is the matter, and what to change; absent where nothing is.'),
  note: z.string().optional().describe('What it is good for, where that is not plain.'),
});
const domainShape = z.object({
  domain: z.string().describe('Lower case, A-labels.'),
  project: z.string().describe('Its slug.'),
  environment,
  verified: z.boolean().describe('Whether mail is sent as this domain: its status is verified or degraded.'),
  status: z.enum(['pending', 'verified', 'degraded', 'failed']),
  reason: z
    .string()
    .nullable()
    .describe('Why it stays pending whatever its records say: `owned by another account`. Else null.'),
  checked_at: z.iso.datetime().nullable(),
  verified_at: z.iso.datetime().nullable(),
  records: z.array(record),
  keys: z.array(keyShape).describe('Its DKIM keys: what signs first, then by age.'),
});
const newDomain = z.strictObject({
  domain: z.string().describe('Such as example.com, in whatever case or script.'),
  project: z.string().describe('Slug of its project.'),
});

const READ = { permission: 'domains.read', domains: 'narrow', tag: 'Domains' } as const;
const WRITE = { ...READ, permission: 'domains.write' } as const;

/** `/domains…` */
export function domainsRoutes(parts: DomainsParts): Route[] {
  const { store, clock, snapshot, domains } = parts;
  /** The tenant's claim to a name as somebody wrote it, or why the principal cannot have it. */
  function find(principal: Principal, text: string): Domain | Outcome {
    const name = parseDomain(text);
    const claim = name === undefined ? undefined : snapshot().claims.get(claimKey(principal.tenant.id, name));
    if (name !== undefined && !mayTouch(principal, name)) return refuse('AUTH_DOMAIN_NOT_ALLOWED');
    return (
      claim ?? refuse('DOMAIN_NOT_FOUND', { message: `There is no domain ${text.slice(0, 253)} in this account.` })
    );
  }

  async function shown(claim: Domain, report: DomainReport | undefined): Promise<z.output<typeof domainShape>> {
    return shownDomain(claim, report, await keysOfOwner(store, claimOwner(claim)));
  }

  async function answerFor(claim: Domain, report: DomainReport | undefined): Promise<Outcome> {
    return json(await shown(claim, report));
  }

  async function show(claim: Domain): Promise<Outcome> {
    return answerFor(claim, await domains.report(claim.name, claim.project.tenant));
  }

  async function add(principal: Principal, text: string, slug: string): Promise<Outcome> {
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

  async function end(claim: Domain): Promise<Outcome> {
    const { name, project } = claim;
    const report = await domains.report(name, project.tenant);
    const outcome = await editDomains(project, { op: 'remove', domain: name }, parts);
    return (outcome && refusalOf(outcome)) ?? answerFor(claim, report);
  }

  /** What kept the project's document from being changed. */
  function refusalOf(outcome: PushOutcome): Outcome | undefined {
    if (outcome.kind === 'done') return undefined;
    if (outcome.kind === 'over-limit') return overLimit(outcome, snapshot().server);
    if (outcome.kind === 'too-often') return rateLimited(outcome.verdict, clock.now());
    const [problem] = outcome.kind === 'conflict' || outcome.kind === 'invalid' ? outcome.problems : [];
    return problem === undefined ? answerOf(outcome) : refuse('CONFLICT', { message: `${sentence(problem.message)}` });
  }

  return [
    defineRoute({
      ...READ,
      method: 'GET',
      path: '/domains',
      readsLive: true,
      summary: 'Lists the domains, by name.',
      description: 'A test key sees the live domains and those that test keys made.',
      query: z.strictObject(listingByName()),
      answer: listOf('domains', domainShape),
      async handle({ principal, query: { limit, cursor = '' } }) {
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
    }),
    defineRoute({
      ...WRITE,
      method: 'POST',
      path: '/domains',
      summary: 'Adds a domain to a project.',
      description:
        'It is pending until its DNS publishes the required records. One that is there already is answered as it is. It is added to the project’s configuration, as a new revision.',
      body: newDomain,
      answer: domainShape,
      handle: ({ principal, body: { domain, project } }) => add(principal, domain, project),
    }),
    defineRoute({
      ...READ,
      method: 'GET',
      path: '/domains/:domain',
      readsLive: true,
      summary: 'Shows a domain, what it has to publish, and how each record was last found.',
      answer: domainShape,
      async handle({ principal, params: { domain } }) {
        const claim = find(principal, domain);
        return 'config' in claim ? show(claim) : claim;
      },
    }),
    defineRoute({
      ...WRITE,
      method: 'POST',
      path: '/domains/:domain/verify',
      summary: 'Asks DNS at once, past any cache, and shows what it says.',
      answer: domainShape,
      async handle({ principal, params: { domain } }) {
        const claim = find(principal, domain);
        if (!('config' in claim)) return claim;
        return answerFor(claim, await domains.check(claim.name, claim.project.tenant));
      },
    }),
    defineRoute({
      ...WRITE,
      method: 'POST',
      path: '/domains/:domain/rotate-dkim',
      summary: 'Makes the next DKIM keys of a domain, and shows what to publish for them.',
      description:
        'The present keys sign on until the records of the next ones are seen in DNS, by the scheduled check or by `verify`. The record of a key that signs no more is needed until no mail that it signed is under way; its `note` says when it may go. Asked again while next keys wait for their records, it answers those.',
      answer: domainShape,
      async handle({ principal, params: { domain } }) {
        const claim = find(principal, domain);
        if (!('config' in claim)) return claim;
        return answerFor(claim, await domains.rotateKeys(claim.name, claim.project.tenant));
      },
    }),
    defineRoute({
      ...WRITE,
      method: 'DELETE',
      path: '/domains/:domain',
      summary: 'Takes a domain out of service, and shows it as it was.',
      description:
        'Mail that waits is still sent, signed with its DKIM keys: leave their records in DNS until it has gone. Added again, it has the same token and keys.',
      answer: domainShape,
      async handle({ principal, params: { domain } }) {
        const claim = find(principal, domain);
        return 'config' in claim ? end(claim) : claim;
      },
    }),
  ];
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
): z.output<typeof domainShape> {
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

function timeOf(ms: number | null | undefined): string | null {
  return ms === null || ms === undefined ? null : isoTime(ms);
}
