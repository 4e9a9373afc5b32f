/** What the schema alone cannot see, in server.yml: listeners, doubtful values; in a project: names that must exist, addresses that must fit, loops, zones, patterns. */
import ipaddr from 'ipaddr.js';
import { parseAddress } from '../lib/addresses.ts';
import { parseListenAddress } from '../lib/sockets.ts';
import { fanOutOf, forwardingLoops, MAX_DELIVERIES, MAX_TARGETS, routeOf } from './forwarding.ts';
import { nearest, type Finding, type Path, type Problem } from './problem.ts';
import { MAX_PATTERNS_LENGTH, patternProblem } from './patterns.ts';
import type { DomainConfig, FormConfig, ProjectConfig, ServerConfig, TemplateConfig } from './schema.ts';
import { isThisMachine } from './scalars.ts';
import { LETS_ENCRYPT, parseHttpListen, PRIVATE_NAME, tlsModeOf } from './schema-server.ts';
import { find, type YamlFile } from './yaml.ts';

type TemplateType = TemplateConfig['type'];
type Templates = Map<string, TemplateType | 'doubtful'>;

/** The parts of a project that are checked against each other. */
export type ProjectParts = Pick<ProjectConfig, 'settings' | 'domains' | 'collections' | 'templates'>;

/** What else is known of the project. */
export interface Known {
  /** It was accepted before: patterns that only an older version took stay. */
  readonly accepted?: boolean | undefined;
  /** `project.owner`. */
  readonly owner: string | undefined;
  /** Templates that have errors of their own, so that nothing more can be said of them. */
  readonly doubtful: ReadonlySet<string>;
}

/** Everything that is wrong or doubtful across the parts. */
export function checkProject(
  parts: ProjectParts,
  { owner, doubtful, accepted = false }: Known,
): { errors: Finding[]; warnings: Finding[] } {
  // These two exist without being configured.
  const templates: Templates = new Map([['default', 'form'] as const, ['acknowledgment', 'acknowledgment'] as const]);
  for (const [name, { type }] of Object.entries(parts.templates)) templates.set(name, type);
  for (const name of doubtful) templates.set(name, 'doubtful');
  const domains = Object.entries(parts.domains);
  const places = formPlaces(parts);
  return {
    errors: [
      ...(accepted ? [] : places.flatMap(fieldErrors)),
      ...timezoneErrors(parts.settings.timezone),
      ...Object.entries(parts.templates).flatMap((entry) => (doubtful.has(entry[0]) ? [] : bodyErrors(...entry))),
      ...places.flatMap((place) => formErrors(place, templates)),
      ...domains.flatMap(([name, domain]) => domainErrors(name, domain)),
      ...(accepted ? [] : domains.flatMap(([name, domain]) => wildcardErrors(name, domain))),
      ...forwardingLoops(forwardingOf(parts)).map(({ domain, key, way }) => ({
        path: ['domains', domain, 'forwarding', key],
        message: `forwarding loop: ${way.join(' → ')}`,
      })),
    ],
    warnings: [
      ...domains.flatMap(([name, domain]) => domainWarnings(name, domain, owner)),
      ...Object.entries(parts.collections).flatMap(([name, { forms }]) =>
        Object.entries(forms).flatMap(([id, { email }]) =>
          email === undefined ? [noRecipient(['collections', name, 'forms', id], 'there is no "email"', owner)] : [],
        ),
      ),
    ],
  };
}

/** Every form of the project, those of domains first. */
function formPlaces({ domains, collections }: Pick<ProjectParts, 'domains' | 'collections'>): FormPlace[] {
  return Object.entries({ domains, collections }).flatMap(([key, owners]) =>
    Object.entries<{ readonly forms: Readonly<Record<string, FormPlace['form']>> }>(owners).flatMap(([name, owner]) =>
      Object.entries(owner.forms).map(([id, form]) => ({ path: [key, name, 'forms', id], form })),
    ),
  );
}

