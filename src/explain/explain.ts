/** What would happen, step by step: to a post to a form, to mail that comes in for an address, to mail that goes to one. */
import { isServed } from '../accounts/tenants.ts';
import { ruleFor } from '../config/forwarding.ts';
import { namedRecipients, rateLimitOf, responsible, type Form, type Named } from '../config/snapshot.ts';
import type { DomainReport } from '../domains/domains.ts';
import { findFormById, parseFormId } from '../forms/find.ts';
import { senderAddress } from '../forms/form-mail.ts';
import { parseAddress } from '../lib/addresses.ts';
import { isoTime } from '../lib/clock.ts';
import { forwardedFrom } from '../mail/forward.ts';
import { decideServed, type Accepted, type Decision } from '../smtp/recipients.ts';
import { isBuiltin } from '../templates/engine.ts';
import { outboundSteps } from './outbound.ts';
import { passes, stops, warns, type ExplainParts, type Explanation, type Step } from './steps.ts';

/**
 * Explains an address or a form (`example.com/contact`, `c/x/y`, `frm_…`); undefined for what is neither. `tenant`: who asks,
 * where that is not the operator; it is told of addresses at its own domains alone.
 */
type Explain = (what: string, tenant?: string) => Promise<Explanation | undefined>;

/** The function that explains. */
export function createExplain(given: ExplainParts): Explain {
  return async (what, tenant) => {
    // As DNS stands now, not as it was remembered.
    const parts = { ...given, resolver: given.resolver.fresh(), dnssec: given.dnssec?.fresh(), tenant };
    const snapshot = parts.snapshot();
    const { server, domains, unavailable } = snapshot;
    if (tenant !== undefined) {
      const owner = domains.get(parseAddress(what)?.domain ?? '')?.project.tenant;
      return owner === tenant ? { what, kind: 'inbound', steps: await inboundSteps(what, parts) } : undefined;
    }
    const id = parseFormId(what);
    const form = id && (await findFormById(id, snapshot, parts.store));
    if (form !== undefined) return { what, kind: 'form', steps: await formSteps(form, parts) };
    const address = parseAddress(what);
    const domain = what.toLowerCase() === 'postmaster' ? server.server.hostname : address?.domain;
    if (domain === undefined) return undefined;
    if (address === undefined || domain === server.server.hostname || domains.has(domain) || unavailable.has(domain))
      return { what, kind: 'inbound', steps: await inboundSteps(what, parts) };
    return { what, kind: 'outbound', steps: await outboundSteps(address.address, undefined, parts) };
  };
}

// What becomes of a post to a form: who may, how often, what is judged, who gets it under whose name, and how it gets there.

/** The steps of a post to the form, and of the mail that it causes. */
async function formSteps(form: Form, parts: ExplainParts): Promise<Step[]> {
  const { tenant, to, domain } = form;
  const ofDomain = form.kind === 'domain' ? [await domainStep(domain, tenant, parts)] : [];
  const onward = await Promise.all(
    to.map((address) => outboundSteps(address, { tenant, kind: 'notification', form: form.id }, parts)),
  );
  return [
    formStep(form),
    ...ofDomain,
    await accessStep(form, parts),
    rateStep(form, parts),
    spamStep(form),
    recipientsStep(form, parts),
    passes(
      'from',
      `"${form.name}" <${senderAddress(form.config, domain)}>`,
      form.config.from === undefined ? 'the form sets no from' : 'the form’s from',
    ),
    await templateStep(form, parts),
    acknowledgmentStep(form),
    await dkimStep(domain, tenant, parts),
    ...onward.flat(),
  ];
}

function formStep({ id, name, kind, project }: Form): Step {
  const where =
    project === undefined
      ? `created through the API (${kind})`
      : `defined in the project ${project.slug}, ${project.revision} (${project.source})`;
  return passes('form', `${id}, named "${name}"`, where);
}

