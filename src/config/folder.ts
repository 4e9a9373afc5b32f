/**
 * The project files beside server.yml: which of them can be deployed, and what is wrong with the others. The daemon makes
 * revisions by it and `postern config check` reports it. A file with an error, or that wants what another project has, never
 * affects another file. Nothing is kept or started here.
 */
import { stat } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import { codeOf, messageOf, UserError } from '../lib/errors.ts';
import { listProjects, readBeside, readText, STATE_FOLDER, unloadedFiles } from './files.ts';
import {
  glanceAtProject,
  parseProject,
  parseServer,
  readableServer,
  type Invalid,
  type ReadableServer,
  type ValidProject,
  type ValidServer,
} from './parse.ts';
import { type Finding, formatProblem, type Path } from './problem.ts';
import type { ServerConfig, ProjectConfig } from './schema.ts';
import type { SecretSource } from './secrets.ts';
import { certificateProblem, isPem, readCertificate } from '../lib/certificate.ts';
import { systemClock } from '../lib/clock.ts';
import type { CheckTemplates } from './checks.ts';
import { readYaml } from './yaml.ts';
import { parseDomain } from '../lib/addresses.ts';
import type { Project } from './snapshot.ts';
import { forwardingLoops } from './forwarding.ts';
import { tlsModeOf } from './schema-server.ts';

export interface ProjectFile {
  /** Relative to the folder of server.yml: `projects/example.yml`, whatever that folder is called. */
  readonly file: string;
  /** As the operator knows it, for reports. */
  readonly shown: string;
  readonly text: string;
  /** Contents of what it names with `html_file`. */
  readonly files: Readonly<Record<string, string>>;
  readonly result: ValidProject | Invalid;
}

/** How files are read. */
export interface Reading {
  readonly secrets: SecretSource;
  readonly checkTemplates?: CheckTemplates | undefined;
  /** `limits.form_recipients` of the server; default: that of the schema. */
  readonly formRecipients?: number | undefined;
}

const FORM_RECIPIENTS = 20;

/** Reads server.yml. A file that cannot be read is a UserError; what is wrong in it is in the answer. */
export async function loadServer(
  file: string,
  secrets: SecretSource,
  { checkMachine = false }: { readonly checkMachine?: boolean } = {},
): Promise<ValidServer | Invalid> {
  const read = await readText(file);
  if ('problem' in read) throw new UserError(read.problem);
  const result = parseServer(read.text, file, secrets);
  if (!checkMachine || !('ok' in result)) return result;
  const { errors, warnings } = await checkPaths(result.ok);
  const { locate } = readYaml(read.text, file);
  const all = [...result.warnings, ...warnings.map(locate)];
  return errors.length === 0 ? { ...result, warnings: all } : { errors: errors.map(locate), warnings: all };
}

/** Reads of server.yml what can be read. Throws UserError where there is no such file. */
export async function loadReadable(file: string, secrets: SecretSource): Promise<ReadableServer> {
  const read = await readText(file);
  if ('text' in read) return readableServer(read.text, file, secrets);
  if (read.missing) throw new UserError(read.problem);
  const { line, column, why: message } = read;
  return { ...readableServer('', file, secrets), errors: [{ file, line, column, path: '', message }] };
}

