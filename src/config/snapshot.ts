/**
 * What the whole configuration says at one moment: frozen, plain data, swapped as a whole on reload, so that nobody ever
 * sees half of an edit. A request keeps the snapshot that it began with.
 */
import { routeOf } from './forwarding.ts';
import { freeze, freezeMap } from './freeze.ts';
import type { DomainConfig, FormConfig, ProjectConfig, ServerConfig } from './schema.ts';

/** Accepted submissions per hour and address of a form for which nothing else is said. */
const RATE_LIMIT = 60;

/** A project as one revision of its YAML says it. */
export interface Project {
  /** `rev_…` of the store; what was accepted is rendered under this. */
  readonly revision: string;
  readonly slug: string;
  readonly tenant: string;
  readonly source: 'file' | 'push';
  readonly config: ProjectConfig;
}

export interface Snapshot {
  readonly server: ServerConfig;
  readonly projects: readonly Project[];
  /** By domain name (lower case, A-labels). */
  readonly domains: ReadonlyMap<string, Domain>;
  /**
   * Domains of project files that are invalid and have no good revision to run on: their forms answer 503 and their
   * addresses 451 until the file (named in the value) is mended.
   */
  readonly unavailable: ReadonlyMap<string, string>;
  /** What the last reload refused or put off, in the words that the operator reads. */
  readonly problems: readonly string[];
}

export interface Domain {
  readonly name: string;
  readonly project: Project;
  readonly config: DomainConfig;
  readonly forms: ReadonlyMap<string, Form>;
}

export interface Form {
  /** `<domain>/<form_id>`, as the API names it. */
  readonly id: string;
  /** The key in the YAML. */
  readonly key: string;
  readonly name: string;
  readonly project: Project;
  readonly domain: string;
  readonly config: FormConfig;
  /** Who gets the notification (http-api: the form's `to`, else forwarding, else the owner, else the operator). */
  readonly to: readonly string[];
  /** Accepted submissions per hour and address. */
  readonly rateLimit: number;
}

export interface SnapshotParts {
  readonly server: ServerConfig;
  /** No two of them claim the same domain. */
  readonly projects: readonly Project[];
  readonly problems?: readonly string[];
  readonly unavailable?: ReadonlyMap<string, string>;
}

/** Puts the parts together and freezes all of it. */
export function buildSnapshot({ server, projects, problems = [], unavailable = new Map() }: SnapshotParts): Snapshot {
  const domains = projects.flatMap((project) =>
    Object.entries(project.config.domains).map(
      ([name, config]) => [name, buildDomain({ name, config, project, server })] as const,
    ),
  );
  return Object.freeze({
    server: freeze(server),
    projects: Object.freeze(projects.map(freeze)),
    domains: freezeMap(domains),
    unavailable: freezeMap(unavailable),
    problems: Object.freeze([...problems]),
  });
}

interface Place {
  readonly name: string;
  readonly config: DomainConfig;
  readonly project: Project;
  readonly server: ServerConfig;
}

function buildDomain(place: Place): Domain {
  const { name, config, project } = place;
  const forms = Object.entries(config.forms).map(([key, form]) => [key, buildForm(key, form, place)] as const);
  return Object.freeze({ name, project, config, forms: freezeMap(forms) });
}

function buildForm(key: string, form: FormConfig, place: Place): Form {
  const { name: domain, project } = place;
  const { rateLimit = form.spam_protection.rate_limit } = form;
  return freeze({
    id: `${domain}/${key}`,
    key,
    name: form.name ?? key,
    project,
    domain,
    config: form,
    to: recipients(key, form, place),
    rateLimit: rateLimit ?? project.config.settings.rate_limit ?? RATE_LIMIT,
  });
}

function recipients(key: string, form: FormConfig, { name, config, project, server }: Place): readonly string[] {
  if (form.to !== undefined) return form.to;
  const route = routeOf(config.forwarding, name, key);
  return typeof route === 'object' ? route : [project.config.project.owner ?? server.server.operator];
}