async function accessStep({ tenant, requireApiKey, audience, config }: Form, { store }: ExplainParts): Promise<Step> {
  if (!(await isServed(store, tenant))) {
    return stops('access', 'nobody', `the account ${tenant} is suspended, or has not confirmed its email address`);
  }
  if (requireApiKey) return passes('access', 'only with an API key', 'the collection’s requireApiKey');
  if (audience.anyone) return passes('access', 'pages of any origin', 'no allowed_origins are listed');
  const own = audience.domain === undefined ? [] : [`${audience.domain} and its subdomains`];
  const near = audience.localhost ? ['localhost'] : [];
  const without = config.spam_protection.level === 'strict' ? 'rejected (level strict)' : 'allowed (level normal)';
  return passes(
    'access',
    `pages of ${[...own, ...audience.origins, ...near].join(', ')}; a submission without an origin is ${without}`,
    'the form’s domain, its allowed_origins and allow_localhost; with a valid API key, any page may post',
  );
}

function rateStep(form: Form, { snapshot }: ExplainParts): Step {
  const { count, by } = rateLimitOf(form);
  const perMinute = snapshot().server.limits.requests_per_minute_per_address;
  return passes(
    'rate_limit',
    `${count} accepted submissions per hour and IP address, five times as many rejected ones; ${perMinute} requests per minute and IP address`,
    `${by ?? 'neither rateLimit, spam_protection.rate_limit nor settings.rate_limit is set'}; limits.requests_per_minute_per_address`,
  );
}

function spamStep({ config }: Form): Step {
  const { level, honeypot, content_filter, on_spam, challenge, blocklist } = config.spam_protection;
  const scoring = content_filter
    ? `the submission text is scored at level ${level}`
    : 'the submission text is not scored';
  const answer =
    on_spam === 'silent' ? 'spam is kept and answered with success' : 'spam is kept and answered with an error';
  return passes(
    'spam',
    `the field ${honeypot} is a honeypot, ${scoring}, ${blocklist.length} blocklist entries; ${CHALLENGES[kindOf(challenge)]}; ${answer}`,
    'spam_protection',
  );
}

function kindOf(challenge: Form['config']['spam_protection']['challenge']): keyof typeof CHALLENGES {
  return typeof challenge === 'string' ? challenge : challenge.provider;
}

const CHALLENGES = {
  none: 'no challenge',
  pow: 'the page must solve a proof of work',
  turnstile: 'the page must pass Cloudflare Turnstile',
  hcaptcha: 'the page must pass hCaptcha',
  recaptcha: 'the page must pass Google reCAPTCHA',
} as const;

function recipientsStep({ kind, key, domain, config, project, to }: Form, { snapshot }: ExplainParts): Step {
  const { server } = snapshot();
  const place = kind === 'domain' ? project?.config.domains[domain] : undefined;
  const { named, by }: Named =
    project !== undefined && place !== undefined
      ? namedRecipients(key, config, { name: domain, config: place, project, server })
      : { named: to, by: config.to === undefined ? responsible(project, server).by : 'to' };
  const followed = named.some((address) => !to.includes(address)) ? `, to which ${named.join(', ')} is forwarded` : '';
  const step = by === 'to' || by === 'forwarding' ? passes : warns;
  return step('recipients', to.join(', ') + followed, WHY[by]);
}

const WHY: Readonly<Record<Named['by'], string>> = {
  to: 'set in the form',
  forwarding: 'the form names no recipient; forwarding has a rule for its ID',
  owner: 'neither the form nor forwarding names a recipient: project.owner gets it',
  account: 'neither the form nor forwarding names a recipient: the account’s email address gets it',
  operator: 'neither the form nor forwarding names a recipient: server.operator gets it',
};

async function templateStep({ config, project }: Form, { revisionOf }: ExplainParts): Promise<Step> {
  const { template } = config;
  const revision = project && (await revisionOf(project.revision));
  if (project !== undefined && revision === undefined)
    return warns('template', 'default', `${project.revision} cannot be read`);
  if (revision !== undefined && Object.hasOwn(revision.config.templates, template))
    return passes('template', template, 'from the project');
  if (isBuiltin(template)) return passes('template', template, 'built in');
  const lacking =
    project === undefined
      ? 'a form created through the API can use only built-in templates'
      : 'it is not in the project';
  return warns('template', 'default', `there is no template ${template}: ${lacking}`);
}

function acknowledgmentStep({ config: { acknowledgment } }: Form): Step {
  if (acknowledgment?.enabled !== true) return passes('acknowledgment', 'none', 'not enabled in the form');
  return passes(
    'acknowledgment',
    `to the visitor, with the template ${acknowledgment.template}`,
    'once in 24 hours per address; never to suppressed or role addresses, or those of the form or its domain',
  );
}