/** Paths that the configuration names and this machine lacks, or does not let this user read; a certificate that cannot be used. */
async function checkPaths({ server, tls, database, delivery }: ServerConfig) {
  const mode = tlsModeOf({ server, tls });
  const errors: Finding[] = [];
  const warnings: Finding[] = [];
  const files = mode === 'files' ? tls.files : null;
  const named = [
    ...Object.entries(files ?? {}).map(([key, path]) => ({ path, at: ['tls', 'files', key] })),
    { path: mode === 'acme' ? tls.acme.ca : null, at: ['tls', 'acme', 'ca'] },
    {
      path: typeof delivery.relay === 'object' ? (delivery.relay?.ca ?? null) : null,
      at: ['delivery', 'relay', 'ca'],
    },
  ];
  for (const { path, at } of named) {
    const problem = path === null || isPem(path) ? undefined : await pemProblem(path);
    if (problem !== undefined) errors.push({ path: at, message: problem });
  }
  if (files !== null && errors.length === 0) {
    try {
      const problem = certificateProblem(await readCertificate(files), server.hostname, systemClock.now());
      if (problem !== undefined) warnings.push({ path: ['tls', 'files', 'cert'], message: problem });
    } catch (error) {
      errors.push({ path: ['tls', 'files'], message: messageOf(error).replace(/^tls\.files: /, '') });
    }
  }
  const problem = await databaseProblem(database.url);
  if (problem !== undefined) errors.push({ path: ['database', 'url'], message: problem });
  return { errors, warnings };
}

async function pemProblem(path: string): Promise<string | undefined> {
  const read = await readText(path);
  if ('text' in read) return undefined;
  if (read.missing && !path.startsWith('/'))
    return `${read.problem}; write the absolute path, such as /etc/postern/${path}`;
  const isBinary = read.why.includes('UTF-8');
  return isBinary
    ? `${path} is not PEM; convert it: openssl x509 -inform DER -in ${path} -out ${path}.pem`
    : read.problem;
}

/** The service creates the folder of the default. Rights are checked by the daemon, which is another user. */
async function databaseProblem(url: string): Promise<string | undefined> {
  const path = /^sqlite:(.*)$/.exec(url)?.[1];
  if (path === undefined || dirname(path) === STATE_FOLDER) return undefined;
  const [file, folder] = await Promise.all([path, dirname(path)].map((each) => stat(each).catch(codeOf)));
  if (folder === 'ENOENT') return `there is no folder ${dirname(path)}`;
  return typeof file === 'object' && file.isDirectory() ? `${path} is a folder; name a file in it` : undefined;
}

/** Reads every project beside this server.yml, in the order of their names. */
export async function loadProjects(
  serverFile: string,
  { secrets, checkTemplates, formRecipients = FORM_RECIPIENTS }: Reading,
): Promise<ProjectFile[]> {
  const projects: ProjectFile[] = [];
  for (const file of await listProjects(serverFile)) {
    const shown = join(dirname(serverFile), file);
    const read = await readText(shown);
    // Gone since the folder was listed: as if it had never been there.
    if ('problem' in read && read.missing) continue;
    const text = 'text' in read ? read.text : '';
    const { files, refused } = await readBeside(shown, glanceAtProject(text).files);
    const context = { files, refused, env: secrets, checkTemplates, formRecipients };
    const result =
      'text' in read
        ? parseProject(text, shown, context)
        : {
            errors: [{ file: shown, line: read.line, column: read.column, path: '', message: read.why }],
            warnings: [],
          };
    projects.push({ file, shown, text, files, result });
  }
  return projects;
}

/** A file that can be deployed. */
export interface DeployableFile extends Omit<ProjectFile, 'result'> {
  readonly config: ProjectConfig;
}

/** A file that cannot. */
export interface RefusedFile {
  readonly file: ProjectFile;
  readonly errors: readonly string[];
}

export interface FolderCheck {
  readonly files: readonly ProjectFile[];
  readonly deployable: readonly DeployableFile[];
  readonly refused: readonly RefusedFile[];
  readonly warnings: readonly string[];
}

/** What is active already, as far as it is known. */
export interface FolderContext {
  /** The tenant of the files. */
  readonly tenant: string;
  readonly inForce: readonly Project[];
  /** By domain: the tenant that owns it. */
  readonly owners: (names: readonly string[]) => Promise<ReadonlyMap<string, string>>;
}

/** Where nothing is known of what is active. */
const NOTHING_IN_FORCE: FolderContext = { tenant: '', inForce: [], owners: async () => new Map() };

