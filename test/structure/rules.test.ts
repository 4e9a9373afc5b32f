import { readFileSync } from 'node:fs';
import { basename, join } from 'node:path';
import { describe, expect, test } from 'vitest';
import { ROOT, readSources, type SourceFile } from './sources.ts';

const src = readSources('src');
const everything = readSources('src', 'test', 'bench', 'scripts');

/** Where `pattern` stands in code (comments do not count), as `path:line`. */
function places(files: readonly SourceFile[], pattern: RegExp): string[] {
  return files.flatMap(({ path, code }) =>
    code.split('\n').flatMap((line, at) => (pattern.test(line) ? [`${path}:${at + 1}`] : [])),
  );
}

/** The files that import one of the packages; `name/inner` counts as `name`. */
function importers(...names: readonly string[]): string[] {
  const named = (specifier: string): boolean =>
    names.some((name) => specifier === name || specifier.startsWith(`${name}/`));
  return src.filter((file) => file.packages.some(named)).map((file) => file.path);
}

function outside(paths: readonly string[], ...allowed: readonly string[]): string[] {
  return paths.filter((path) => !allowed.some((start) => path.startsWith(start)));
}

describe('what the world does enters through one file each', () => {
  test('the clocks: lib/clock.ts', () => {
    const reads = places(src, /\bDate\.now\b|\bperformance\.now\b|\bhrtime\b|\bnew Date\(\)/);
    // The console runs in a browser.
    expect(outside(reads, 'src/lib/clock.ts', 'src/console/')).toEqual([]);
  });

  test('timers: lib/, and the deadlines of deliveries in queue/, smtp-client/ and events/', () => {
    expect(
      outside(
        places(src, /(?<![.\w])set(?:Timeout|Interval)\(/),
        'src/lib/',
        'src/queue/',
        'src/smtp-client/',
        'src/events/',
        'src/console/',
      ),
    ).toEqual([]);
  });

  test('name look-ups: dns/resolver.ts', () => {
    expect(outside(importers('node:dns', 'dns'), 'src/dns/resolver.ts')).toEqual([]);
  });

  test('SQL: store/', () => {
    expect(outside(importers('kysely', 'better-sqlite3', 'pg', 'node:sqlite'), 'src/store/')).toEqual([]);
  });

  test('the environment: the edges', () => {
    const reads = places(src, /\bprocess\.env\b/);
    expect(
      outside(
        reads,
        'src/main.ts',
        'src/daemon/daemon.ts',
        'src/daemon/delivery-thread.ts',
        'src/config/',
        'src/cli/',
        'src/dev/',
        'src/lib/log.ts',
        // What libpq reads: PGSSLMODE, PGPASSWORD and others.
        'src/store/postgres-connection.ts',
      ),
    ).toEqual([]);
  });
});

describe('files', () => {
  test('are called by their content in kebab-case', () => {
    const odd = src.filter(({ path }) => !/^[a-z0-9]+(?:-[a-z0-9]+)*(?:\.d)?\.ts$/.test(basename(path)));
    expect(odd.map((file) => file.path)).toEqual([]);
  });

  test('open with a comment that says what they guarantee', () => {
    const silent = src.filter(({ text }) => !/^(?:\/\*\*|\/\/) ?\S/.test(text.replace(/^\/\*\*\n \*/, '/**')));
    expect(silent.map((file) => file.path)).toEqual([]);
  });

  test('no drawer is called utils, helpers, common or misc', () => {
    const drawers = src.filter(({ path }) => /\/(?:utils?|helpers?|common|misc|shared)(?:\.ts|\/)/.test(path));
    expect(drawers.map((file) => file.path)).toEqual([]);
  });

  test('nothing is left for later', () => {
    const later = /\b(?:TOD[O]|FIXM[E]|XX[X])\b/;
    const left = everything.filter((file) => later.test(file.text)).map((file) => file.path);
    const others = ['bin/run', 'bin/postern', '.ci/run'].filter((path) =>
      later.test(readFileSync(join(ROOT, path), 'utf8')),
    );
    expect([...left, ...others]).toEqual([]);
  });

  test('privacy is the language’s: #private, not a keyword of TypeScript', () => {
    expect(places(src, /^\s+(?:private|protected(?! override)|public)\s/)).toEqual([]);
  });
});