// What becomes of mail that comes in for an address: the domain, the rule that matches, what is done to it, and where it goes.

/** The steps of mail for an address of ours. */
async function inboundSteps(text: string, parts: ExplainParts): Promise<Step[]> {
  // The null sender may bounce to what we made, and nobody else may; of all other addresses it decides nothing.
  const decision = await decideServed({ address: text, sender: '' }, await parts.directory(), parts.store);
  return [
    ...(await placeSteps(text, parts)),
    decisionStep(decision),
    ...(decision.kind === 'forward' ? await forwardSteps(decision, parts) : []),
    ...(decision.kind === 'srs' ? await outboundSteps(decision.sender, undefined, parts) : []),
  ];
}

/** The domain that the address is at, and what is in its map. */
async function placeSteps(text: string, parts: ExplainParts): Promise<Step[]> {
  const { domains, server } = parts.snapshot();
  const { local = '', domain: name = '' } = parseAddress(text) ?? {};
  const domain = domains.get(name);
  if (domain === undefined) {
    return name === server.server.hostname ? [passes('domain', `${name} is this server`, 'server.hostname')] : [];
  }
  const { forwarding } = domain.config;
  const key = ruleFor(forwarding, name, local);
  const route = key === undefined ? undefined : forwarding[key];
  const rule =
    key === undefined || route === undefined
      ? passes(
          'rule',
          'no forwarding rule matches',
          `there is no rule for ${local}@${name}, for the address without its tag, or for *@${name}`,
        )
      : passes('rule', `${key}: ${typeof route === 'string' ? route : route.join(', ')}`, whyRule(key, local, name));
  const { tenant } = domain.project;
  return [await domainStep(name, tenant, parts), await mxStep(name, tenant, parts), rule];
}

function whyRule(key: string, local: string, domain: string): string {
  if (key === `*@${domain}`) return 'the catch-all rule: the address has no rule of its own';
  return key === `${local.toLowerCase()}@${domain}`
    ? 'the rule for the address itself'
    : 'the rule for the address without its tag';
}

function decisionStep(decision: Decision): Step {
  switch (decision.kind) {
    case 'forward':
      return passes(
        'decision',
        `forwarded to ${decision.targets.join(', ')}`,
        'the final targets, after all rules on this server',
      );
    case 'discard':
      return warns('decision', 'accepted with 250, then discarded', 'the rule says discard');
    case 'bounce':
      return passes(
        'decision',
        `processed as a delivery report about ${decision.message}`,
        'this is the return path of a message from this server',
      );
    case 'srs':
      return passes(
        'decision',
        `bounces go back to ${decision.sender}`,
        'this is the SRS address of mail that was forwarded',
      );
    case 'reply':
      return passes(
        'decision',
        `replies are relayed to the ${decision.ticket.to} of ${decision.ticket.message}`,
        'this is a reply address that hides the real one',
      );
    case 'report':
      return passes(
        'decision',
        'processed as a DMARC or TLS aggregate report; other mail is rejected',
        'this is the report address of the server',
      );
    case 'refuse':
      return stops('decision', `rejected: ${decision.reply}`, decision.reason);
  }
}

type Forwarded = Extract<Accepted, { kind: 'forward' }>;

async function forwardSteps({ domain, tenant, targets }: Forwarded, parts: ExplainParts): Promise<Step[]> {
  const { inbound, server } = parts.snapshot().server;
  const host = server.hostname;
  const before: Step[] = [
    inbound.dmarc === 'enforce'
      ? passes('dmarc', 'mail that fails DMARC under p=reject is rejected', 'inbound.dmarc: enforce')
      : passes('dmarc', 'DMARC results are recorded, but no mail is rejected for them', 'inbound.dmarc: record'),
    inbound.from_rewrite === 'auto'
      ? passes(
          'from',
          `unchanged; if the next server would reject it because of DMARC, it becomes "… via ${domain}" <${forwardedFrom(domain)}>`,
          'inbound.from_rewrite: auto',
        )
      : warns('from', 'unchanged, even if the next server rejects the mail for it', 'inbound.from_rewrite: never'),
    passes(
      'srs',
      `the envelope sender becomes SRS0=…@${host} if SPF or DKIM confirmed it, otherwise b+…@${host}; the null sender stays null`,
      'SPF passes at the next server, and bounces come back here',
    ),
    await arcStep(host, parts),
  ];
  // Under its author's name it keeps the author's signature, and gets none of ours.
  const dkim = await dkimStep(domain, tenant, parts);
  const signed = inbound.from_rewrite === 'auto' ? [{ ...dkim, found: `if From is rewritten, ${dkim.found}` }] : [];
  const onward = await Promise.all(
    targets.map((address) => outboundSteps(address, { tenant, kind: 'forward' }, parts)),
  );
  return [...before, ...signed, ...onward.flat()];
}

