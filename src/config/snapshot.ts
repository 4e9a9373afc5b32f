/**
 * What the whole configuration says at one moment: frozen, plain data, swapped as a whole on reload, so that nobody ever
 * sees half of an edit. A request keeps the snapshot that it began with.
 */
import { claimId, environmentOf } from '../lib/ids.ts';
import type { DomainConfig, ServerConfig, CollectionConfig, FormConfig, ProjectConfig } from './schema.ts';
import { parseAddress, parseDomain } from '../lib/addresses.ts';
import { followForwarding, routeOf } from './forwarding.ts';
import type { Path } from './problem.ts';
import type { MessageName, Translation } from '../languages/languages.ts';

export interface Snapshot {
  readonly server: ServerConfig;
  readonly projects: readonly Project[];
  /** By domain name (lower case, A-labels); none that only a test key's project claims. */
  readonly domains: ReadonlyMap<string, Domain>;
  /** Every claim to a domain by `claimId`, also those of tenants that do not own it. */
  readonly claims: ReadonlyMap<string, Domain>;
  /** Those of the configuration, by name. */
  readonly collections: ReadonlyMap<string, Collection>;
  /**
   * Domains, and collections as `c/<name>`, of project files that are invalid while no revision is active: their forms
   * answer 503 and their addresses 451 until the file (named in the value) is corrected.
   */
  readonly unavailable: ReadonlyMap<string, string>;
  /** Tenants of whom a project is out of service: what it holds may not even have a name that can be read. */
  readonly unread: ReadonlySet<string>;
  /** What the last reload refused, in the words that the operator reads. */
  readonly problems: readonly string[];
  /** Keys of server.yml whose new values take effect after a restart. */
  readonly waiting: readonly string[];
}

export interface Domain {
  readonly name: string;
  readonly project: Project;
  readonly config: DomainConfig;
  readonly forms: ReadonlyMap<string, Form>;
  /** Whether mail for it is meant to come here. */
  readonly takesMail: boolean;
}

export interface SnapshotParts extends Partial<Pick<Snapshot, 'problems' | 'unavailable' | 'unread' | 'waiting'>> {
  readonly server: ServerConfig;
  /** Where two claim the same and neither owns it, the first has it. */
  readonly projects: readonly Project[];
  /** By domain: the tenant that owns it, where several claim it. */
  readonly owners?: ReadonlyMap<string, string>;
}

/** Puts the parts together and freezes all of it. */
export function buildSnapshot(parts: SnapshotParts): Snapshot {
  const { server, projects, owners = new Map(), unavailable = new Map(), unread = new Set() } = parts;
  const { problems = [], waiting = [] } = parts;
  const claims = new Map<string, Domain>();
  const domains = new Map<string, Domain>();
  const collections = new Map<string, Collection>();
  for (const project of projects) {
    const { tenant, config } = project;
    for (const [name, domain] of Object.entries(config.domains)) {
      const claim = claimId(tenant, name);
      if (claims.has(claim)) continue;
      const forms = formsOfDomain({ name, config: domain, project, server });
      const claimed = Object.freeze({ name, project, config: domain, forms, takesMail: takesMail(domain) });
      claims.set(claim, claimed);
      if (environmentOf(tenant) === 'test') continue;
      if (owners.get(name) === tenant || (!owners.has(name) && !domains.has(name))) domains.set(name, claimed);
    }
    for (const [name, collection] of Object.entries(config.collections)) {
      if (collections.has(name)) continue;
      collections.set(name, collectionOf({ name, tenant, project, config: collection, server }));
    }
  }
  return Object.freeze({
    server: freeze(server),
    projects: Object.freeze(projects.map(freeze)),
    domains: freezeMap(domains),
    claims: freezeMap(claims),
    collections: freezeMap(collections),
    unavailable: freezeMap(unavailable),
    unread,
    problems: Object.freeze([...problems]),
    waiting: Object.freeze([...waiting]),
  });
}

function takesMail({ forwarding, forms }: DomainConfig): boolean {
  return Object.keys(forwarding).length > 0 || Object.values(forms).some((form) => form.reply_relay === true);
}

