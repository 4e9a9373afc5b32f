/** Forms of every kind in one shape: those of domains and collections, and those that the API made by themselves. */
import { parseAddress } from '../lib/addresses.ts';
import { followForwarding, routeOf } from './forwarding.ts';
import { freeze, freezeMap } from './freeze.ts';
import type { Path } from './problem.ts';
import type { CollectionConfig, DomainConfig, FormConfig, ProjectConfig, ServerConfig } from './schema.ts';

/** Accepted submissions per hour and address of a form for which nothing else is said. */
const RATE_LIMIT = 60;
/** The same from all addresses. */
const MAX_PER_HOUR = 1000;

/** A project as one revision of its YAML says it. */
export interface Project {
  /** `rev_…` of the store; what was accepted is rendered under this. */
  readonly revision: string;
  readonly slug: string;
  readonly tenant: string;
  readonly source: 'file' | 'push' | 'api';
  /** The tenant's own address, for mail that has no other; the operator's where there is none. */
  readonly contact?: string;
  readonly config: ProjectConfig;
}

export interface Form {
  /** As the API names it: `<domain>/<key>`, `c/<collection>/<key>` or `frm_…`. */
  readonly id: string;
  readonly kind: 'domain' | 'collection' | 'api' | 'instant';
  /** The key in the YAML; the id of one that the API made by itself. */
  readonly key: string;
  readonly name: string;
  readonly tenant: string;
  /** In whose configuration it stands; undefined where the API made it. */
  readonly project: Project | undefined;
  /** Whose name its mail is from: the form's domain, else the server's host name. */
  readonly domain: string;
  readonly config: FormConfig;
  /** Who gets the notification (http-api: the form's `to`, else forwarding, else the owner, else the operator). */
  readonly to: readonly string[];
  /** Accepted submissions per hour and address. */
  readonly rateLimit: number;
  /** Submissions per hour from all addresses together. */
  readonly maxPerHour: number;
  readonly requireApiKey: boolean;
  readonly audience: Audience;
}

/** Whose pages may use a form. */
export interface Audience {
  /** Those of this domain and its subdomains, with any scheme and port. */
  readonly domain: string | undefined;
  /** Those of these origins. */
  readonly origins: readonly string[];
  /** Those of any origin. */
  readonly anyone: boolean;
}

export interface Collection {
  readonly name: string;
  /** For people. */
  readonly title: string;
  readonly tenant: string;
  readonly project: Project | undefined;
  readonly config: CollectionConfig;
  readonly forms: ReadonlyMap<string, Form>;
}

export interface DomainPlace {
  readonly name: string;
  readonly config: DomainConfig;
  readonly project: Project;
  readonly server: ServerConfig;
}

/** The forms of a domain. */
export function formsOfDomain(place: DomainPlace): ReadonlyMap<string, Form> {
  const { name: domain, project, config } = place;
  const forms = Object.entries(config.forms).map(([key, form]) =>
    formOf({
      id: `${domain}/${key}`,
      kind: 'domain',
      key,
      name: form.name ?? key,
      tenant: project.tenant,
      project,
      domain,
      config: form,
      to: recipients(key, form, place),
      requireApiKey: false,
      audience: { domain, origins: form.allowed_origins, anyone: false },
    }),
  );
  return freezeMap(forms.map((form) => [form.key, form]));
}

/**
 * The form's `to`, else what forwarding says of its key, else the owner. An address of the domain itself is followed to
 * where forwarding leads: its mail would only come back to this host, which no message may.
 */
function recipients(key: string, form: FormConfig, place: DomainPlace): readonly string[] {
  const { named } = namedRecipients(key, form, place);
  const { forwarding } = place.config;
  const start = named.flatMap((address) => parseAddress(address) ?? []);
  const { targets } = followForwarding(start, ({ domain, local }) => routeOf(forwarding, domain, local));
  // Where all of it is discarded, or goes round in a loop, its own address says so.
  return targets.length === 0 ? named : targets;
}

export interface Named {
  readonly named: readonly string[];
  readonly by: 'to' | 'forwarding' | Responsible;
}

type Responsible = 'owner' | 'account' | 'operator';

/** Whom the configuration names as the recipients of a domain's form, and by what. */
export function namedRecipients(key: string, form: FormConfig, { name, config, project, server }: DomainPlace): Named {
  if (form.to !== undefined) return { named: form.to, by: 'to' };
  const route = routeOf(config.forwarding, name, key);
  if (typeof route === 'object') return { named: route, by: 'forwarding' };
  const { address, by } = responsible(project, server);
  return { named: [address], by };
}

/** Who gets what names nobody: the project's owner, else its tenant, else the operator. */
export function responsible(
  project: Project | undefined,
  { server }: ServerConfig,
): { readonly address: string; readonly by: Responsible } {
  const owner = project?.config.project.owner;
  if (owner !== undefined) return { address: owner, by: 'owner' };
  if (project?.contact !== undefined) return { address: project.contact, by: 'account' };
  return { address: server.operator, by: 'operator' };
}

/** An address that a project names as a recipient, and where. */
export interface NamedRecipient {
  readonly path: Path;
  readonly address: string;
}

