/** Which part of a new server.yml a running daemon can take over. */
import { valueAt } from './explain.ts';
import { freeze } from './freeze.ts';
import { diffConfig, writtenServer } from './diff.ts';
import { type ServerConfig } from './schema.ts';
import { serverSchema } from './schema-server.ts';
import { restartKeys } from './shape.ts';

/**
 * The new configuration with the running values of what needs a restart, and the paths that wait for one. Where the two do
 * not go together, such as `tls.mode: files` without `tls.files`, all of the new waits.
 */
export function applicable(running: ServerConfig, wanted: ServerConfig): { server: ServerConfig; waiting: string[] } {
  const now = writtenServer(running);
  const waiting = restartKeys(serverSchema).filter(
    (path) => diffConfig(valueAt(now, path), valueAt(writtenServer(wanted), path)).length > 0,
  );
  if (waiting.length === 0) return { server: wanted, waiting: [] };
  let written: unknown = writtenServer(wanted);
  for (const path of waiting) written = withValue(written, path, valueAt(now, path));
  const mixed = serverSchema.safeParse(written);
  if (mixed.success) return { server: freeze(mixed.data), waiting: waiting.map((path) => path.join('.')) };
  return { server: running, waiting: diffConfig(now, writtenServer(wanted)).map(({ path }) => path) };
}

function withValue(data: unknown, [key, ...rest]: readonly string[], value: unknown): unknown {
  if (key === undefined) return value;
  return { ...(typeof data === 'object' ? data : {}), [key]: withValue(valueAt(data, [key]), rest, value) };
}
