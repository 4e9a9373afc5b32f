/** The configuration of the daemon: server.yml, and the projects of the store, which the layer `config` does not know. */
import { writeAuthor } from '../accounts/projects.ts';
import type { ServerConfig } from '../config/schema.ts';
import { loadServer, type Reading } from '../config/folder.ts';
import type { ValidServer } from '../config/parse.ts';
import { formatProblem } from '../config/problem.ts';
import type { FolderLoad, ProjectStore } from '../config/source.ts';
import type { Clock } from '../lib/clock.ts';
import { UserError } from '../lib/errors.ts';
import { newId } from '../lib/ids.ts';
import { domainOwners } from '../store/domains.ts';
import type { PostgresSettings } from '../store/postgres-connection.ts';
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
import { type Store, writeIfMet } from '../store/store.ts';

/** Reads server.yml. Throws UserError with the whole report where it is invalid. */
export async function readServer(file: string, reading: Reading): Promise<ValidServer> {
  const loaded = await loadServer(file, reading.secrets, { checkMachine: true });
  if ('ok' in loaded) return loaded;
  throw new UserError(`the configuration is invalid\n${loaded.errors.map(formatProblem).join('\n')}`);
}

/** How PostgreSQL is reached, beside `database.url`. */
export function postgresOptions({ listen_url, pool_size, prepare }: ServerConfig['database']): PostgresSettings {
  return { listenUrl: listen_url ?? undefined, poolSize: pool_size, prepare };
}

/** The projects of the database, and what this machine, whose files they are, loads into it. */
export function projectStore({
  store,
  clock,
  machine,
}: {
  readonly store: Store;
  readonly clock: Clock;
  readonly machine: string;
}): ProjectStore {
  async function save({ deploy, moved }: FolderLoad): Promise<boolean> {
    const now = clock.now();
    const unit: Statement[] = [];
    for (const { was, ...content } of deploy) {
      const project = { ...content, tenant: OPERATOR, source: 'file', machine } as const;
      const id = (await revisionWith(store, project)) ?? newId('rev', now);
      const { file, slug } = content;
      unit.push(
        ...putInForce(
          project,
          { was, id, author: writeAuthor({ kind: 'file', id: null, name: `${machine}: ${file}` }) },
          now,
        ),
        insertProjectFile({ machine, file, slug, hash: hashOf(content), loaded_at: now }),
      );
    }
    unit.push(...moved.map((project) => setFileMissing({ tenant: OPERATOR, ...project })));
    return (await writeIfMet(store, unit)) !== undefined;
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
