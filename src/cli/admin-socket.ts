/** The operator's socket, as the server.yml on this machine has it. Loaded where it is needed: it reads the whole configuration. */
import { findServerFile } from '../config/files.ts';
import { loadServer } from '../config/folder.ts';
import { formatProblem } from '../config/problem.ts';
import { machineSecrets } from '../config/secrets.ts';
import { UserError } from '../lib/errors.ts';

/** The admin socket of this configuration. Throws UserError if there is no valid configuration. */
export async function adminSocket(path: string | undefined, env: NodeJS.ProcessEnv): Promise<string> {
  const file = await findServerFile(path, env);
  const loaded = await loadServer(file, machineSecrets(env));
  if ('ok' in loaded) return loaded.ok.server.admin_socket;
  throw new UserError(
    `${loaded.errors.map(formatProblem).join('\n')}\nTo connect without server.yml, use --url unix:/path/to/admin.sock`,
  );
}
