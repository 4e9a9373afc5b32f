/** Where the database of a configuration is; the rest of the configuration may be wrong, or need secrets that are not here. */
import { valueAt } from '../config/explain.ts';
import { serverSchema } from '../config/schema-server.ts';
import { machineSecrets, resolveSecrets } from '../config/secrets.ts';
import { readYaml } from '../config/yaml.ts';
import { UserError } from '../lib/errors.ts';

/** `database.url` of the server.yml with this text. Throws UserError where it cannot be known. */
export function databaseUrl(text: string, file: string, env: NodeJS.ProcessEnv): string {
  const { value, broken } = readYaml(text, file);
  if (broken) throw new UserError(`${file} is not valid YAML. To see why, run: postern config check`);
  const url = valueAt(value, ['database', 'url']);
  const { hostname, operator } = { hostname: 'mail.example.net', operator: 'ops@example.net' };
  return resolveUrl(
    typeof url === 'string' ? url : serverSchema.parse({ server: { hostname, operator } }).database.url,
    env,
  );
}

/** The URL with its references to secrets replaced. Throws UserError where one leads nowhere. */
export function resolveUrl(url: string, env: NodeJS.ProcessEnv): string {
  const { value, findings } = resolveSecrets(url, machineSecrets(env), 'text');
  const [finding] = findings;
  if (finding !== undefined) throw new UserError(`${url}: ${finding.message}`);
  return String(value);
}

const SQLITE = 'sqlite:';

/** The file behind `sqlite:/path`; undefined of PostgreSQL. */
export function sqliteFile(url: string): string | undefined {
  return url.startsWith(SQLITE) ? url.slice(SQLITE.length) : undefined;
}
