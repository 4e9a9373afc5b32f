/** Domains, the DNS records that they need, and DKIM keys; also those of the server's own name. */
import { z } from 'zod';
import { explainStep } from './queue.ts';
import { route } from './route.ts';
import { environment, listingByName, optionalTime, page, since, time, until } from './values.ts';

const dnsRecord = z.object({
  purpose: z.enum(['ownership', 'dkim', 'spf', 'dmarc', 'inbound', 'mta_sts', 'tlsrpt']),
  type: z.enum(['TXT', 'MX', 'CNAME']),
  name: z.string(),
  value: z
    .string()
    .describe(
      'What to publish: one string, unquoted and unsplit, as DNS consoles take it. An SPF value contains what is published already. Empty: nothing yet; `problem` says why.',
    ),
  required: z.boolean().describe('Whether verification needs it; the others are recommended.'),
  status: z.enum(['ok', 'missing', 'wrong', 'duplicate', 'unknown']).describe('`unknown`: DNS did not answer.'),
  found: z.array(z.string()).describe('What the last check found.'),
  problem: z.string().optional().describe('What is wrong, and what to change.'),
  note: z.string().optional().describe('What it is for, if that is not obvious.'),
});

const status = z.enum(['pending', 'verified', 'degraded', 'failed']);

const dkimKey = z.object({
  selector: z.string(),
  algorithm: z.enum(['rsa', 'ed25519']),
  state: z
    .enum(['next', 'active', 'retiring', 'retired'])
    .describe('`next` signs once its record is found in DNS; `retiring` has signed mail that may be under way.'),
  since: time.describe('When it came into this state.'),
  keep_until: optionalTime.describe('For a retiring key: keep its record at least until then.'),
  record: z.object({ type: z.literal('TXT'), name: z.string(), value: z.string() }),
  advice: z.string(),
});

const domain = z.object({
  domain: z.string().describe('Lower case, A-labels.'),
  project: z.string().describe('The slug of its project.'),
  environment,
  verified: z.boolean().describe('Whether mail is sent from this domain: its status is verified or degraded.'),
  status: status,
  reason: z
    .string()
    .nullable()
    .describe('Why it stays pending although its records are found: `owned by another account`; otherwise null.'),
  checked_at: optionalTime,
  verified_at: optionalTime,
  records: z.array(dnsRecord),
  keys: z.array(dkimKey).describe('Its DKIM keys: the signing ones first, then by age.'),
});

/** A line of a check that shows its progress: a record that was looked up, or last the domain as it is then. */
export const checkLine = z.object({ record: dnsRecord.optional(), domain: domain.optional() });
export type CheckLine = z.output<typeof checkLine>;

/** The longest time that `GET /domains/{domain}/reports` answers. */
export const MAX_REPORT_DAYS = 366;
export const DEFAULT_REPORT_DAYS = 30;

const alignment = z.enum(['aligned', 'unaligned', 'failed', 'none']);

const reports = z.object({
  domain: z.string(),
  from: time,
  to: time.describe('End of the last day.'),
  messages: z.int().describe('Messages in the name of the domain, as receivers reported them.'),
  passed: z.int().describe('Of these, messages that passed DMARC: DKIM or SPF was `aligned`.'),
  days: z.array(z.object({ day: z.iso.date(), messages: z.int(), passed: z.int() })).describe('UTC days.'),
  sources: z
    .array(
      z.object({
        source: z.string().describe('IP address. Empty: the sum of sources that are too many to be listed.'),
        this_server: z.boolean().describe('Whether this server sends from that address.'),
        messages: z.int(),
        disposition: z.enum(['none', 'quarantine', 'reject']).describe('What receivers did because of the policy.'),
        dkim: alignment.describe(
          '`aligned`: passed for the domain. `unaligned`: passed for another domain, `dkim_domain`. `none`: no signature.',
        ),
        spf: alignment.describe('The same for SPF and `spf_domain`.'),
        dkim_domain: z.string(),
        spf_domain: z.string(),
      }),
    )
    .describe('Most messages first; at most 200.'),
  tls: z.object({
    sessions: z.int().describe('Connections to the mail servers of the domain, as senders reported them.'),
    failures: z.int(),
    results: z
      .array(
        z.object({
          policy: z.string().describe('`sts`, `tlsa` or `no-policy-found`.'),
          result: z.string().describe('`success`, or the type of the failure as in RFC 8460, section 4.3.'),
          mx: z.string().describe('The mail server. Empty: not known.'),
          sessions: z.int(),
        }),
      )
      .describe('Most sessions first; at most 200.'),
  }),
  reporters: z
    .array(z.object({ reporter: z.string(), kind: z.enum(['dmarc', 'tls']), reports: z.int() }))
    .describe('Who sent how many reports: the domains that authenticated them. Most reports first; at most 50.'),
});

