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
      'What to publish: one string, unquoted and unsplit, as DNS consoles expect it. An SPF value includes what is already published. Empty: nothing to publish yet; `problem` says why.',
    ),
  required: z.boolean().describe('Whether verification requires it; other records are recommended.'),
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
    .describe('`next` signs once its record is found in DNS; `retiring` has signed mail that may still be in transit.'),
  since: time.describe('When it entered this state.'),
  keep_until: optionalTime.describe('For a retiring key: keep its record at least until then.'),
  record: z.object({ type: z.literal('TXT'), name: z.string(), value: z.string() }),
  advice: z.string(),
});

const domain = z.object({
  domain: z.string().describe('Lowercase, A-labels.'),
  project: z.string().describe('The slug of its project.'),
  environment,
  verified: z.boolean().describe('Whether mail is sent from this domain: its status is verified or degraded.'),
  status: status,
  reason: z
    .string()
    .nullable()
    .describe('Why it stays pending although its records were found: `owned by another account`; otherwise null.'),
  checked_at: optionalTime,
  verified_at: optionalTime,
  records: z.array(dnsRecord),
  keys: z.array(dkimKey).describe('Its DKIM keys: active keys first, then by age.'),
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
  messages: z.int().describe('Messages sent in the name of the domain, as reported by receivers.'),
  passed: z.int().describe('Of these, messages that passed DMARC: DKIM or SPF was `aligned`.'),
  days: z.array(z.object({ day: z.iso.date(), messages: z.int(), passed: z.int() })).describe('UTC days.'),
  sources: z
    .array(
      z.object({
        source: z.string().describe('IP address. Empty: the total of all sources that are not listed.'),
        this_server: z.boolean().describe('Whether this server sends from that address.'),
        messages: z.int(),
        disposition: z.enum(['none', 'quarantine', 'reject']).describe('What receivers did under the policy.'),
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
    sessions: z.int().describe('Connections to the domain’s mail servers, as reported by senders.'),
    failures: z.int(),
    results: z
      .array(
        z.object({
          policy: z.string().describe('`sts`, `tlsa` or `no-policy-found`.'),
          result: z.string().describe('`success`, or the failure type from RFC 8460, section 4.3.'),
          mx: z.string().describe('The mail server. Empty: unknown.'),
          sessions: z.int(),
        }),
      )
      .describe('Most sessions first; at most 200.'),
  }),
  reporters: z
    .array(z.object({ reporter: z.string(), kind: z.enum(['dmarc', 'tls']), reports: z.int() }))
    .describe('Who sent the reports (authenticated domains), and how many. Most reports first; at most 50.'),
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
      'It is pending until its required DNS records are published. If the project already has the domain, the answer shows it unchanged. The domain is added to the configuration of the project, as a new revision.',
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
      'Shows who sent mail in the name of a domain, and TLS failures of mail to it, as reported by other mail systems.',
    description:
      'Counts from the DMARC and TLS reports sent to `reports@` at the server’s host name. Anyone can send such a report: check `reporters` before you rely on a number.',
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
    summary: 'Shows the DNS records of a domain as a zone file.',
    description:
      'Records that are already correct are comments; each of the others says what it replaces. It reflects the last check.',
    answer: z.object({ domain: z.string(), filename: z.string(), zone: z.string() }),
    errors: ['DOMAIN_NOT_FOUND'],
  }),
  forwarding: route('GET /domains/:domain/forwarding', {
    ...READ,
    readsLive: true,
    summary: 'Lists what happens to mail for the addresses of a domain, as configured in its project.',
    answer: z.object({
      domain: z.string(),
      forwarding: z.array(
        z.object({
          address: z.string().describe('The address, or `*@` and the domain for all other addresses.'),
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
    description: 'Nothing is sent. DNS is queried at once. Only mail of the account is considered.',
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
    summary: 'Checks the DNS records now, bypassing any cache, and shows the result.',
    description:
      'With `Accept: application/x-ndjson` the answer shows the progress, with one JSON object per line: `{"record": …}` for each record that was looked up, and finally `{"domain": …}`. An answer without this last line is incomplete.',
    answer: domain,
    alsoAnswers: 'application/x-ndjson',
  }),
  rotateDkim: route('POST /domains/:domain/rotate-dkim', {
    ...WRITE,
    summary: 'Creates the next DKIM keys of a domain, and shows the records to publish for them.',
    description:
      'The current keys sign until the records of the next keys are found in DNS, by the scheduled check or by `verify`. Keep the record of a retired key until no mail signed with it is in transit; its `advice` says when to remove it. If next keys are already waiting for their records, the answer shows those keys.',
    answer: domain,
  }),
  remove: route('DELETE /domains/:domain', {
    ...WRITE,
    summary: 'Removes a domain, and shows it as it was.',
    description:
      'Queued mail is still sent, signed with its DKIM keys: keep their records in DNS until that mail is delivered. If you add the domain again, it has the same token and keys.',
    answer: domain,
    errors: ['DOMAIN_NOT_FOUND', 'CONFLICT'],
  }),
};

const hostKeyList = z.object({
  hostname: z.string(),
  keys: z.array(dkimKey).describe('Active keys first, then by age.'),
});

const ADMIN = { permission: 'admin', domains: 'refuse', tag: 'Administration' } as const;

const claim = z.object({
  domain: z.string(),
  tenant: z.string(),
  project: z.string().describe('The slug of its project.'),
  status,
  checked_at: optionalTime,
  verified_at: optionalTime,
  broken_at: optionalTime.describe('Since when a required record has been missing or wrong.'),
});

export const adminDomains = {
  list: route('GET /admin/domains', {
    ...ADMIN,
    summary: 'Lists the domains of all accounts by name.',
    description:
      'A domain that several accounts have in a project is listed for each of them; at most one account owns it.',
    query: z.strictObject({
      ...listingByName(),
      tenant: z.string().max(60).optional().describe('Only domains of this account.'),
      status: status.optional().describe('Only domains with this status.'),
    }),
    answer: page({ domains: z.array(claim) }),
  }),
  move: route('POST /admin/domains/:domain/move', {
    ...ADMIN,
    summary: 'Makes an account the owner of a domain, regardless of the previous owner.',
    description:
      'The account must have the domain in one of its projects. Its DNS records are checked at once; until they are found, its mail from the domain is held. For other accounts the domain stays pending.',
    body: z.strictObject({ tenant: z.string().describe('`ten_…`, the new owner.') }),
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
    summary: 'Checks the DNS records of the host name’s DKIM keys now, and shows the result.',
    answer: hostKeyList,
  }),
};
