import { readFile, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import { parse, stringify } from 'yaml';
import { startTestWorld } from '../harness/daemon.ts';
import { runOperator } from '../harness/terminal.ts';

test('reload says what was applied, what waits for a restart, and what is wrong', async () => {
  const { daemon, folder } = await startTestWorld({ server: { server: { watch: false } } });
  const reload = (...flags: string[]) => runOperator(daemon.addresses?.socket ?? '', ['reload', ...flags]);
  const file = join(folder, 'server.yml');
  const project = join(folder, 'projects/site.yml');
  const site = await readFile(project, 'utf8');
  const server = await readFile(file, 'utf8');
  async function change(more: Readonly<Record<string, object>>): Promise<void> {
    const sections: Record<string, object> = parse(server);
    for (const [name, keys] of Object.entries(more)) sections[name] = { ...sections[name], ...keys };
    await writeFile(file, stringify(sections));
  }

  const nothing = 'Nothing has changed since the last reload.\n';
  expect(await reload()).toEqual({ code: 0, out: nothing, err: '' });

  await change({ retention: { events: '20d' }, server: { roles: ['http', 'delivery'], watch: false } });
  await change({
    retention: { events: '20d' },
    server: { ...(parse(server) as { server: object }).server, roles: ['http', 'delivery'] },
  });
  expect(await reload()).toEqual({
    code: 0,
    out: `${file}: 1 change applied\n  ~ retention.events\nTakes effect after a restart: server.roles\n`,
    err: '',
  });
  expect(daemon.snapshot().server.retention.events).toBe(20 * 86_400_000);
  // What waits goes on waiting.
  expect(await reload()).toMatchObject({ code: 0, out: `${nothing}Takes effect after a restart: server.roles\n` });

  await writeFile(file, server);
  await writeFile(project, site.replace('slug: site', 'slug: [site]'));
  const mixed = await reload();
  expect(mixed).toMatchObject({ code: 1, out: `${file}: 1 change applied\n  ~ retention.events\n` });
  expect(mixed.err).toMatch(/projects\/site\.yml:\d+:\d+: project\.slug: /);
  expect(mixed.err).toContain('stays active');

  await writeFile(project, site);
  await change({ server: { hostname: 'not a name' } });
  const refused = await reload('--json');
  expect(refused.code).toBe(1);
  expect(JSON.parse(refused.out)).toEqual({
    outcome: expect.stringMatching(/^(?:applied|refused)$/),
    changes: [],
    waiting: [],
    problems: [
      expect.stringContaining('stays active'),
      expect.stringMatching(/server\.yml:\d+:\d+: server\.hostname: /),
    ],
  });
  expect(daemon.snapshot().server.server.hostname).toBe('mail.postern.test');
});
