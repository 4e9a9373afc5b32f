/**
 * The configuration of the daemon, wired to its store: read, opened, watched. The layer `config` knows no store; what it
 * needs of one is handed in here.
 */
import type { BundleReader } from '../config/bundle.ts';
import { loadServer, type Reading } from '../config/load.ts';
import { formatProblem } from '../config/problem.ts';
import type { ServerConfig } from '../config/schema.ts';
import { createConfigSource, type ConfigSource } from '../config/source.ts';
import { watchConfig } from '../config/watch.ts';
import { keepCertificate, readCertificate, type CertificateKeeper, type KeeperParts } from '../lib/certificate.ts';
import type { Clock } from '../lib/clock.ts';
import { UserError } from '../lib/errors.ts';
import type { Log } from '../lib/log.ts';
import { standingsOf } from '../store/domains.ts';
import { storedProjects } from '../store/projects.ts';
import { OPERATOR, findRevision, lastRevisionOfFile, saveRevision } from '../store/revisions.ts';
import type { Store } from '../store/store.ts';

/** Reads server.yml. Throws UserError with the whole report where it is invalid. */
export async function readServer(file: string, reading: Reading): Promise<ServerConfig> {
  const loaded = await loadServer(file, reading.secrets);
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

/** Opens the configuration: projects on disk are the operator's, all others are in the store. */
export function openConfig({ file, server, reading, reader, store, clock, log }: ConfigParts): Promise<ConfigSource> {
  return createConfigSource({
    file,
    server,
    reading,
    reader,
    log,
    tenant: OPERATOR,
    revisions: {
      save: (project) => saveRevision(store, { ...project, tenant: OPERATOR, source: 'file' }, clock.now()),
      lastGood: (name) => lastRevisionOfFile(store, OPERATOR, name),
    },
    stored: {
      list: () => storedProjects(store),
      revision: (id) => findRevision(store, id),
      standings: (names) => standingsOf(store, names),
    },
  });
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
  readonly config: ConfigSource;
}

/** Takes over what changes on disk, until the function that it answers is called. */
export function startWatching({ file, clock, config }: Watching): () => Promise<void> {
  const stop = new AbortController();
  const watching = watchConfig({
    file,
    clock,
    signal: stop.signal,
    enabled: () => config.current().server.server.watch,
    reload: config.reload,
  });
  return async () => {
    stop.abort();
    await watching;
  };
}