/** Reads and checks every project file. Rejects only where the folder or the database cannot be read. */
export async function checkFolder(
  serverFile: string,
  reading: Reading,
  context: FolderContext = NOTHING_IN_FORCE,
): Promise<FolderCheck> {
  const files = await loadProjects(serverFile, reading);
  const valid = files.flatMap(({ result, ...file }) => ('ok' in result ? [{ ...file, config: result.ok }] : []));
  const conflicts = conflictsOf(valid, context);
  const deployable = valid.filter(({ file }) => !conflicts.has(file));
  return {
    files,
    deployable,
    refused: files.flatMap((file) => {
      const errors = 'ok' in file.result ? conflicts.get(file.file) : file.result.errors.map(formatProblem);
      return errors === undefined ? [] : [{ file, errors }];
    }),
    warnings: [
      ...files.flatMap(({ result }) => result.warnings.map(formatProblem)),
      ...loopsAcross(deployable),
      ...(await ownedElsewhere(deployable, context)),
      ...(await unloaded(serverFile)),
    ],
  };
}

/** What is wrong with server.yml and the project files. */
export interface ConfigReport {
  /** server.yml */
  readonly file: string;
  readonly projects: number;
  readonly errors: readonly string[];
  readonly warnings: readonly string[];
}

/** Checks all files of a configuration, as a start of the daemon on this machine does. Throws UserError where there is none. */
export async function checkConfig(file: string, reading: Reading, context?: FolderContext): Promise<ConfigReport> {
  const server = await loadServer(file, reading.secrets, { checkMachine: true });
  const formRecipients = 'ok' in server ? server.ok.limits.form_recipients : undefined;
  const { files, refused, warnings } = await checkFolder(file, { ...reading, formRecipients }, context);
  return {
    file,
    projects: files.length,
    errors: [
      ...('errors' in server ? server.errors.map(formatProblem) : []),
      ...refused.flatMap(({ errors }) => errors),
    ],
    warnings: [...server.warnings.map(formatProblem), ...warnings],
  };
}

/** Domains, and collections as `c/<name>`, that the file names, whether it is valid or not. */
export function placesOf({ text }: ProjectFile): string[] {
  const { domains, collections } = glanceAtProject(text);
  return [...domains.flatMap((name) => parseDomain(name) ?? []), ...collections.map((name) => `c/${name}`)];
}

interface Claim {
  /** `domain example.com`, `collection site` */
  readonly name: string;
  readonly path: Path;
  /** Undefined where the active project claims it, and no file of it takes part. */
  readonly by: DeployableFile | undefined;
  /** The project, as the operator knows it. */
  readonly owner: string;
  readonly isInForce: boolean;
}

/**
 * By file, what it claims in vain. Files with the same slug are all refused. A domain or a collection stays with the project
 * whose active revision has it, else it goes to the first file. A file that is refused leaves its revision active, which may in
 * turn keep what another file wants.
 */
function conflictsOf(valid: readonly DeployableFile[], context: FolderContext): ReadonlyMap<string, readonly string[]> {
  const errors = new Map<string, string[]>();
  for (const files of Map.groupBy(valid, ({ config }) => config.project.slug).values()) {
    const names = files.map(({ shown }) => shown).join(' and ');
    if (files.length > 1)
      for (const file of files)
        refuse(file, ['project', 'slug'], `the slug is used by ${names}; change or remove all but one`);
  }
  for (;;) {
    const count = errors.size;
    const rest = valid.filter(({ file }) => !errors.has(file));
    const claims = claimsOf(rest, context);
    for (const rivals of Map.groupBy(claims, ({ name }) => name).values()) {
      const winner =
        rivals.find(({ by }) => by === undefined) ?? rivals.find(({ isInForce }) => isInForce) ?? rivals[0];
      for (const { by, path, name } of rivals) {
        if (by !== undefined && by !== winner?.by) refuse(by, path, `the ${name} belongs to ${winner?.owner}`);
      }
    }
    if (errors.size === count) return errors;
  }

  function refuse(by: DeployableFile, path: Path, message: string): void {
    const problem = locate(by, { path, message, key: path[0] !== 'project' });
    errors.set(by.file, [...(errors.get(by.file) ?? []), problem]);
  }
}

