/** What monitoring/ ships, and what a daemon shows Prometheus. */
import { readFileSync } from 'node:fs';
import { get } from 'node:http';
import { join } from 'node:path';
import { text as textOf } from 'node:stream/consumers';
import { parse } from 'yaml';
import { z } from 'zod';
import type { Daemon } from '../../src/daemon/daemon.ts';
import { ROOT } from '../docs/markdown.ts';

/** `GET /metrics` on the Unix socket. */
export function readMetrics({ addresses }: Pick<Daemon, 'addresses'>): Promise<string> {
  return new Promise((resolve, reject) => {
    get({ socketPath: addresses?.socket, path: '/metrics' }, (response) => {
      textOf(response).then(resolve, reject);
    }).on('error', reject);
  });
}

const rule = z.object({ alert: z.string(), expr: z.string(), annotations: z.record(z.string(), z.string()) });

export function alertRules(): z.output<typeof rule>[] {
  const text = readFileSync(join(ROOT, 'monitoring/alerts.yml'), 'utf8');
  const file = z.object({ groups: z.array(z.object({ rules: z.array(rule) })) }).parse(parse(text));
  return file.groups.flatMap(({ rules }) => rules);
}

const dashboard = z.object({
  annotations: z.object({ list: z.array(z.object({ expr: z.string() })) }),
  panels: z.array(z.object({ targets: z.array(z.object({ expr: z.string() })) })),
});

/** All queries of the dashboard, with values for its variables. */
export function dashboardQueries(): string[] {
  const { annotations, panels } = dashboard.parse(
    JSON.parse(readFileSync(join(ROOT, 'monitoring/dashboard.json'), 'utf8')),
  );
  return [...annotations.list, ...panels.flatMap(({ targets }) => targets)].map(({ expr }) =>
    expr.replaceAll('$__rate_interval', '5m').replaceAll('$job', 'postern'),
  );
}
