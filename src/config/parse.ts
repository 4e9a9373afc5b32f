/**
 * A file's text to its configuration, or to everything that is wrong with it at once. Pure: what lies beside the file and
 * what references stand for is handed in, so that a revision out of the database is read by the same code as a file.
 */
import { normalize } from 'node:path/posix';
import type { z } from 'zod';
import {
  checkProject,
  checkServer,
  fanOutErrors,
  listenerErrors,
  type ProjectParts,
  checkAllTemplates,
  type CheckTemplates,
} from './checks.ts';
import { explain, valueAt, knownKeys, sameKeys } from './explain.ts';
import { imageProblem, isDataUrl } from './images.ts';
import { freeze } from './snapshot.ts';
import { formatProblem, type Finding, type Problem, type Path } from './problem.ts';
import { UserError } from '../lib/errors.ts';
import { type FormConfig, type ProjectConfig, type ServerConfig, projectSchema } from './schema.ts';
import { serverSchema } from './schema-server.ts';
import { resolveSecrets, unmarkedReferences, type Reference, type SecretSource } from './secrets.ts';
import { readYaml, type YamlFile } from './yaml.ts';

export interface Invalid {
  readonly errors: readonly Problem[];
  readonly warnings: readonly Problem[];
}

interface Valid<Config> {
  readonly ok: Config;
  readonly warnings: readonly Problem[];
}

export interface ValidServer extends Valid<ServerConfig> {
  /** The values that were written as references to secrets. */
  readonly references: readonly Reference[];
  /** What the file says. */
  readonly data: unknown;
}

export type ValidProject = Valid<ProjectConfig>;

/** What a project's text is read together with. */
export interface ProjectContext {
  /** Contents of the files that `html_file` and `logo` name, by the name as written; an image is a data: URL. */
  readonly files: Readonly<Record<string, string>>;
  /** Why a file could not be had, by the name as written. */
  readonly refused?: Readonly<Record<string, string>>;
  readonly env: SecretSource;
  readonly checkTemplates?: CheckTemplates | undefined;
  /** `limits.form_recipients`; without it, as for what is active, nobody counts where mail leads. */
  readonly formRecipients?: number | undefined;
  /** It was accepted before, maybe by an older version: its templates and patterns are not looked at again. */
  readonly accepted?: boolean | undefined;
  readonly maxTemplates?: number | undefined;
}

/** Reads server.yml; `file` is its name in reports. */
export function parseServer(text: string, file: string, env: SecretSource): ValidServer | Invalid {
  const read = readFile(readYaml(text, file), serverSchema, (value) => resolveSecrets(value, env, 'text'));
  if (read.value === undefined) return { errors: reported(read.errors, read), warnings: [] };
  const errors = listenerErrors(read.value).map(read.yaml.locate);
  if (errors.length > 0) return { errors, warnings: [] };
  const warnings = [...unmarkedReferences(read.data), ...checkServer(read.value)].map(read.yaml.locate);
  return { ok: freeze(read.value), warnings, references: read.references, data: read.yaml.value };
}

/** What can be read of a server.yml, valid or not. */
export interface ReadableServer {
  /** Defaults stand for what is wrong, and for what a reference to a secret hides from this user. */
  readonly server: ServerConfig;
  /** What is wrong, but for such references. */
  readonly errors: readonly Problem[];
  /** Such references, and why they cannot be followed. */
  readonly hidden: readonly Problem[];
  /** Whether the name of the server is the file's. */
  readonly named: boolean;
}

/** In place of what every server.yml must say. */
const UNNAMED = { hostname: 'unknown.invalid', operator: 'unknown@unknown.invalid' };