/** What is forwarded, by domain. */
function forwardingOf({ domains }: Pick<ProjectParts, 'domains'>): ReadonlyMap<string, DomainConfig['forwarding']> {
  return new Map(Object.entries(domains).map(([name, { forwarding }]) => [name, forwarding]));
}

/** Where one message or one post would cause more mail than it may; `most` is `limits.form_recipients`. */
export function fanOutErrors(
  { domains, collections }: Pick<ProjectParts, 'domains' | 'collections'>,
  most: number,
): Finding[] {
  const fanOut = fanOutOf(forwardingOf({ domains }));
  const errors: Finding[] = [];
  for (const [name, { forwarding, forms }] of Object.entries(domains)) {
    for (const [key, route] of Object.entries(forwarding)) {
      if (typeof route !== 'object') continue;
      const path = ['domains', name, 'forwarding', key];
      if (route.length > MAX_TARGETS) {
        errors.push({ path, message: `expected at most ${MAX_TARGETS} addresses, found ${route.length}` });
      } else if (fanOut(route) > MAX_DELIVERIES) {
        const message = `leads to more than ${MAX_DELIVERIES} addresses through other addresses of the project`;
        errors.push({ path, message });
      }
    }
    for (const [id, { to, fallback }] of Object.entries(forms)) {
      const route = to ?? routeOf(forwarding, name, id);
      const form = ['domains', name, 'forms', id];
      const path = [...form, ...(to === undefined ? [] : ['to'])];
      errors.push(...recipientErrors(path, typeof route === 'object' ? fanOut(route) : 0, most));
      errors.push(...recipientErrors([...form, 'fallback', 'to'], fanOut(fallback?.to ?? []), most));
    }
  }
  for (const [name, { forms }] of Object.entries(collections)) {
    for (const [id, { email = [], fallback }] of Object.entries(forms)) {
      const form = ['collections', name, 'forms', id];
      errors.push(...recipientErrors([...form, 'email'], fanOut(email), most));
      errors.push(...recipientErrors([...form, 'fallback', 'to'], fanOut(fallback?.to ?? []), most));
    }
  }
  return errors;
}

function recipientErrors(path: Path, count: number, most: number): Finding[] {
  if (count <= most) return [];
  const found = count > MAX_DELIVERIES ? `more than ${MAX_DELIVERIES}` : String(count);
  const message = `expected at most ${most} recipients (limits.form_recipients), found ${found}`;
  return [{ path, message, key: path.length === 4 }];
}

/** What is doubtful in server.yml. */
export function checkServer(config: ServerConfig): Finding[] {
  const { server, tls, limits } = config;
  const warnings: Finding[] = [];
  if (
    tls.mode === 'acme' &&
    PRIVATE_NAME.test(server.hostname) &&
    !EXAMPLE_NAME.test(server.hostname) &&
    tls.acme.directory === LETS_ENCRYPT
  ) {
    const message = `Let's Encrypt issues no certificates for ${server.hostname}; set tls.acme.directory to your own authority, or tls.mode to files`;
    warnings.push({ path: ['tls', 'mode'], message });
  }
  for (const [i, network] of server.http.trusted_proxies.entries()) {
    if (!network.endsWith('/0')) continue;
    const message = 'trusts everyone, so that any client can fake its IP address';
    warnings.push({ path: ['server', 'http', 'trusted_proxies', i], message });
  }
  for (const [i, address] of server.public_ips.entries()) {
    if (!PRIVATE_RANGES.has(ipaddr.parse(address).range())) continue;
    const message = `other servers never see the private IP address ${address}; use the public one, or leave the key out`;
    warnings.push({ path: ['server', 'public_ips', i], message });
  }
  const { url: bucket } = config.storage;
  if (bucket?.endpoint.startsWith('http://') === true && !isThisMachine(new URL(bucket.endpoint).hostname)) {
    const message = 'has an endpoint without TLS: stored data crosses the network in clear text';
    warnings.push({ path: ['storage', 'url'], message });
  }
  // Base64 with its line ends (RFC 2045 §6.8) is 78/57 of the files.
  if ((limits.files_total * 78) / 57 > limits.message) {
    const message = 'files of this size do not fit into limits.message once encoded (37 % larger)';
    warnings.push({ path: ['limits', 'files_total'], message });
  }
  if (limits.files_total > limits.body) {
    warnings.push({ path: ['limits', 'files_total'], message: 'is more than limits.body allows' });
  }
  return warnings;
}

