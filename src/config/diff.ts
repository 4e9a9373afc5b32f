/** What changed between two configurations, key by key, in the YAML's own words (`2h`, not 7200000). */
import { z } from 'zod';
import { valueAt } from './explain.ts';
import { type ProjectConfig, type ServerConfig, projectSchema } from './schema.ts';
import { serverSchema } from './schema-server.ts';

export interface Change {
  readonly op: 'add' | 'remove' | 'change';
  /** Keys joined with dots. */
  readonly path: string;
  /** The same one by one: names of domains hold dots themselves. */
  readonly keys: readonly string[];
  readonly from: unknown;
  readonly to: unknown;
}

/** The configuration as a person would write it, every default included. */
export function writtenServer(config: ServerConfig): z.input<typeof serverSchema> {
  return z.encode(serverSchema, config);
}

/** The same of a project; `html` holds the text of an `html_file`. */
export function writtenProject(config: ProjectConfig): z.input<typeof projectSchema> {
  return z.encode(projectSchema, config);
}

/** What this server.yml says that a minimal one would not; `written` may hold references in place of secrets. */
export function changesFromDefaults(server: ServerConfig, written: unknown = writtenServer(server)): Change[] {
  const { hostname, operator } = server.server;
  const defaults = serverSchema.parse({ server: { hostname, operator } });
  const required = diffConfig({ server: {} }, { server: { hostname, operator } });
  return [...required, ...diffConfig(writtenServer(defaults), written)];
}

/**
 * The keys that differ between two pieces of plain data, in the order of `before`, then what is new. A list is one value;
 * a key that holds undefined is absent; a map that came or went is one change.
 */
export function diffConfig(before: unknown, after: unknown): Change[] {
  return compare(before, after, []);
}

function compare(before: unknown, after: unknown, path: readonly string[]): Change[] {
  if (isMap(before) && isMap(after)) {
    const keys = new Set([...Object.keys(before), ...Object.keys(after)]);
    return [...keys].flatMap((key) => compare(valueAt(before, [key]), valueAt(after, [key]), [...path, key]));
  }
  if (same(before, after)) return [];
  const op = before === undefined ? 'add' : after === undefined ? 'remove' : 'change';
  return [{ op, path: path.join('.'), keys: path, from: before, to: after }];
}

function same(before: unknown, after: unknown): boolean {
  if (typeof before !== 'object' || typeof after !== 'object') return before === after;
  return JSON.stringify(before) === JSON.stringify(after);
}

function isMap(value: unknown): value is object {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}