/** The domain of this name, in whatever case or script it is written. */
export function findDomain(snapshot: Snapshot, name: string): Domain | undefined {
  return snapshot.domains.get(name) ?? snapshot.domains.get(parseDomain(name) ?? '');
}

/** The domain of the configuration that this host (`www.example.com`) is, or is within. */
export function domainOfHost(snapshot: Snapshot, host: string): Domain | undefined {
  for (let name = host; name.includes('.'); name = name.slice(name.indexOf('.') + 1)) {
    const domain = snapshot.domains.get(name);
    if (domain !== undefined) return domain;
  }
  return undefined;
}

// Forms of every kind in one shape: those of domains and collections, and those that the API made by themselves.

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
  /** Who gets it where mail to those fails; empty where nobody does. */
  readonly fallbackTo: readonly string[];
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
  /** Those on the visitor's own computer: on localhost, and files. */
  readonly localhost: boolean;
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
      fallbackTo: followed(form.fallback?.to ?? [], place),
      requireApiKey: false,
      audience: { domain, origins: form.allowed_origins, anyone: false, localhost: form.allow_localhost },
    }),
  );
  return freezeMap(forms.map((form) => [form.key, form]));
}

/**
 * The form's `to`, else what forwarding says of its key, else the owner. An address of the domain itself is followed to
 * where forwarding leads: its mail would only come back to this host, which no message may.
 */
function recipients(key: string, form: FormConfig, place: DomainPlace): readonly string[] {
  return followed(namedRecipients(key, form, place).named, place);
}

function followed(named: readonly string[], place: DomainPlace): readonly string[] {
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
    for (const [key, { to = [], fallback }] of Object.entries(forms)) {
      add(['domains', name, 'forms', key, 'to'], to);
      add(['domains', name, 'forms', key, 'fallback', 'to'], fallback?.to ?? []);
    }
    for (const [key, route] of Object.entries(forwarding))
      if (typeof route === 'object') add(['domains', name, 'forwarding', key], route);
  }
  for (const [name, { forms }] of Object.entries(collections))
    for (const [key, { email = [], fallback }] of Object.entries(forms)) {
      add(['collections', name, 'forms', key, 'email'], email);
      add(['collections', name, 'forms', key, 'fallback', 'to'], fallback?.to ?? []);
    }
  if (project.owner !== undefined) add(['project', 'owner'], [project.owner]);
  return [...found.values()];
}

/** A collection with its forms; where any of the two lists origins, no others may use the form. */
export function collectionOf({
  name,
  tenant,
  project,
  config,
  server,
}: Pick<Collection, 'name' | 'tenant' | 'project' | 'config'> & { readonly server: ServerConfig }): Collection {
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
      fallbackTo: form.fallback?.to ?? [],
      requireApiKey: config.settings.requireApiKey,
      audience: withoutDomain([...config.allowed_origins, ...form.allowed_origins], form),
    }),
  );
  const byKey = freezeMap(forms.map((form) => [form.key, form]));
  return Object.freeze({ name, title: config.name ?? name, tenant, project, config, forms: byKey });
}

/** A form that the API made by itself; `on`: the account's domain that it is on, if any. */
export function ownForm(
  { on, ...own }: Pick<Form, 'id' | 'kind' | 'name' | 'tenant' | 'config'> & { readonly on: string | null },
  { server }: ServerConfig,
): Form {
  const origins = own.config.allowed_origins;
  return formOf({
    ...own,
    key: own.id,
    project: undefined,
    domain: on ?? server.hostname,
    to: own.config.to ?? [],
    fallbackTo: own.config.fallback?.to ?? [],
    requireApiKey: false,
    audience:
      on === null
        ? withoutDomain(origins, own.config)
        : { domain: on, origins, anyone: false, localhost: own.config.allow_localhost },
  });
}

function withoutDomain(origins: readonly string[], form: Pick<FormConfig, 'allow_localhost'>): Audience {
  return { domain: undefined, origins, anyone: origins.length === 0, localhost: form.allow_localhost };
}