/** Reads of server.yml what can be read; `file` is its name in reports. */
export function readableServer(text: string, file: string, env: SecretSource): ReadableServer {
  const parsed = parseServer(text, file, env);
  if ('ok' in parsed) return { server: parsed.ok, errors: [], hidden: [], named: true };
  const yaml = readYaml(text, file);
  const { value, findings: secrets } = resolveSecrets(yaml.value, env, 'text');
  const hidden = secrets.map(yaml.locate);
  const hiddenPaths = new Set(hidden.map(({ path }) => path));
  const errors = parsed.errors.filter(({ path }) => !hiddenPaths.has(path));
  let data = prune(
    value,
    secrets.map(({ path }) => path),
  );
  for (let tries = 1; ; tries++) {
    const server = { ...UNNAMED, ...objectAt(data, 'server') };
    const result = serverSchema.safeParse({ ...objectAt({ data }, 'data'), server });
    if (result.success) {
      const named = result.data.server.hostname !== UNNAMED.hostname;
      return { server: freeze(result.data), errors, hidden, named };
    }
    const paths = result.error.issues.flatMap((issue) =>
      (issue.code === 'unrecognized_keys' ? issue.keys.map((key) => [...issue.path, key]) : [issue.path]).map((path) =>
        path.map(String),
      ),
    );
    // What is still wrong without its wrong values goes as a whole.
    data = prune(data, tries <= MAX_PRUNINGS ? paths : paths.map((path) => path.slice(0, 1)));
  }
}

/**
 * `database.url` of a server.yml whose rest may be wrong, or need secrets that are not here. Throws UserError where it cannot be
 * known: a database is not to be replaced or moved because a section has a wrong name and the default stands for it.
 */
export function knownDatabaseUrl({ server, errors, hidden }: ReadableServer): string {
  const problem = [...errors, ...hidden].find(({ path }) => path.startsWith('database') || !path.includes('.'));
  if (problem !== undefined) throw new UserError(formatProblem(problem));
  return server.database.url;
}

/** So often single values are left out: what was behind one that is wrong may be wrong itself. */
const MAX_PRUNINGS = 4;

/** Reads a project file; `file` is its name in reports. */
export function parseProject(text: string, file: string, context: ProjectContext): ValidProject | Invalid {
  const read = readFile(readYaml(text, file), projectSchema, (value) =>
    resolveSecrets(value, context.env, 'whole values'),
  );
  const parts = read.value ?? readableParts(read.data, read.findings);
  const found = parts === undefined ? undefined : inspect(parts, read, context);
  const errors = reported([...read.errors, ...(found?.errors ?? [])], read);
  const warnings = reported(found?.warnings ?? [], read);
  if (errors.length > 0 || read.value === undefined || found === undefined) return { errors, warnings };
  const { domains, collections, templates } = found;
  return { ok: freeze({ ...read.value, domains, collections, templates }), warnings };
}

/** What can be told of a project's text, valid or not; `files` are those that it needs. */
export interface Glance extends Record<'domains' | 'collections' | 'files', readonly string[]> {
  readonly slug: string | undefined;
}

/** Looks at a project's text. */
export function glanceAtProject(text: string): Glance {
  const { value } = readYaml(text, '');
  const slug = valueAt(value, ['project', 'slug']);
  const templates = Object.values(objectAt(value, 'templates')).map((each) => valueAt(each, ['html_file']));
  const forms = [objectAt(value, 'domains'), objectAt(value, 'collections')]
    .flatMap(valuesOf)
    .flatMap((owner) => valuesOf(objectAt(owner, 'forms')));
  const logos = forms.map((form) => valueAt(form, ['theme', 'logo']));
  return {
    slug: typeof slug === 'string' ? slug : undefined,
    domains: Object.keys(objectAt(value, 'domains')),
    collections: Object.keys(objectAt(value, 'collections')),
    files: [...new Set([...templates, ...logos])]
      .filter((name) => typeof name === 'string')
      .filter((name) => !isDataUrl(name)),
  };
}