function claimsOf(files: readonly DeployableFile[], { tenant, inForce }: FolderContext): Claim[] {
  const deployed = new Map(files.map((file) => [file.config.project.slug, file]));
  const held = new Set(
    inForce
      .filter((project) => project.tenant === tenant)
      .flatMap(({ slug, config }) => namesIn(config).map(({ name }) => `${slug} ${name}`)),
  );
  return [
    ...inForce.flatMap((project): Claim[] => {
      const own = project.tenant === tenant;
      if (own && deployed.has(project.slug)) return [];
      const owner = own ? `the project ${project.slug}` : 'another account';
      return namesIn(project.config).flatMap(({ name, path }) =>
        own || path[0] === 'collections' ? [{ name, path, by: undefined, owner, isInForce: true }] : [],
      );
    }),
    ...files.flatMap((by) =>
      namesIn(by.config).map(({ name, path }) => {
        return { name, path, by, owner: by.shown, isInForce: held.has(`${by.config.project.slug} ${name}`) };
      }),
    ),
  ];
}

function namesIn({ domains, collections }: ProjectConfig): { name: string; path: Path }[] {
  return [
    ...Object.keys(domains).map((name) => ({ name: `domain ${name}`, path: ['domains', name] })),
    ...Object.keys(collections).map((name) => ({ name: `collection ${name}`, path: ['collections', name] })),
  ];
}

/**
 * Forwarding that goes round through several projects: a warning, because none of them is wrong by itself and the hop limit
 * ends such mail. (Loops within one project are errors of its file.)
 */
function loopsAcross(projects: readonly DeployableFile[]): string[] {
  const owners = new Map(projects.flatMap((by) => Object.keys(by.config.domains).map((name) => [name, by] as const)));
  const domains = projects.flatMap(({ config }) => Object.entries(config.domains));
  const loops = forwardingLoops(new Map(domains.map(([name, { forwarding }]) => [name, forwarding])));
  return loops.flatMap(({ domain, key, way }) => {
    const owner = owners.get(domain);
    if (owner === undefined) return [];
    const message = `forwarding loop through other projects: ${way.join(' → ')}`;
    return [locate(owner, { path: ['domains', domain, 'forwarding', key], message })];
  });
}

/** Domains of another account: they stay pending. */
async function ownedElsewhere(files: readonly DeployableFile[], { tenant, owners }: FolderContext): Promise<string[]> {
  const owned = await owners(files.flatMap(({ config }) => Object.keys(config.domains)));
  return files.flatMap((file) =>
    Object.keys(file.config.domains).flatMap((name) => {
      if ((owned.get(name) ?? tenant) === tenant) return [];
      const message = `the domain ${name} is owned by another account; it stays pending until that account releases it or "postern domains move" moves it`;
      return [locate(file, { path: ['domains', name], message, key: true })];
    }),
  );
}

/** Projects that nobody loads: their files have the wrong name or place. */
async function unloaded(serverFile: string): Promise<string[]> {
  const found = [...(await unloadedFiles(serverFile))];
  const warnings = await Promise.all(
    found.map(async ([file, why]) => {
      const shown = join(dirname(serverFile), file);
      const read = await readText(shown);
      // Other YAML may lie beside server.yml.
      const isProject = 'text' in read && glanceAtProject(read.text).slug !== undefined;
      return isProject ? [`${shown}: this project is not loaded: ${why}`] : [];
    }),
  );
  return warnings.flat();
}

function locate({ text, shown }: DeployableFile, finding: Finding): string {
  return formatProblem(readYaml(text, shown).locate(finding));
}