const READ = { permission: 'domains.read', domains: 'narrow', tag: 'Domains' } as const;
const WRITE = { ...READ, permission: 'domains.write', errors: ['DOMAIN_NOT_FOUND'] } as const;

export const domains = {
  list: route('GET /domains', {
    ...READ,
    readsLive: true,
    summary: 'Lists the domains by name.',
    description: 'A test key sees the live domains and those that test keys added.',
    query: z.strictObject(listingByName()),
    answer: page({ domains: z.array(domain) }),
  }),
  create: route('POST /domains', {
    ...WRITE,
    summary: 'Adds a domain to a project.',
    description:
      'It is pending until its DNS publishes the required records. A domain that the project already has is answered as it is. The domain is added to the configuration of the project, as a new revision.',
    body: z.strictObject({
      domain: z.string().describe('Such as example.com, in any case or script.'),
      project: z.string().describe('Slug of its project.'),
    }),
    answer: domain,
    errors: ['DOMAIN_NOT_FOUND', 'NOT_FOUND', 'CONFLICT', 'PLAN_LIMIT'],
  }),
  show: route('GET /domains/:domain', {
    ...READ,
    readsLive: true,
    summary: 'Shows a domain, its DNS records, and what the last check found.',
    answer: domain,
    errors: ['DOMAIN_NOT_FOUND'],
  }),
  reports: route('GET /domains/:domain/reports', {
    ...READ,
    summary:
      'Shows who sent mail in the name of a domain, and TLS failures of mail to it, as other mail systems report them.',
    description:
      'Counts of the DMARC and TLS reports that came to `reports@` at the host name of the server. Anybody can send such a report: compare `reporters` before you rely on a number.',
    query: z.strictObject({
      from: since.optional().describe(`First day. Default: ${DEFAULT_REPORT_DAYS} days before \`to\`.`),
      to: until.optional().describe('Last day. Default: today.'),
    }),
    answer: reports,
    errors: ['DOMAIN_NOT_FOUND'],
  }),
  zone: route('GET /domains/:domain/zone', {
    ...READ,
    readsLive: true,
    summary: 'Writes the DNS records of a domain as a zone file.',
    description:
      'Records that are right already are comments; each of the others says what it replaces. It is that of the last check.',
    answer: z.object({ domain: z.string(), filename: z.string(), zone: z.string() }),
    errors: ['DOMAIN_NOT_FOUND'],
  }),
  forwarding: route('GET /domains/:domain/forwarding', {
    ...READ,
    readsLive: true,
    summary: 'Lists what happens to mail for the addresses of a domain, as its project configures it.',
    answer: z.object({
      domain: z.string(),
      forwarding: z.array(
        z.object({
          address: z.string().describe('The address, or `*@` and the domain: all others.'),
          action: z.enum(['forward', 'discard', 'reject']),
          to: z.array(z.string()),
        }),
      ),
    }),
    errors: ['DOMAIN_NOT_FOUND'],
  }),
  explain: route('GET /domains/:domain/explain', {
    ...READ,
    summary: 'Explains where mail for an address of the domain would go.',
    description: 'Nothing is sent. DNS is asked at once. Only mail of the account is taken into account.',
    query: z.strictObject({
      address: z
        .string()
        .trim()
        .min(1)
        .max(320)
        .default('postmaster')
        .describe('An address of the domain, or the part before the @.'),
    }),
    answer: z.object({ address: z.string(), steps: z.array(explainStep) }),
    errors: ['DOMAIN_NOT_FOUND', 'CONFLICT'],
  }),
  verify: route('POST /domains/:domain/verify', {
    ...WRITE,
    summary: 'Checks the DNS records at once, past any cache, and shows the result.',
    description:
      'With `Accept: application/x-ndjson` the answer shows the progress: a JSON object in each line, `{"record": …}` as soon as a record is looked up, and last `{"domain": …}`. An answer without the last line is not complete.',
    answer: domain,
    alsoAnswers: 'application/x-ndjson',
  }),
  rotateDkim: route('POST /domains/:domain/rotate-dkim', {
    ...WRITE,
    summary: 'Creates the next DKIM keys of a domain, and shows what to publish for them.',
    description:
      'The present keys sign until the records of the next ones are found in DNS, by the scheduled check or by `verify`. Keep the record of a retired key until no mail that it signed is under way; its `advice` says when to remove it. While next keys wait for their records, the call answers those.',
    answer: domain,
  }),
  remove: route('DELETE /domains/:domain', {
    ...WRITE,
    summary: 'Removes a domain, and shows it as it was.',
    description:
      'Queued mail is still sent, signed with its DKIM keys: keep their records in DNS until it has gone. Added again, the domain has the same token and keys.',
    answer: domain,
    errors: ['DOMAIN_NOT_FOUND', 'CONFLICT'],
  }),
};

