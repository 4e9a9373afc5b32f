/** The source tree as the structure tests see it: every file, its text without comments, and what it imports. */
import { globSync, readFileSync } from 'node:fs';
import { dirname, join, normalize, relative } from 'node:path';

export const ROOT = join(import.meta.dirname, '../..');

export interface SourceFile {
  /** From the root of the checkout: `src/lib/clock.ts`. */
  readonly path: string;
  /** The folder below src, `''` for src itself: `http/routes`. */
  readonly folder: string;
  readonly text: string;
  /** `text` with its comments blanked out, line by line. */
  readonly code: string;
  /** Paths of the files of this project that it imports in any way, types and workers included. */
  readonly imports: readonly string[];
  /** The packages and `node:` modules that it imports. */
  readonly packages: readonly string[];
}

/** All TypeScript files below `folders` of the checkout. */
export function readSources(...folders: readonly string[]): SourceFile[] {
  return folders
    .flatMap((folder) => globSync(`${folder}/**/*.ts`, { cwd: ROOT }))
    .toSorted()
    .map(readSource);
}

/** Every folder below src, `''` (src itself) first. */
export function sourceFolders(): string[] {
  return [...new Set(readSources('src').map((file) => file.folder))].toSorted();
}

function readSource(path: string): SourceFile {
  const text = readFileSync(join(ROOT, path), 'utf8');
  const code = withoutComments(text);
  const specifiers = importsOf(code);
  return {
    path,
    folder: relative('src', dirname(path)),
    text,
    code,
    imports: specifiers.filter(isRelative).map((specifier) => normalize(join(dirname(path), specifier))),
    packages: specifiers.filter((specifier) => !isRelative(specifier)),
  };
}

function isRelative(specifier: string): boolean {
  return specifier.startsWith('.');
}

/** Static and dynamic imports, re-exports, and the files that `new URL('./x.ts', import.meta.url)` names for a worker. */
export function importsOf(code: string): string[] {
  const patterns = [
    /^\s*(?:import|export)\s[^'";]*?\bfrom\s*'([^']+)'/gm,
    /^\s*import\s*'([^']+)'/gm,
    /\bimport\(\s*'([^']+)'\s*\)/g,
    /\bnew URL\(\s*'(\.[^']*\.ts)'\s*,\s*import\.meta\.url\s*\)/g,
  ];
  return patterns.flatMap((pattern) => Array.from(code.matchAll(pattern), (match) => match[1] ?? ''));
}

/** Blanks comments and leaves strings, template literals and line numbers alone. */
export function withoutComments(text: string): string {
  const token = /'(?:\\.|[^'\\\n])*'|"(?:\\.|[^"\\\n])*"|`(?:\\.|[^`\\])*`|\/\*[^]*?\*\/|\/\/[^\n]*/g;
  return text.replaceAll(token, (match) => (/^\/[*/]/.test(match) ? match.replaceAll(/[^\n]/g, ' ') : match));
}
