/**
 * The server of this machine: its server.yml, valid or not, and the admin socket that it names. Loaded where it is needed:
 * it reads the whole configuration.
 */
import { stat } from 'node:fs/promises';
import { findServerFile } from '../config/files.ts';
import { loadReadable } from '../config/folder.ts';
import { readableServer } from '../config/parse.ts';
import type { Problem } from '../config/problem.ts';
import { machineSecrets, NO_SECRETS } from '../config/secrets.ts';

export interface LocalServer {
  /** server.yml; undefined where there is none, and a daemon listens at the default socket all the same. */
  readonly file: string | undefined;
  /** The admin socket. */
  readonly socket: string;
  /** `database.url` */
  readonly database: string;
  /** What is wrong with server.yml. */
  readonly errors: readonly Problem[];
}

/** `path` is `--config`. Throws UserError where there is no server.yml. */
export async function findLocalServer(path: string | undefined, env: NodeJS.ProcessEnv): Promise<LocalServer> {
  let file: string;
  try {
    file = await findServerFile(path, env);
  } catch (error) {
    const { server, database } = readableServer('', '', NO_SECRETS).server;
    if (!(await stat(server.admin_socket).catch(() => undefined))?.isSocket()) throw error;
    return { file: undefined, socket: server.admin_socket, database: database.url, errors: [] };
  }
  const { server, errors } = await loadReadable(file, machineSecrets(env));
  return { file, socket: server.server.admin_socket, database: server.database.url, errors };
}