interface Read<T> {
  readonly yaml: YamlFile;
  /** The valid value; undefined where anything is wrong. */
  readonly value: T | undefined;
  readonly data: unknown;
  readonly findings: readonly Finding[];
  readonly errors: readonly Problem[];
  readonly references: readonly Reference[];
}

function readFile<S extends z.ZodType>(
  yaml: YamlFile,
  schema: S,
  resolve: (value: unknown) => ReturnType<typeof resolveSecrets>,
): Read<z.output<S>> {
  const nothing = { yaml, value: undefined, data: undefined, findings: [], references: [] };
  if (yaml.broken) return { ...nothing, errors: yaml.problems };
  if (yaml.value === null) {
    const message = `the file is empty; expected ${knownKeys(schema, []).join(', ')}`;
    return { ...nothing, errors: [...yaml.problems, yaml.locate({ path: [], message })] };
  }
  const { value: data, references, findings: secrets } = resolve(yaml.value);
  const result = schema.safeParse(data);
  const wrong = result.success ? [] : explain(result.error.issues, schema, yaml);
  const findings = [...secrets, ...wrong, ...sameKeys(schema, data)];
  const errors = onePerPlace([...yaml.problems, ...findings.map(yaml.locate)]);
  const value = result.success && errors.length === 0 ? result.data : undefined;
  return { yaml, value, data, findings, errors, references };
}

/** A value that is already known to be wrong (a lost reference, say) is not blamed for what follows from that. */
function onePerPlace(problems: readonly Problem[]): Problem[] {
  const seen = new Set<string>();
  return problems.filter(({ line, column, path }) => {
    const place = `${line}:${column} ${path}`;
    return !seen.has(place) && seen.add(place);
  });
}

/** In the order of the file, with references in place of what they stand for, which checks of the values may have repeated. */
function reported(problems: readonly Problem[], { data, references }: Read<unknown>): readonly Problem[] {
  const secrets = references.flatMap(({ path, reference }) => {
    const value = valueAt(data, path);
    return typeof value === 'string' && value !== '' ? [[value, reference] as const] : [];
  });
  const sorted = problems.toSorted((a, b) => a.line - b.line || a.column - b.column);
  return sorted.map((problem) => ({
    ...problem,
    message: secrets.reduce((text, [value, reference]) => text.replaceAll(value, () => reference), problem.message),
  }));
}

/** The parts that can be checked against each other although something else is wrong. */
function readableParts(data: unknown, findings: readonly Finding[]): ProjectParts | undefined {
  const result = projectSchema
    .omit({ project: true })
    .safeParse(prune(data, [['project'], ...findings.map(({ path }) => path)]));
  return result.data;
}

function inspect(parts: ProjectParts, read: Read<ProjectConfig>, context: ProjectContext) {
  const owner = valueAt(read.data, ['project', 'owner']);
  const { errors, warnings } = checkProject(parts, {
    owner: typeof owner === 'string' ? owner : undefined,
    accepted: context.accepted,
    doubtful: new Set(read.findings.flatMap(({ path }) => (path[0] === 'templates' ? [String(path[1])] : []))),
  });
  // Mail that goes round in a loop leads nowhere.
  const most = errors.length === 0 ? context.formRecipients : undefined;
  const tooMany = most === undefined ? [] : fanOutErrors(parts, most);
  const { templates, missing } = withFiles(parts.templates, context);
  const domains = withLogos('domains', parts.domains, context);
  const collections = withLogos('collections', parts.collections, context);
  const logos = [...domains.missing, ...collections.missing];
  const many = countErrors(templates, context.maxTemplates);
  const broken = many.length > 0 ? [] : checkAllTemplates({ ...parts, templates }, read.yaml, context.checkTemplates);
  return {
    errors: [...[...errors, ...tooMany, ...missing, ...logos, ...many].map(read.yaml.locate), ...broken],
    // What is left of a file with errors says too little to warn of anything.
    warnings: read.value === undefined ? [] : warnings.map(read.yaml.locate),
    templates,
    domains: domains.filled,
    collections: collections.filled,
  };
}

