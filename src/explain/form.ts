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
    to.map((address) => outboundSteps({ address, mail: { tenant, kind: 'notification' } }, parts)),
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
  const without = config.spam_protection.level === 'strict' ? 'refused (level strict)' : 'allowed (level normal)';
  return passes(
    'access',
    `pages of ${[...own, ...audience.origins].join(', ')}; a submission without an origin is ${without}`,
    'the form’s domain and its allowed_origins; a valid key may from anywhere',
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
  const { level, honeypot, content_filter, on_spam, blocklist } = config.spam_protection;
  const scoring = content_filter ? `its text is scored at level ${level}` : 'its text is not scored';
  const answer =
    on_spam === 'silent' ? 'spam is kept and answered with success' : 'spam is kept and answered with an error';
  return passes(
    'spam',
    `the field ${honeypot} is a honeypot, ${scoring}, ${blocklist.length} blocklist entries; ${answer}`,
    'spam_protection',
  );
}

function recipientsStep(form: Form, { snapshot }: ExplainParts): Step {
  const { to } = form;
  const { named, by } = whoAndWhy(form, snapshot().server);
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

function whoAndWhy(
  { kind, key, domain, config, project, to }: Form,
  server: ReturnType<ExplainParts['snapshot']>['server'],
): Named {
  const place = kind === 'domain' ? project?.config.domains[domain] : undefined;
  if (project !== undefined && place !== undefined) {
    return namedRecipients(key, config, { name: domain, config: place, project, server });
  }
  return config.to === undefined ? { named: to, by: responsible(project, server).by } : { named: to, by: 'to' };
}

async function templateStep({ config, project }: Form, { revisionOf }: ExplainParts): Promise<Step> {
  const { template } = config;
  if (project === undefined) {
    return isBuiltin(template)
      ? passes('template', template, 'built in')
      : warns(
          'template',
          'default',
          `forms created through the API have only the built-in templates, and ${template} is not one`,
        );
  }
  const revision = await revisionOf(project.revision);
  if (revision === undefined) return warns('template', 'default', `${project.revision} cannot be read`);
  if (Object.hasOwn(revision.config.templates, template)) return passes('template', template, 'of the project');
  if (isBuiltin(template)) return passes('template', template, 'built in');
  return warns('template', 'default', `the project has no template ${template}`);
}

function acknowledgmentStep({ config }: Form): Step {
  const { acknowledgment } = config;
  if (acknowledgment?.enabled !== true) return passes('acknowledgment', 'none', 'the form does not enable it');
  return passes(
    'acknowledgment',
    `to the visitor, with the template ${acknowledgment.template}`,
    'once in 24 hours for an address, never to a suppressed one, one of ours or one that a program reads',
  );
}
