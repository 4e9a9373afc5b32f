import { execFile } from 'node:child_process';
import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { expect, test } from 'vitest';
import { stringify } from 'yaml';
import { ROOT } from '../docs/markdown.ts';
import { startTestWorld } from '../harness/daemon.ts';
import { unpacked } from '../harness/debian.ts';
import { dashboardQueries, readMetrics } from '../harness/monitoring.ts';
import { temporaryFolder } from '../harness/store.ts';

const promtool = join(unpacked('prometheus'), 'usr/bin/promtool');
const run = promisify(execFile);

test('promtool takes the alert rules, and they fire when they should', async () => {
  const rules = join(ROOT, 'monitoring/alerts.yml');
  expect((await run(promtool, ['check', 'rules', '--lint=all', '--lint-fatal', rules])).stdout).toContain('SUCCESS');
  await run(promtool, ['test', 'rules', join(ROOT, 'monitoring/alerts.test.yml')]);
});

test('promtool takes every query of the dashboard', async () => {
  const file = join(await temporaryFolder(), 'queries.yml');
  const rules = dashboardQueries().map((expr, i) => ({ record: `query:${i}`, expr }));
  await writeFile(file, stringify({ groups: [{ name: 'dashboard', rules }] }));
  expect((await run(promtool, ['check', 'rules', file])).stdout).toContain(`${rules.length} rules found`);
});

test('promtool finds nothing to say about the metrics themselves', async () => {
  const world = await startTestWorld();
  await world.post('/example.test/contact', { message: 'hello' });
  await world.caught(1);
  const checking = run(promtool, ['check', 'metrics']);
  checking.child.stdin?.end(await readMetrics(world.daemon));
  expect(await checking).toEqual({ stdout: '', stderr: '' });
});