/** What documentation has in the place of a public name (RFC 2606). */
const EXAMPLE_NAME = /(^|\.)example(\.(com|net|org))?$/;

/** What nobody on the Internet can send to, or comes from. */
const PRIVATE_RANGES: ReadonlySet<string> = new Set(['private', 'linkLocal', 'uniqueLocal', 'carrierGradeNat']);

/** Listeners whose port another one has. */
export function listenerErrors(config: ServerConfig): Finding[] {
  const { roles, http, smtp, metrics } = config.server;
  const isTlsOff = tlsModeOf(config) === 'off';
  const web = roles.includes('http') ? http.listen.map(parseHttpListen) : [];
  const mail = roles.includes('smtp') ? [...smtp.listen.entries()] : [];
  const submission = roles.includes('smtp') && smtp.submission.enabled ? [...smtp.submission.listen.entries()] : [];
  const listeners = [
    ...web.flatMap(({ address, secure }, i) => (secure && isTlsOff ? [] : [listener(address, ['http', 'listen', i])])),
    ...mail.map(([i, text]) => listener(text, ['smtp', 'listen', i])),
    ...submission.map(([i, text]) => listener(text, ['smtp', 'submission', 'listen', i])),
    ...metrics.listen.map((text, i) => listener(text, ['metrics', 'listen', i])),
  ];
  return listeners.flatMap(({ path, host, port }, i) => {
    const other = listeners.slice(0, i).find((each) => {
      return port !== 0 && each.port === port && (covers(each.host, host) || covers(host, each.host));
    });
    if (other === undefined) return [];
    return [{ path, message: `port ${port} is used by ${other.text} of ${other.path.slice(0, -1).join('.')}` }];
  });
}

function listener(text: string, path: Path) {
  return { ...parseListenAddress(text), text, path: ['server', ...path] };
}

/** Whether who listens on one address has the other as well; `::` has IPv4, too. */
function covers(host: string, other: string): boolean {
  return host === other || host === '::' || (host === '0.0.0.0' && !other.includes(':'));
}

function timezoneErrors(timezone: string): Finding[] {
  try {
    new Intl.DateTimeFormat('en', { timeZone: timezone });
    return [];
  } catch {
    const message = `expected a time zone such as Europe/Berlin, found "${timezone}"`;
    const suggestion = nearest(timezone, Intl.supportedValuesOf('timeZone'));
    return [{ path: ['settings', 'timezone'], message, suggestion }];
  }
}

function bodyErrors(name: string, { subject, text, html, html_file }: TemplateConfig): Finding[] {
  const path = ['templates', name];
  if (html !== undefined && html_file !== undefined) {
    return [{ path: [...path, 'html_file'], message: 'html and html_file are both set; remove one of them' }];
  }
  if ([subject, text, html, html_file].every((part) => part === undefined)) {
    return [{ path, message: 'is empty; expected subject, text, html or html_file', key: true }];
  }
  return [];
}