/** The addresses that the project names as recipients, each where it stands first. */
export function namedRecipientsOf({ project, domains, collections }: ProjectConfig): readonly NamedRecipient[] {
  const found = new Map<string, NamedRecipient>();
  function add(path: Path, addresses: readonly string[]): void {
    for (const address of addresses) if (!found.has(address)) found.set(address, { path, address });
  }
  for (const [name, { forms, forwarding }] of Object.entries(domains)) {
    for (const [key, { to = [] }] of Object.entries(forms)) add(['domains', name, 'forms', key, 'to'], to);
    for (const [key, route] of Object.entries(forwarding))
      if (typeof route === 'object') add(['domains', name, 'forwarding', key], route);
  }
  for (const [name, { forms }] of Object.entries(collections))
    for (const [key, { email = [] }] of Object.entries(forms)) add(['collections', name, 'forms', key, 'email'], email);
  if (project.owner !== undefined) add(['project', 'owner'], [project.owner]);
  return [...found.values()];
}

export interface NewCollection extends Pick<Collection, 'name' | 'tenant' | 'project' | 'config'> {
  readonly server: ServerConfig;
}

/** A collection with its forms; where any of the two lists origins, no others may use the form. */
export function collectionOf({ name, tenant, project, config, server }: NewCollection): Collection {
  const forms = Object.entries(config.forms).map(([key, { email, ...form }]) =>
    formOf({
      id: `c/${name}/${key}`,
      kind: 'collection',
      key,
      name: form.name ?? key,
      tenant,
      project,
      domain: server.server.hostname,
      config: { ...form, to: email },
      to: email ?? [responsible(project, server).address],
      requireApiKey: config.settings.requireApiKey,
      audience: withoutDomain([...config.allowed_origins, ...form.allowed_origins]),
    }),
  );
  const title = config.name ?? name;
  return Object.freeze({
    name,
    title,
    tenant,
    project,
    config,
    forms: freezeMap(forms.map((form) => [form.key, form])),
  });
}

export interface OwnForm extends Pick<Form, 'id' | 'name' | 'tenant' | 'config'> {
  readonly kind: 'api' | 'instant';
  /** The account's domain that it is on, if any. */
  readonly on: string | null;
}

/** A form that the API made by itself. */
export function ownForm({ on, ...own }: OwnForm, { server }: ServerConfig): Form {
  const origins = own.config.allowed_origins;
  return formOf({
    ...own,
    key: own.id,
    project: undefined,
    domain: on ?? server.hostname,
    to: own.config.to ?? [],
    requireApiKey: false,
    audience: on === null ? withoutDomain(origins) : { domain: on, origins, anyone: false },
  });
}

function withoutDomain(origins: readonly string[]): Audience {
  return { domain: undefined, origins, anyone: origins.length === 0 };
}

function formOf(form: Omit<Form, 'rateLimit' | 'maxPerHour'>): Form {
  const { count: rateLimit } = rateLimitOf(form);
  // All addresses together make no fewer than one alone may.
  const maxPerHour = form.config.max_per_hour ?? Math.max(MAX_PER_HOUR, rateLimit);
  return freeze({ ...form, rateLimit, maxPerHour });
}

export interface RateLimit {
  /** Accepted submissions per hour and address. */
  readonly count: number;
  /** The key that says so; undefined for the number that holds where none does. */
  readonly by: 'rateLimit' | 'spam_protection.rate_limit' | 'settings.rate_limit' | undefined;
}

/** How often one visitor may post to the form, and what says so. */
export function rateLimitOf({ config, project }: Pick<Form, 'config' | 'project'>): RateLimit {
  const { rateLimit, spam_protection } = config;
  if (rateLimit !== undefined) return { count: rateLimit, by: 'rateLimit' };
  if (spam_protection.rate_limit !== undefined)
    return { count: spam_protection.rate_limit, by: 'spam_protection.rate_limit' };
  const count = project?.config.settings.rate_limit;
  return count === undefined ? { count: RATE_LIMIT, by: undefined } : { count, by: 'settings.rate_limit' };
}

type FieldRule = FormConfig['fields'][string];

/** What the configuration says of the field; a list may be sent as `name[]`. */
export function ruleOf({ fields }: Pick<FormConfig, 'fields'>, name: string): FieldRule | undefined {
  const key = withoutBrackets(name);
  return Object.hasOwn(fields, key) ? fields[key] : undefined;
}

/** The configured label, else the name as a person would write it: `first_name` is "First name". */
export function labelOf(config: Pick<FormConfig, 'fields'>, name: string): string {
  const configured = ruleOf(config, name)?.label;
  if (configured !== undefined) return configured;
  // Whoever names a field in words, or in another script, has chosen how it reads.
  if (!/^[a-z][\w.-]*(?:\[\])?$/i.test(name)) return name;
  const words = withoutBrackets(name)
    .replaceAll(/([a-z])([A-Z])/g, '$1 $2')
    .replaceAll(/[_.-]+/g, ' ')
    .trim();
  return words.charAt(0).toUpperCase() + words.slice(1);
}

function withoutBrackets(name: string): string {
  return name.endsWith('[]') ? name.slice(0, -2) : name;
}
