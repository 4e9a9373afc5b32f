/**
 * References to secrets: `${NAME}` (an environment variable) and `file:/path` (a systemd credential, say) in place of any
 * text. In server.yml `${NAME}` may also stand within a text, such as a URL's password; a project's templates may hold
 * such words themselves, so there only a value that is nothing else counts. Names are upper case. What a reference stood
 * for is never shown again: reports and `config show` print the reference.
 */
import { closeSync, openSync, readSync } from 'node:fs';
import type { Finding, Path } from './problem.ts';

const MAX_FILE = 64 * 1024;
const VARIABLE = /\$\{([A-Z_][A-Z0-9_]*)\}/g;
const WHOLE_VARIABLE = /^\$\{[A-Z_][A-Z0-9_]*\}$/;
const FILE = /^file:(\/.*)$/;

/** Keys whose values are secrets as a whole. */
export const SECRET_KEY = /^(?:password|hmac_key|secret|secret_access_key)$/;

/** Where references are looked up. */
export interface SecretSource {
  /** The variable's value, or undefined where there is none. */
  variable(name: string): string | undefined;
  /** The file's text without its last line break, or undefined where it cannot be read. */
  file(path: string): string | undefined;
  /** Why references are not followed at all, where that is so. */
  readonly refusal?: string;
}

/** For what a stranger wrote: nothing of this machine may be read through it. */
export const NO_SECRETS: SecretSource = {
  variable: () => undefined,
  file: () => undefined,
  refusal: 'references to secrets are not resolved in a pushed configuration; write the value itself here',
};

/** A value that was written as a reference. */
export interface Reference {
  readonly path: Path;
  readonly reference: string;
}

/** The variables of this environment and the files of this machine. */
export function machineSecrets(env: Readonly<Record<string, string | undefined>>): SecretSource {
  return {
    variable: (name) => (Object.hasOwn(env, name) ? env[name] : undefined),
    file: (path) => {
      const text = readSmall(path);
      return text?.replace(/\r?\n$/, '');
    },
  };
}

/** The data with every reference replaced; those that lead nowhere are findings and stay as they are. */
export function resolveSecrets(
  data: unknown,
  source: SecretSource,
  within: 'text' | 'whole values',
): { value: unknown; references: Reference[]; findings: Finding[] } {
  const references: Reference[] = [];
  const findings: Finding[] = [];
  return { value: walk(data, []), references, findings };

  function walk(value: unknown, path: Path): unknown {
    if (typeof value === 'string') return text(value, path);
    if (Array.isArray(value)) return value.map((item, index) => walk(item, [...path, index]));
    if (typeof value !== 'object' || value === null) return value;
    const copy: Record<string, unknown> = { __proto__: null };
    for (const [key, item] of Object.entries(value)) copy[key] = walk(item, [...path, key]);
    return copy;
  }

  function text(value: string, path: Path): string {
    const file = FILE.exec(value)?.[1];
    if (file === undefined && value.search(within === 'text' ? VARIABLE : WHOLE_VARIABLE) < 0) return value;
    references.push({ path, reference: value });
    if (source.refusal !== undefined) return missing(path, value, source.refusal);
    if (file !== undefined) return source.file(file) ?? missing(path, value, `cannot read the file ${file}`);
    return value.replaceAll(
      VARIABLE,
      (reference: string, name: string) =>
        source.variable(name) ?? missing(path, reference, `the environment variable ${name} is not set`),
    );
  }

  function missing(path: Path, reference: string, message: string): string {
    findings.push({ path, message });
    return reference;
  }
}

/** Passwords within a URL, and secrets of webhooks, masked: `smtp://user:***@host`. References stay. */
export function maskPasswords(text: string): string {
  return text
    .replace(/(\/\/[^\s/:@]*:|^[^\s/:@]+:(?!\/\/))(?!\$\{[A-Z0-9_]+\}@)\S*@/, '$1***@')
    .replaceAll(/([?&](?:ssl)?password=)(?!\$\{)[^\s&]*/g, '$1***')
    .replaceAll(/\bwhsec_[\w+/=]+/g, 'whsec_***');
}

/** A password masked, unless a reference stands for it. */
export function maskPassword(text: string): string {
  return FILE.test(text) || text.replaceAll(VARIABLE, '') === '' ? text : '***';
}

function readSmall(path: string): string | undefined {
  try {
    const file = openSync(path, 'r');
    try {
      const buffer = Buffer.alloc(MAX_FILE + 1);
      const size = readSync(file, buffer);
      return size > MAX_FILE ? undefined : new TextDecoder('utf-8', { fatal: true }).decode(buffer.subarray(0, size));
    } finally {
      closeSync(file);
    }
  } catch {
    // The caller says which reference leads nowhere; the reason (missing, not permitted) is for `ls -l`.
    return undefined;
  }
}

/** Texts that look like a reference and are none. */
export function unmarkedReferences(data: unknown, path: Path = []): Finding[] {
  if (typeof data === 'object' && data !== null)
    return Object.entries(data).flatMap(([key, value]) => unmarkedReferences(value, [...path, key]));
  const name = typeof data === 'string' ? /^\$(?:\{(\w+)\}|(\w+))$/.exec(data) : null;
  const word = name?.[1] ?? name?.[2];
  if (word === undefined) return [];
  return [{ path, message: `is taken literally; an environment variable is written \${${word.toUpperCase()}}` }];
}
