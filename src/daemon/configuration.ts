/**
 * The configuration of the daemon, wired to its store: read, opened, watched. The layer `config` knows no store; what it
 * needs of one is handed in here.
 */
import { hostname } from 'node:os';
import { resolve } from 'node:path';
import type { BundleReader } from '../config/bundle.ts';
import { loadServer, type Reading } from '../config/load.ts';
import { formatProblem } from '../config/problem.ts';
import type { ServerConfig } from '../config/schema.ts';
import { createConfigSource, type ConfigSource, type FolderLoad, type ProjectStore } from '../config/source.ts';
import { watchConfig } from '../config/watch.ts';
import { keepCertificate, readCertificate, type CertificateKeeper, type KeeperParts } from '../lib/certificate.ts';
import type { Clock } from '../lib/clock.ts';
import { UserError } from '../lib/errors.ts';
import type { Log } from '../lib/log.ts';
import { newId } from '../lib/ids.ts';
import { domainOwners } from '../store/domains.ts';
import {
  hashOf,
  insertProjectFile,
  loadedFiles,
  putInForce,
  revisionWith,
  setFileMissing,
  storedProjects,
  findRevision,
} from '../store/projects.ts';
import { OPERATOR } from '../store/tenants.ts';
import type { Statement } from '../store/statement.ts';
import { UnmetError, type Store } from '../store/store.ts';

/** Reads server.yml. Throws UserError with the whole report where it is invalid. */
export async function readServer(file: string, reading: Reading): Promise<ServerConfig> {
  const loaded = await loadServer(file, reading.secrets, { checkMachine: true });
  if ('ok' in loaded) return loaded.ok;
  throw new UserError(`the configuration is invalid\n${loaded.errors.map(formatProblem).join('\n')}`);
}

interface ConfigParts {
  readonly file: string;
  readonly server: ServerConfig;
  readonly reading: Reading;
  readonly reader: BundleReader;
  readonly store: Store;
  readonly clock: Clock;
  readonly log: Log;
}

/** Opens the configuration: the project files beside server.yml are pushed as the operator's. */
export function openConfig({ file, server, reading, reader, store, clock, log }: ConfigParts): Promise<ConfigSource> {
  const machine = hostname();
  return createConfigSource({
    file: resolve(file),
    server,
    reading,
    reader,
    log,
    machine,
    tenant: OPERATOR,
    projects: projectStore({ store, clock, machine }),
  });
}

interface ProjectStoreParts {
  readonly store: Store;
  readonly clock: Clock;
  /** Whose files these are. */
  readonly machine: string;
}

/** The projects of the database, and what this machine loads into it. */
export function projectStore({ store, clock, machine }: ProjectStoreParts): ProjectStore {
  async function save({ deploy, missing, found }: FolderLoad): Promise<boolean> {
    const now = clock.now();
    const unit: Statement[] = [];
    for (const { was, ...content } of deploy) {
      const project = { ...content, tenant: OPERATOR, source: 'file', machine } as const;
      const id = (await revisionWith(store, project)) ?? newId('rev', now);
      const { file, slug } = content;
      unit.push(
        ...putInForce(project, { was, id }, now),
        insertProjectFile({ machine, file, slug, hash: hashOf(content), loaded_at: now }),
      );
    }
    unit.push(
      ...missing.map((slug) => setFileMissing({ tenant: OPERATOR, slug, file_missing: 1 })),
      ...found.map((slug) => setFileMissing({ tenant: OPERATOR, slug, file_missing: 0 })),
    );
    try {
      await store.write(unit);
      return true;
    } catch (error) {
      if (error instanceof UnmetError) return false;
      throw error;
    }
  }

  return {
    list: () => storedProjects(store),
    revision: (id) => findRevision(store, id),
    owners: (names) => domainOwners(store, names),
    loaded: () => loadedFiles(store, machine),
    hash: hashOf,
    save,
  };
}

/** The certificate of `tls`; undefined where there is none. Throws UserError where it cannot be used. */
export async function openCertificate(
  { tls }: ServerConfig,
  parts: KeeperParts,
): Promise<CertificateKeeper | undefined> {
  if (tls.mode === 'off' || tls.files === null) return undefined;
  return keepCertificate(await readCertificate(tls.files), parts);
}

export interface Watching {
  readonly file: string;
  readonly clock: Clock;
  readonly config: Pick<ConfigSource, 'current'>;
  readonly reload: () => Promise<unknown>;
}

/** Takes over what changes on disk, until the function that it answers is called. */
export function startWatching({ file, clock, config, reload }: Watching): () => Promise<void> {
  const stop = new AbortController();
  const watching = watchConfig({
    file,
    clock,
    signal: stop.signal,
    enabled: () => config.current().server.server.watch,
    reload,
  });
  return async () => {
    stop.abort();
    await watching;
  };
}