function countErrors(templates: ProjectConfig['templates'], most = Number.POSITIVE_INFINITY): Finding[] {
  const count = Object.keys(templates).length;
  if (count <= most) return [];
  return [{ path: ['templates'], message: `a project can have at most ${most} templates, found ${count}`, key: true }];
}

function withFiles(
  templates: ProjectConfig['templates'],
  context: ProjectContext,
): { templates: ProjectConfig['templates']; missing: Finding[] } {
  const missing: Finding[] = [];
  const filled = Object.entries(templates).map(([name, template]) => {
    const file = template.html_file;
    if (file === undefined) return [name, template] as const;
    const read = contentOf(file, context);
    if ('text' in read) return [name, { ...template, html: read.text }] as const;
    missing.push({ path: ['templates', name, 'html_file'], message: read.problem });
    return [name, template] as const;
  });
  return { templates: Object.fromEntries(filled), missing };
}

/** Domains or collections with the images that the themes of their forms name in place of the names. */
function withLogos<F extends Pick<FormConfig, 'theme'>, Owner extends { readonly forms: Readonly<Record<string, F>> }>(
  key: 'domains' | 'collections',
  owners: Readonly<Record<string, Owner>>,
  context: ProjectContext,
): { filled: Record<string, Owner>; missing: Finding[] } {
  const missing: Finding[] = [];

  function withLogo(form: F, path: Path): F {
    const { theme } = form;
    if (theme?.logo === undefined || isDataUrl(theme.logo)) return form;
    const read = contentOf(theme.logo, context);
    const problem = 'text' in read ? imageProblem(read.text) : read.problem;
    if (problem !== undefined) missing.push({ path, message: problem });
    return 'text' in read ? { ...form, theme: { ...theme, logo: read.text } } : form;
  }

  const filled = Object.entries(owners).map(([name, owner]) => {
    const forms = Object.entries(owner.forms).map(([id, form]) => {
      return [id, withLogo(form, [key, name, 'forms', id, 'theme', 'logo'])] as const;
    });
    return [name, { ...owner, forms: Object.fromEntries(forms) }] as const;
  });
  return { filled: Object.fromEntries(filled), missing };
}

/** What the file holds that the project names. */
function contentOf(
  file: string,
  { files, refused = {} }: ProjectContext,
): { readonly text: string } | { readonly problem: string } {
  const known = nameIn(files, file);
  const text = known === undefined ? undefined : files[known];
  if (text !== undefined) return { text };
  const reason = Object.hasOwn(refused, file) ? refused[file] : undefined;
  return { problem: reason ?? `the file ${file} is missing` };
}

/** The name that a file has there: `./a.html` and `a.html` are one. */
function nameIn(files: ProjectContext['files'], file: string): string | undefined {
  if (Object.hasOwn(files, file)) return file;
  return Object.keys(files).find((name) => normalize(name) === normalize(file));
}

function valuesOf(map: object): readonly unknown[] {
  return Object.values(map);
}

function objectAt(data: unknown, key: string): object {
  const value = valueAt(data, [key]);
  return typeof value === 'object' && value !== null ? value : {};
}

/**
 * A copy of the data without the values at these paths. A list with a wrong entry goes as a whole: what is left of it
 * would mean something else.
 */
function prune(data: unknown, paths: readonly Path[]): unknown {
  if (paths.length === 0 || typeof data !== 'object' || data === null) return data;
  const below = Map.groupBy(paths, ([key]) => String(key));
  const entries = Object.entries(data).flatMap(([key, value]) => {
    const inner = (below.get(key) ?? []).map(([, ...rest]) => rest);
    const isCut = inner.some((path) => path.length === 0) || (Array.isArray(value) && inner.length > 0);
    return isCut ? [] : [[key, prune(value, inner)] as const];
  });
  return Object.fromEntries(entries);
}