function formOf(form: Omit<Form, 'rateLimit' | 'maxPerHour'>): Form {
  const { count: rateLimit } = rateLimitOf(form);
  // All addresses together make no fewer than one alone may.
  const maxPerHour = form.config.max_per_hour ?? Math.max(MAX_PER_HOUR, rateLimit);
  return freeze({ ...form, rateLimit, maxPerHour });
}

interface RateLimit {
  /** Accepted submissions per hour and address. */
  readonly count: number;
  /** The key that says so; undefined for the number that holds where none does. */
  readonly by: 'rateLimit' | 'spam_protection.rate_limit' | 'settings.rate_limit' | undefined;
}

/** How often one visitor may post to the form, and what says so. */
export function rateLimitOf({ config, project }: Pick<Form, 'config' | 'project'>): RateLimit {
  const { rateLimit, spam_protection } = config;
  if (rateLimit !== undefined) return { count: rateLimit, by: 'rateLimit' };
  const own = spam_protection.rate_limit;
  if (own !== undefined) return { count: own, by: 'spam_protection.rate_limit' };
  const count = project?.config.settings.rate_limit;
  return count === undefined ? { count: RATE_LIMIT, by: undefined } : { count, by: 'settings.rate_limit' };
}

/** What the configuration says of the field; a list may be sent as `name[]`. */
export function ruleOf({ fields }: Pick<FormConfig, 'fields'>, name: string): FormConfig['fields'][string] | undefined {
  const key = withoutBrackets(name);
  return Object.hasOwn(fields, key) ? fields[key] : undefined;
}

/** What fields of most forms are called, by their names without signs and capitals. */
const USUAL_FIELDS: ReadonlyMap<string, MessageName> = new Map([
  ...['name', 'yourname', 'fullname'].map((name) => [name, 'label.name'] as const),
  ...['firstname', 'fname', 'givenname'].map((name) => [name, 'label.firstName'] as const),
  ...['lastname', 'lname', 'surname', 'familyname'].map((name) => [name, 'label.lastName'] as const),
  ...['email', 'youremail', 'emailaddress', 'mail'].map((name) => [name, 'label.email'] as const),
  ...['phone', 'yourphone', 'phonenumber', 'telephone', 'tel'].map((name) => [name, 'label.phone'] as const),
  ...['message', 'yourmessage', 'msg'].map((name) => [name, 'label.message'] as const),
  ...['subject', 'yoursubject'].map((name) => [name, 'label.subject'] as const),
  ...['company', 'companyname', 'organisation', 'organization'].map((name) => [name, 'label.company'] as const),
  ['address', 'label.address'],
  ['city', 'label.city'],
  ['country', 'label.country'],
  ['website', 'label.website'],
]);

/**
 * The configured label, else the usual one in the language of the reader, else the name as a person would write it:
 * `date_of_birth` is "Date of birth".
 */
export function labelOf(
  config: Pick<FormConfig, 'fields'>,
  name: string,
  translation?: Pick<Translation, 'say'>,
): string {
  const configured = ruleOf(config, name)?.label;
  if (configured !== undefined) return configured;
  const usual =
    translation &&
    USUAL_FIELDS.get(
      withoutBrackets(name)
        .toLowerCase()
        .replaceAll(/[_. -]/g, ''),
    );
  if (translation !== undefined && usual !== undefined) return translation.say(usual);
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

/**
 * Freezes the data through and through, in place. Maps lose their prototype, so that a look-up with a name that a
 * stranger chose (`constructor`, `toString`) finds nothing but what was configured.
 */
export function freeze<T>(data: T): T {
  if (typeof data !== 'object' || data === null || Object.isFrozen(data)) return data;
  if (!Array.isArray(data)) Object.setPrototypeOf(data, null);
  for (const value of Object.values(data)) freeze(value);
  return Object.freeze(data);
}

/** A Map that throws when it is changed. */
function freezeMap<K, V>(entries: Iterable<readonly [K, V]>): ReadonlyMap<K, V> {
  const map = new Map(entries);
  // Called as a function it throws a TypeError.
  for (const name of ['set', 'delete', 'clear']) Object.defineProperty(map, name, { value: undefined });
  return Object.freeze(map);
}
