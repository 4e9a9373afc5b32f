import { describe, expect, test } from 'vitest';
import { importsOf, readSources, withoutComments, type SourceFile } from './sources.ts';

const FOUNDATION = ['config', 'dns', 'store', 'mail', 'templates'];
const ACCOUNTS = ['accounts', 'domains', 'smtp-client', 'queue', 'events'];
const SERVICES = ['forms', 'transactional', 'smtp'];

/** What each folder of src may import beside itself (docs/architecture.md): all imports point one way. */
const MAY_IMPORT: Readonly<Record<string, readonly string[]>> = {
  lib: [],
  contract: ['lib'],
  languages: ['lib'],
  ...Object.fromEntries(FOUNDATION.map((part) => [part, ['lib', 'languages']])),
  accounts: ['lib', 'languages', ...FOUNDATION],
  domains: ['lib', ...FOUNDATION, 'accounts'],
  queue: ['lib', ...FOUNDATION],
  'smtp-client': ['lib', ...FOUNDATION, 'queue'],
  events: ['lib', ...FOUNDATION, 'queue'],
  ...Object.fromEntries(SERVICES.map((part) => [part, ['lib', 'languages', ...FOUNDATION, ...ACCOUNTS]])),
  transactional: ['lib', 'contract', ...FOUNDATION, ...ACCOUNTS],
  doctor: ['lib', ...FOUNDATION, ...ACCOUNTS],
  explain: ['lib', ...FOUNDATION, ...ACCOUNTS, ...SERVICES],
  http: ['lib', 'languages', 'contract', ...FOUNDATION, ...ACCOUNTS, 'forms', 'transactional'],
  // Types alone: test/console/ holds it.
  console: ['contract', 'lib'],
  cli: ['lib', 'contract', 'config', 'templates', 'store'],
  daemon: ['lib', 'contract', ...FOUNDATION, ...ACCOUNTS, ...SERVICES, 'doctor', 'explain', 'http'],
  dev: ['lib', ...FOUNDATION, ...ACCOUNTS, ...SERVICES, 'doctor', 'explain', 'http', 'daemon'],
  main: ['lib', ...FOUNDATION, ...ACCOUNTS, ...SERVICES, 'doctor', 'explain', 'http', 'daemon', 'dev', 'cli'],
};

/** A folder directly below src, or `main.ts`. */
function partOf(path: string): string {
  return path.split('/')[1]?.replace(/\.ts$/, '') ?? '';
}

const sources = readSources('src');

describe('imports', () => {
  test('point one way', () => {
    const broken = sources.flatMap(({ path, imports }) => {
      const part = partOf(path);
      const known = new Set([part, ...(MAY_IMPORT[part] ?? [])]);
      return imports.filter((target) => !known.has(partOf(target))).map((target) => `${path} imports ${target}`);
    });
    expect(broken).toEqual([]);
  });

  test('are held for every folder of src', () => {
    expect(Object.keys(MAY_IMPORT)).toEqual(expect.arrayContaining(sources.map((file) => partOf(file.path))));
  });

  test('lead to files that exist', () => {
    const paths = new Set(sources.map((file) => file.path));
    const lost = sources.flatMap((file) =>
      file.imports.filter((target) => target.startsWith('src/') && target.endsWith('.ts') && !paths.has(target)),
    );
    expect(lost).toEqual([]);
  });

  test('make no circle', () => {
    expect(findCycle(sources)).toBeUndefined();
  });

  test('of src stay inside src', () => {
    const outside = sources.flatMap((file) => file.imports.filter((target) => !target.startsWith('src/')));
    expect(outside).toEqual([]);
  });
});

describe('the reader of imports itself', () => {
  test('finds every way to name a file', () => {
    const code = `import a from './a.ts';\nimport {\n  b,\n} from './b.ts';\nimport type { C } from './c.ts';\nexport { d } from './d.ts';
      import './e.ts'; await import('./f.ts'); new Worker(new URL('./g.ts', import.meta.url));`;
    expect(importsOf(code).map((name) => name.charAt(2))).toEqual(['a', 'b', 'c', 'd', 'e', 'f', 'g']);
  });

  test('is not led astray by comments, nor blind behind something that looks like one', () => {
    const code = "// import './a.ts'\n/* import './b.ts' */ const url = 'http://x'; import('./c.ts');";
    expect(importsOf(withoutComments(code))).toEqual(['./c.ts']);
  });

  test('finds a circle and names its files', () => {
    const files = [
      { path: 'a', imports: ['b'] },
      { path: 'b', imports: ['c'] },
      { path: 'c', imports: ['b'] },
    ];
    expect(findCycle(files)).toEqual(['b', 'c', 'b']);
    expect(findCycle(files.slice(0, 2))).toBeUndefined();
  });
});

/** The files of one import cycle, the first repeated at the end, or undefined. */
function findCycle(files: readonly Pick<SourceFile, 'path' | 'imports'>[]): string[] | undefined {
  const imports = new Map(files.map((file) => [file.path, file.imports]));
  const done = new Set<string>();
  const trail: string[] = [];
  function walk(path: string): string[] | undefined {
    if (trail.includes(path)) return [...trail.slice(trail.indexOf(path)), path];
    if (done.has(path)) return undefined;
    trail.push(path);
    for (const next of imports.get(path) ?? []) {
      const cycle = walk(next);
      if (cycle) return cycle;
    }
    trail.pop();
    done.add(path);
    return undefined;
  }
  for (const { path } of files) {
    const cycle = walk(path);
    if (cycle) return cycle;
  }
  return undefined;
}