function domainErrors(name: string, { forms, forwarding, default_form }: DomainConfig): Finding[] {
  const path = ['domains', name];
  const errors: Finding[] = [];
  for (const [id, { from }] of Object.entries(forms)) {
    if (from === undefined || parseAddress(from)?.domain === name) continue;
    errors.push({ path: [...path, 'forms', id, 'from'], message: `expected an address at ${name}, found ${from}` });
  }
  for (const key of Object.keys(forwarding)) {
    if (key.endsWith(`@${name}`)) continue;
    const message = `expected an address of this domain such as ${key.split('@')[0]}@${name}`;
    errors.push({ path: [...path, 'forwarding', key], message, key: true });
  }
  if (default_form !== undefined && !Object.hasOwn(forms, default_form)) {
    const suggestion = nearest(default_form, Object.keys(forms));
    errors.push({ path: [...path, 'default_form'], message: `the domain has no form "${default_form}"`, suggestion });
  }
  return errors;
}

/** A * within a name is text (RFC 5321 §4.1.2), which nobody means who writes it. */
function wildcardErrors(name: string, { forwarding }: DomainConfig): Finding[] {
  const keys = Object.keys(forwarding).filter((key) => key.includes('*') && !key.startsWith('*@'));
  const message = `* cannot match a part of an address; only "*@${name}" is a wildcard, for all addresses`;
  return keys.map((key) => ({ path: ['domains', name, 'forwarding', key], message, key: true }));
}

function domainWarnings(name: string, { forms, forwarding }: DomainConfig, owner: string | undefined): Finding[] {
  return Object.entries(forms).flatMap(([id, form]) => {
    const path = ['domains', name, 'forms', id];
    const warnings: Finding[] = [];
    // Where nothing is forwarded, this server hardly is the domain's MX.
    if (form.reply_relay === true && Object.keys(forwarding).length === 0) {
      const message = `replies arrive only if the MX of ${name} is this server, but ${name} forwards no mail`;
      warnings.push({ path: [...path, 'reply_relay'], message });
    }
    if (form.to === undefined && typeof routeOf(forwarding, name, id) !== 'object') {
      warnings.push(noRecipient(path, `neither "to" nor forwarding of ${id}@${name}`, owner));
    }
    return warnings;
  });
}

/** A form, and where it stands. */
export interface FormPlace {
  readonly path: Path;
  readonly form: Omit<FormConfig, 'to' | 'from'>;
}

function formErrors({ path, form }: FormPlace, templates: Templates): Finding[] {
  const errors = templateReference([...path, 'template'], [form.template, 'form'], templates);
  if (form.acknowledgment !== undefined) {
    const place = [...path, 'acknowledgment', 'template'];
    errors.push(...templateReference(place, [form.acknowledgment.template, 'acknowledgment'], templates));
  }
  return errors;
}

/** What can be wrong with a form wherever it is kept. */
export function fieldErrors({ path, form }: FormPlace): Finding[] {
  const errors: Finding[] = [];
  let length = 0;
  for (const [name, { pattern = '' }] of Object.entries(form.fields)) {
    const place = [...path, 'fields', name, 'pattern'];
    length += pattern.length;
    if (length > MAX_PATTERNS_LENGTH) {
      const message = `the patterns of a form can have at most ${MAX_PATTERNS_LENGTH} characters in total; shorten them`;
      errors.push({ path: place, message });
      break;
    }
    const message = pattern === '' ? undefined : patternProblem(pattern);
    if (message !== undefined) errors.push({ path: place, message });
  }
  if (form.required.includes(form.spam_protection.honeypot)) {
    const message = `"${form.spam_protection.honeypot}" is the honeypot: a submission that fills it in is spam`;
    errors.push({ path: [...path, 'required'], message });
  }
  return [...errors, ...optionErrors({ path, form })];
}

/** Options that say nothing, or contradict each other. */
function optionErrors({ path, form: { fallback, store, reply_relay } }: FormPlace): Finding[] {
  const errors: Finding[] = [];
  if (fallback !== undefined && fallback.to === undefined && fallback.webhook === undefined) {
    errors.push({ path: [...path, 'fallback'], message: 'is empty; expected to or webhook', key: true });
  }
  if (reply_relay === true && store !== 'all') {
    const message = `reply_relay needs the address of the visitor after delivery; expected store: all, found ${store}`;
    errors.push({ path: [...path, 'store'], message });
  }
  return errors;
}