async function arcStep(hostname: string, { snapshot, keysOf }: ExplainParts): Promise<Step> {
  if (!snapshot().server.inbound.arc.seal) return passes('arc', 'not sealed', 'inbound.arc.seal: false');
  const keys = await keysOf(hostname, '');
  const key = keys.find(({ algorithm }) => algorithm === 'rsa');
  return key === undefined
    ? warns('arc', 'not sealed', `${hostname} has no RSA key`)
    : passes(
        'arc',
        `sealed with ${key.selector}._domainkey.${hostname}`,
        'passes the authentication results on to the next server',
      );
}

// Whether a domain is verified, and which keys sign for it.

/** What DNS has said of a tenant's domain, and what follows for its mail. */
async function domainStep(name: string, tenant: string, { domains }: ExplainParts): Promise<Step> {
  const report = await domains.report(name, tenant);
  if (report === undefined) return stops('domain', `${name} is not configured`, 'no project contains it');
  const found = `${name} of the project ${report.project} is ${report.status}`;
  switch (report.status) {
    case 'verified': {
      const at = report.checkedAt === null ? 'never' : isoTime(report.checkedAt);
      return passes('domain', found, `its required records were found at the last check, ${at}`);
    }
    case 'degraded':
      return warns('domain', found, `it works until dns.grace ends, but ${wrongRecords(report)}`);
    case 'failed':
      return stops('domain', found, `its mail is held, and incoming mail is deferred: ${wrongRecords(report)}`);
    case 'pending':
      return stops(
        'domain',
        found,
        `its forms answer 403 and incoming mail is deferred until its records are found: ${wrongRecords(report)}`,
      );
  }
}

/** Whether mail for the domain comes here at all. */
async function mxStep(name: string, tenant: string, { domains }: ExplainParts): Promise<Step> {
  const report = await domains.report(name, tenant);
  const mx = report?.records.find(({ purpose }) => purpose === 'inbound');
  if (mx === undefined)
    return passes('mx', 'it receives no mail here', 'neither forwarding nor reply_relay is configured');
  const found = mx.found.length === 0 ? `${name} has no MX record` : `MX records of ${name}: ${mx.found.join(', ')}`;
  return mx.status === 'ok'
    ? passes('mx', found, 'its mail is delivered to this server')
    : warns('mx', found, mx.problem ?? 'not checked yet');
}

function wrongRecords({ records }: DomainReport): string {
  const wrong = records.filter(({ required, status }) => required && status !== 'ok');
  if (wrong.length === 0) return 'its required records are being determined';
  return wrong
    .map(
      ({ type, name, status, problem }) =>
        `${type} ${name} is ${status}${problem === undefined ? '' : ` (${problem})`}`,
    )
    .join('; ');
}

/** Which keys sign mail of the tenant that is from `domain`. */
async function dkimStep(domain: string, tenant: string, parts: ExplainParts): Promise<Step> {
  const { keysOf, domains, snapshot } = parts;
  const keys = await keysOf(domain, tenant);
  if (keys.length === 0) {
    return stops('dkim', `no DKIM key signs for ${domain}`, 'the domain has never been verified: its mail waits');
  }
  const names = keys.map(({ selector, algorithm }) => `${selector}._domainkey.${domain} (${algorithm})`);
  const found = `signed by ${names.join(' and ')}`;
  const isHost = domain === snapshot().server.server.hostname;
  const report = isHost ? undefined : await domains.report(domain, tenant);
  const wrong = report?.records.find(
    ({ purpose, required, status }) => purpose === 'dkim' && required && status !== 'ok',
  );
  if (wrong !== undefined) {
    return warns('dkim', found, `but ${wrong.name} is ${wrong.status} in DNS: receivers cannot verify that signature`);
  }
  return passes(
    'dkim',
    found,
    isHost ? 'the server has its own DKIM key' : 'its record was correct at the last DNS check',
  );
}