const hostKeyList = z.object({
  hostname: z.string(),
  keys: z.array(dkimKey).describe('The signing ones first, then by age.'),
});

const ADMIN = { permission: 'admin', domains: 'refuse', tag: 'Administration' } as const;

const claim = z.object({
  domain: z.string(),
  tenant: z.string(),
  project: z.string().describe('The slug of its project.'),
  status,
  checked_at: optionalTime,
  verified_at: optionalTime,
  broken_at: optionalTime.describe('Since when a required record is missing or wrong.'),
});

export const adminDomains = {
  list: route('GET /admin/domains', {
    ...ADMIN,
    summary: 'Lists the domains of all accounts by name.',
    description: 'A name that several accounts have in a project is listed for each; at most one of them owns it.',
    query: z.strictObject({
      ...listingByName(),
      tenant: z.string().max(60).optional().describe('Only domains of this account.'),
      status: status.optional().describe('Only domains with this status.'),
    }),
    answer: page({ domains: z.array(claim) }),
  }),
  move: route('POST /admin/domains/:domain/move', {
    ...ADMIN,
    summary: 'Makes an account the owner of a domain, whoever owned it before.',
    description:
      'The account must have the domain in one of its projects. Its DNS records are checked at once; until they are found, its mail of the domain is held. The claims of other accounts stay pending.',
    body: z.strictObject({ tenant: z.string().describe('`ten_…`, the account that is to own it.') }),
    answer: z.object({
      domain: z.string(),
      tenant: z.string(),
      project: z.string(),
      status: status,
    }),
    errors: ['DOMAIN_NOT_FOUND'],
  }),
};

export const hostKeys = {
  list: route('GET /admin/host-keys', {
    ...ADMIN,
    summary: 'Lists the DKIM keys that sign for the server’s own host name, and what to publish.',
    answer: hostKeyList,
  }),
  rotate: route('POST /admin/host-keys/rotate', {
    ...ADMIN,
    summary: 'Creates the next DKIM key of the host name, as `POST /domains/{domain}/rotate-dkim` does for a domain.',
    answer: hostKeyList,
    errors: ['CONFLICT'],
  }),
  verify: route('POST /admin/host-keys/verify', {
    ...ADMIN,
    summary: 'Checks the records of the host name’s keys in DNS at once, and shows the result.',
    answer: hostKeyList,
  }),
};