function templateReference(path: Path, [name, type]: [string, TemplateType], templates: Templates): Finding[] {
  const found = templates.get(name);
  if (found === undefined) {
    return [{ path, message: `there is no template "${name}"`, suggestion: nearest(name, templates.keys()) }];
  }
  if (found === type || found === 'doubtful') return [];
  return [{ path, message: `the template "${name}" is of type ${found}; expected one of type ${type}` }];
}

function noRecipient(path: Path, why: string, owner: string | undefined): Finding {
  const whom = owner === undefined ? 'server.operator' : 'project.owner';
  return { path, message: `no recipient: ${why}; submissions go to ${whom}`, key: true };
}

/** An error of a template; line and column are those within the part, from 1. */
export interface TemplateProblem {
  readonly template: string;
  readonly part: 'subject' | 'text' | 'html';
  readonly line: number;
  readonly column: number;
  readonly message: string;
}

/** Parses every template and answers what is wrong with them; handed in, because this folder does not know the engine. */
export type CheckTemplates = (templates: ProjectConfig['templates']) => readonly TemplateProblem[];

/** Everything that does not parse: the templates, and the subjects and names of forms, which hold expressions as well. */
export function checkAllTemplates(
  parts: Pick<ProjectConfig, 'domains' | 'collections' | 'templates'>,
  yaml: YamlFile,
  check?: CheckTemplates,
): Problem[] {
  const { templates } = parts;
  return [
    ...(check?.(templates) ?? []).map((problem) => locateInTemplate(problem, yaml, templates)),
    ...expressionProblems(formPlaces(parts), check).map(({ path, ...problem }) => locate(problem, yaml, path)),
  ];
}

/** What is wrong with the expressions of forms, wherever these are kept. */
export function expressionProblems(
  places: readonly FormPlace[],
  check?: CheckTemplates,
): (TemplateProblem & { readonly path: Path })[] {
  const lines = places.flatMap(({ path, form: { subject, from_name, acknowledgment } }) => [
    { path: [...path, 'subject'], source: subject },
    { path: [...path, 'from_name'], source: from_name },
    { path: [...path, 'acknowledgment', 'subject'], source: acknowledgment?.subject },
  ]);
  // Each is a template of its own, called by its number.
  const templates = lines.flatMap(({ source }, i) =>
    source === undefined ? [] : [[i, { type: 'form', subject: source, text: '', variables: {} }] as const],
  );
  const problems = check?.(Object.fromEntries(templates)) ?? [];
  return problems.map((problem) => ({ ...problem, path: lines[Number(problem.template)]?.path ?? [] }));
}

function locateInTemplate(problem: TemplateProblem, yaml: YamlFile, templates: ProjectConfig['templates']): Problem {
  const { template, part, line, column, message } = problem;
  const file = part === 'html' ? templates[template]?.html_file : undefined;
  if (file === undefined) return locate(problem, yaml, ['templates', template, part]);
  return yaml.locate({ path: ['templates', template, 'html_file'], message: `${file}:${line}:${column}: ${message}` });
}

/** Folded and escaped text has other lines than its template; then the value's beginning has to do. */
function locate({ line, column, message }: TemplateProblem, yaml: YamlFile, path: Path): Problem {
  const located = yaml.locate({ path, message });
  const { place, whole } = find(yaml.root, path);
  const style = place?.scalar?.type;
  if (!whole || place === undefined || style === 'BLOCK_FOLDED') return located;
  if (style === 'BLOCK_LITERAL') {
    const indent = /(?<!\n)\n+( +)/.exec(yaml.text.slice(place.start))?.[1]?.length ?? 0;
    return { ...located, line: located.line + line, column: indent + column };
  }
  return line > 1 ? located : { ...located, column: located.column + column - (style === 'PLAIN' ? 1 : 0) };
}
