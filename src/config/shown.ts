/** server.yml as it may be shown: with references in place of what they stand for, and secrets that are written out masked. */
import { writtenServer } from './diff.ts';
import { restartKeys, valueAt } from './explain.ts';
import type { Path } from './problem.ts';
import type { ServerConfig } from './schema.ts';
import { serverSchema } from './schema-server.ts';
import { maskPassword, maskPasswords, SECRET_KEY, type Reference } from './secrets.ts';

/** What a file says, beside what is made of it. */
export interface ServerOrigin {
  /** The values that were written as references to secrets. */
  readonly references: readonly Reference[];
  /** The data of the file. */
  readonly data: unknown;
}

const PRIVATE_KEY = /-----BEGIN [A-Z ]*PRIVATE KEY-----/;

/** The configuration as a person would write it, every default included, without its secrets. */
export function withoutSecrets(server: ServerConfig, references: readonly Reference[]): unknown {
  const hidden = references.reduce<unknown>(
    (data, { path, reference }) => replace(data, path, reference),
    writtenServer(server),
  );
  return JSON.parse(JSON.stringify(hidden), (key, value: unknown) =>
    typeof value === 'string' ? masked(key, value) : value,
  );
}

function masked(key: string, value: string): string {
  if (PRIVATE_KEY.test(value)) return '***';
  return SECRET_KEY.test(key) ? maskPassword(value) : maskPasswords(value);
}

/** A path that is not found, because its key was normalised, hides the value around it. */
function replace(data: unknown, [key, ...rest]: Path, reference: string): unknown {
  if (key === undefined) return reference;
  if (typeof data !== 'object' || data === null || !Object.hasOwn(data, key)) return '***';
  const value = replace(valueAt(data, [key]), rest, reference);
  if (Array.isArray(data)) return data.map((item: unknown, index) => (index === key ? value : item));
  return { ...data, [key]: value };
}

export interface ShownSetting {
  /** `delivery.retry` */
  readonly path: string;
  readonly value: unknown;
  readonly source: 'file' | 'default';
  /** Whether a change takes effect at the next start only. */
  readonly restart: boolean;
}

/** Each active setting, in the order of the reference; a list is one value. */
export function shownSettings(server: ServerConfig, { references, data }: ServerOrigin): ShownSetting[] {
  const restart = restartKeys(serverSchema).map((path) => path.join('.'));
  return leaves(withoutSecrets(server, references), []).map(({ path, value }) => {
    const name = path.join('.');
    return {
      path: name,
      value,
      source: isWritten(data, path) ? 'file' : 'default',
      restart: restart.some((key) => name === key || name.startsWith(`${key}.`)),
    };
  });
}

function leaves(
  data: unknown,
  path: readonly string[],
): { readonly path: readonly string[]; readonly value: unknown }[] {
  if (typeof data !== 'object' || data === null || Array.isArray(data)) return [{ path, value: data }];
  const entries = Object.entries(data).filter(([, value]) => value !== undefined);
  if (entries.length === 0) return [{ path, value: {} }];
  return entries.flatMap(([key, value]) => leaves(value, [...path, key]));
}

function isWritten(data: unknown, [key, ...rest]: readonly string[]): boolean {
  if (key === undefined) return true;
  // In place of a section, such as one name for a list.
  if (typeof data !== 'object' || data === null) return data !== undefined;
  return Object.hasOwn(data, key) && isWritten(valueAt(data, [key]), rest);
}
