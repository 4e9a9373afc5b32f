/** The alert rules and the dashboard in monitoring/ name metrics and labels that a daemon shows. */
import { expect, test } from 'vitest';
import { selfSignedCertificate } from '../../src/lib/x509.ts';
import { startTestWorld } from '../harness/daemon.ts';
import { alertRules, dashboardQueries, readMetrics } from '../harness/monitoring.ts';

test('each metric that alert rules and the dashboard name exists, with its labels', async () => {
  const files = selfSignedCertificate(['mail.postern.test'], Date.now());
  const world = await startTestWorld({ server: { tls: { mode: 'files', files } } });
  await world.post('/example.test/contact', { message: 'hello' });
  await world.caught(1);
  const shown = () => readMetrics(world.daemon);
  await expect.poll(shown).toContain('postern_deliveries_total{');
  const text = await shown();
  const names = new Set([...text.matchAll(/^# TYPE (\S+)/gm)].map(([, name]) => name));
  const labels = new Set([...text.matchAll(/[{,]([a-z_]+)="/g)].map(([, label]) => label));
  const queries = [...alertRules().map(({ expr }) => expr), ...dashboardQueries()];
  expect(queries.length).toBeGreaterThan(30);
  for (const query of queries) {
    const named = [...query.matchAll(/\b(?:postern|process)_\w+/g)].map(([name]) => name);
    const missing = named.filter((name) => !names.has(name) && !names.has(name.replace(/_(?:bucket|sum|count)$/, '')));
    expect(missing, query).toEqual([]);
    const used = [...query.matchAll(/[{,] *([a-z_]+)!?=~?"/g), ...query.matchAll(/by \(([a-z_, ]+)\)/g)]
      .flatMap(([, list = '']) => list.split(/, */))
      .filter((label) => !OF_PROMETHEUS.has(label));
    expect(
      used.filter((label) => !labels.has(label) && !OF_WAITING.has(label)),
      query,
    ).toEqual([]);
  }
});

/** Labels that Prometheus adds. */
const OF_PROMETHEUS: ReadonlySet<string> = new Set(['job', 'instance']);
/** Those of deliveries that wait, of which there are none by now. */
const OF_WAITING: ReadonlySet<string> = new Set(['state', 'transport']);
