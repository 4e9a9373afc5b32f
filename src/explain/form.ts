/** What becomes of a post to a form: who may, how often, what is judged, who gets it under whose name, and how it gets there. */
import { isServed } from '../accounts/tenants.ts';
import { namedRecipients, rateLimitOf, responsible, type Form, type Named } from '../config/snapshot.ts';
import { senderAddress } from '../forms/form-mail.ts';
import { isBuiltin } from '../templates/engine.ts';
import { dkimStep, domainStep } from './domain.ts';
import { outboundSteps } from './outbound.ts';
import { type ExplainParts, passes, stops, warns, type Step } from './steps.ts';

/** The steps of a post to the form, and of the mail that it causes. */
export async function formSteps(form: Form, parts: ExplainParts): Promise<Step[]> {
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
      form.config.from === undefined ? 'the form names no from' : 'the form’s from',
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
      ? `made through the API (${kind})`
      : `in the configuration of the project ${project.slug}, ${project.revision} (${project.source})`;
  return passes('form', `${id}, called "${name}"`, where);
}

async function accessStep({ tenant, requireApiKey, audience, config }: Form, { store }: ExplainParts): Promise<Step> {
  if (!(await isServed(store, tenant))) {
    return stops('access', 'nobody', `the account ${tenant} is suspended, or has not confirmed its address`);
  }
  if (requireApiKey) return passes('access', 'only with an API key', 'the collection’s requireApiKey');
  if (audience.anyone) return passes('access', 'pages of any origin', 'no allowed_origins are listed');
  const own = audience.domain === undefined ? [] : [`${audience.domain} and its subdomains`];
  const near = audience.localhost ? ['localhost'] : [];
  const without = config.spam_protection.level === 'strict' ? 'refused (level strict)' : 'allowed (level normal)';
  return passes(
    'access',
    `pages of ${[...own, ...audience.origins, ...near].join(', ')}; a submission without an origin is ${without}`,
    'the form’s domain, its allowed_origins and allow_localhost; a valid key may from anywhere',
  );
}

function rateStep(form: Form, { snapshot }: ExplainParts): Step {
  const { count, by } = rateLimitOf(form);
  const perMinute = snapshot().server.limits.requests_per_minute_per_address;
  return passes(
    'rate_limit',
    `${count} accepted submissions per hour and address, five times as many rejected ones; ${perMinute} requests per minute and address`,
    `${by ?? 'neither rateLimit, spam_protection.rate_limit nor settings.rate_limit is set'}; limits.requests_per_minute_per_address`,
  );
}

function spamStep({ config }: Form): Step {
  const { level, honeypot, content_filter, on_spam, challenge, blocklist } = config.spam_protection;
  const scoring = content_filter ? `its text is scored at level ${level}` : 'its text is not scored';
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
  pow: 'the page must do a proof of work',
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
  const followed = named.some((address) => !to.includes(address))
    ? `, followed from ${named.join(', ')} through forwarding`
    : '';
  const step = by === 'to' || by === 'forwarding' ? passes : warns;
  return step('recipients', to.join(', ') + followed, WHY[by]);
}

const WHY: Readonly<Record<Named['by'], string>> = {
  to: 'the form names them',
  forwarding: 'the form names nobody, and forwarding has a rule for its id',
  owner: 'the form names nobody, and forwarding neither: project.owner gets it',
  account: 'the form names nobody, and forwarding neither: the account’s address gets it',
  operator: 'the form names nobody, and forwarding neither: server.operator gets it',
};

async function templateStep({ config, project }: Form, { revisionOf }: ExplainParts): Promise<Step> {
  const { template } = config;
  const revision = project && (await revisionOf(project.revision));
  if (project !== undefined && revision === undefined)
    return warns('template', 'default', `${project.revision} cannot be read`);
  if (revision !== undefined && Object.hasOwn(revision.config.templates, template))
    return passes('template', template, 'of the project');
  if (isBuiltin(template)) return passes('template', template, 'built in');
  const lacking =
    project === undefined ? 'a form created through the API has only the built-in ones' : 'not in the project';
  return warns('template', 'default', `there is no template ${template}: ${lacking}`);
}

function acknowledgmentStep({ config: { acknowledgment } }: Form): Step {
  if (acknowledgment?.enabled !== true) return passes('acknowledgment', 'none', 'the form does not enable it');
  return passes(
    'acknowledgment',
    `to the visitor, with the template ${acknowledgment.template}`,
    'once in 24 hours for an address, never to a suppressed one, one of ours or one that a program reads',
  );
}
